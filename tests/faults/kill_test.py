"""SIGKILL of every process at a named moment, then the same command again: nothing was lost, nothing doubled.

A moment is (stage, n-th event, seed): the address of the platform or the n-th blob of a stage becomes visible, a site
is asked for the n-th time, and a delay follows from the seed. In `make test` one run is killed at some moments, one
after the other, other ones after each commit; at full number each moment has a run of its own, repeated by its name:
`-k trainer-6-1`.
"""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tools.exhibit_site import serving

from tests.e2e.command import checkpoints, platform, start, tiny, tutti
from tests.e2e.conftest import Finished
from tests.e2e.site import Counting, crawl, digests
from tests.faults.moments import Moment
from tests.faults.processes import blobs, family, kill_all, until
from tests.scale import SOAK, rotated

pytestmark = pytest.mark.timeout(1200)
START, CRAWL = "platform", "crawl"
QUESTIONS = 4  # between two moments of a crawl
OF_FOLDER = {START: 1, "ingest": 6, "dedup": 2, "tokenization": 4, "trainer": 16, "committer": 8}
OF_SITE = {
    START: 1, CRAWL: 40, "ingest": 7, "dedup": 2, "tokenization": 5, "trainer": 16, "committer": 8, "sampling": 1
}  # fmt: skip
"""Of every stage how many events an undisturbed run has."""
Arguments = list[str | Path]


class Undisturbed(ABC):
    """What a run makes that nobody kills, and how many events each stage of it has."""

    def __init__(self, data_dir: Path, summary: Any) -> None:
        self._data_dir, self.summary = data_dir, summary

    @abstractmethod
    def arguments(self, data_dir: Path) -> Arguments:
        """Of the command."""

    @abstractmethod
    def require(self, summary: Any, data_dir: Path) -> None:
        """AssertionError where a run that was killed made something else."""

    def made(self, events: Mapping[str, int]) -> None:
        """AssertionError unless there were as many blobs."""
        expected = {stage: count for stage, count in events.items() if stage not in (START, CRAWL)}
        assert {stage: blobs(self._data_dir, stage) for stage in expected} == expected

    def events(self, data_dir: Path, stage: str) -> int:
        """How many there have been of this run."""
        return int((data_dir / "endpoint").exists()) if stage == START else blobs(data_dir, stage)


class OfFolder(Undisturbed):
    """Pages of a folder. The oracle is the canonical export, compared byte for byte."""

    def __init__(self, data_dir: Path, pages: Path, summary: Any) -> None:
        self._pages, self._canonical = pages, dict[str, str]()
        super().__init__(data_dir, summary)
        self._keep(self.summary)
        self.made(OF_FOLDER)

    def arguments(self, data_dir: Path) -> Arguments:
        return tiny(data_dir, self._pages)

    def require(self, summary: Any, data_dir: Path) -> None:
        assert checkpoints(summary) == checkpoints(self.summary)
        name = summary["run"]["name"]
        if name not in self._canonical:  # it was killed in its last moment: what came now is another run
            self._keep(done(self.arguments(self._data_dir)))
        assert exported(data_dir) == self._canonical[name]

    def _keep(self, summary: Any) -> None:
        self._canonical[summary["run"]["name"]] = exported(self._data_dir)


class OfSite(Undisturbed):
    """A site, and every stage that a run can have. Its archives hold the time, so digests of the rest are compared."""

    def __init__(self, data_dir: Path, address: str, site: Counting) -> None:
        self._address, self.site = address, site
        super().__init__(data_dir, done(self.arguments(data_dir)))
        self.made(OF_SITE)
        assert 0 < self.summary["filter"]["documents"] < self.summary["ingest"]["documents"]
        assert site.asked.total() >= OF_SITE[CRAWL]

    def arguments(self, data_dir: Path) -> Arguments:
        more = ("train.steps=20", "quality.rules=c4", "index=true", "sample.prompts=This module", "sample.tokens=8")
        return crawl(data_dir, self._address, "input.crawl.delay_seconds=0.02", *more)

    def events(self, data_dir: Path, stage: str) -> int:
        return self.site.asked.total() if stage == CRAWL else super().events(data_dir, stage)

    def require(self, summary: Any, data_dir: Path) -> None:
        assert digests(summary) == digests(self.summary)
        assert summary["crawl"]["site_digest"] == self.summary["crawl"]["site_digest"]
        assert checkpoints(summary) == checkpoints(self.summary)
        assert summary["continuations"] == self.summary["continuations"]


def done(arguments: Arguments) -> Any:
    """Return the summary of a command that nobody kills."""
    result = tutti(*arguments, seconds=400)
    assert result.code == 0, result.err
    return result.json()


def exported(data_dir: Path) -> str:
    with platform(data_dir, agents=0):
        result = tutti("export", "--canonical", "--data-dir", data_dir)
    assert result.code == 0, result.err
    return result.out


Chain = tuple[Moment, ...]
OF_A_FOLDER, OF_A_SITE = 1, 2
"""About how many moments `make test` has of each."""
EACH = tuple(
    Moment(stage, nth, seed) for stage, count in OF_FOLDER.items() for nth in range(1, count + 1) for seed in (1, 2)
)
EACH_OF_SITE = tuple(
    Moment(stage, nth, 1)
    for stage, count in OF_SITE.items()
    for nth in range(1, count + 1)
    if stage != CRAWL or nth % QUESTIONS == 0
)


def chains(each: Chain, *, test: int) -> pytest.MarkDecorator:
    """Parametrizes a test by the moments at which its run is killed."""
    chosen = rotated(each, test=test)
    return pytest.mark.parametrize(
        "chain",
        [(moment,) for moment in chosen] if SOAK else [tuple(chosen)],
        ids=lambda chain: "-then-".join(map(str, chain)),
    )


@pytest.fixture(scope="module")
def of_folder(tmp_path_factory: pytest.TempPathFactory, pages: Path, finished: Finished) -> OfFolder:
    rotated(EACH, test=OF_A_FOLDER)  # for the summary, which shows what a test or fixture prints
    data_dir = finished.copied(tmp_path_factory.mktemp("undisturbed") / "data")
    return OfFolder(data_dir, pages, finished.summary)


@pytest.fixture(scope="module")
def of_site(tmp_path_factory: pytest.TempPathFactory, pages: Path) -> Iterator[OfSite]:
    rotated(EACH_OF_SITE, test=OF_A_SITE)
    site = Counting(pages)
    with serving(site) as address:
        yield OfSite(tmp_path_factory.mktemp("undisturbed") / "data", address, site)


@chains(EACH, test=OF_A_FOLDER)
def test_a_killed_platform_goes_on_where_it_was(chain: Chain, of_folder: OfFolder, tmp_path: Path) -> None:
    killed(chain, of_folder, tmp_path / "data")


@chains(EACH_OF_SITE, test=OF_A_SITE)
def test_a_killed_run_of_a_site_comes_to_the_same_samples(chain: Chain, of_site: OfSite, tmp_path: Path) -> None:
    of_site.site.asked.clear()
    killed(chain, of_site, tmp_path / "data")


def killed(chain: Chain, undisturbed: Undisturbed, data_dir: Path) -> None:
    """The same command again after each moment, and at the end with nobody who kills."""
    for moment in chain:
        print(f"moment {moment}: {moment.delay:.3f} s later")
        process = start(*undisturbed.arguments(data_dir))

        def there(moment: Moment = moment, process: subprocess.Popen[str] = process) -> bool:
            """What was killed just before its event may begin with it: then the moment is when a platform is there."""
            happened = undisturbed.events(data_dir, moment.stage) >= moment.nth
            return process.poll() is not None or (happened and len(family(data_dir, process.pid)) > 1)

        until(there, seconds=240, what=str(moment))
        assert process.poll() is None, process.communicate()[1]
        moment.linger()
        assert kill_all(data_dir, process.pid) >= 2
        process.communicate(timeout=400)
    undisturbed.require(done(undisturbed.arguments(data_dir)), data_dir)
    assert family(data_dir) == []
