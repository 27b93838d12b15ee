"""SIGKILL of every process at a named moment, then the same command again: nothing was lost, nothing doubled.

A moment is (stage, n-th event, seed): the address of the platform or the n-th blob of a stage becomes visible, and a
delay follows from the seed. The oracle is the canonical export, compared byte for byte with that of a run that nobody
killed. One moment is repeated by its name: `pytest tests/faults/kill_test.py -k trainer-6-1`.
"""

from pathlib import Path

import pytest

from tests.e2e.command import checkpoints, platform, start, tiny, tutti
from tests.faults.moments import Moment
from tests.faults.processes import blobs, family, kill_all, until
from tests.scale import SOAK, scale

pytestmark = pytest.mark.timeout(900)
START = "platform"
EVENTS = {START: 1, "ingest": 6, "dedup": 2, "tokenization": 4, "trainer": 16, "committer": 8}
"""Of every stage how many events an undisturbed run has."""


SOME = [Moment("ingest", 2, 1), Moment("tokenization", 4, 1), Moment("trainer", 6, 1), Moment("committer", 4, 1)]
ALL = [Moment(stage, nth, seed) for seed in (1, 2) for stage, count in EVENTS.items() for nth in range(1, count + 1)]


def events(data_dir: Path, stage: str) -> int:
    """How many there have been."""
    return int((data_dir / "endpoint").exists()) if stage == START else blobs(data_dir, stage)


def exported(data_dir: Path) -> str:
    with platform(data_dir):
        result = tutti("export", "--canonical", "--data-dir", data_dir)
    assert result.code == 0, result.err
    return result.out


class Undisturbed:
    """A platform that nobody kills. Whoever is killed in his last moment has a finished run, and starts another."""

    def __init__(self, data_dir: Path, pages: Path) -> None:
        self._data_dir, self._pages = data_dir, pages
        self._canonical: dict[str, str] = {}
        self.states = self._run()

    def canonical(self, run: str) -> str:
        """The export once this run is the newest one."""
        if run not in self._canonical:
            self._run()
        return self._canonical[run]

    def _run(self) -> dict[int, str]:
        result = tutti(*tiny(self._data_dir, self._pages), seconds=400)
        assert result.code == 0, result.err
        self._canonical[result.json()["run"]["name"]] = exported(self._data_dir)
        return checkpoints(result.json())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, pages: Path) -> Undisturbed:
    scale(test=len(SOME), soak=len(ALL))
    data_dir = tmp_path_factory.mktemp("undisturbed") / "data"
    found = Undisturbed(data_dir, pages)
    assert {START: 1, **{stage: blobs(data_dir, stage) for stage in EVENTS if stage != START}} == EVENTS
    return found


@pytest.mark.parametrize("moment", ALL if SOAK else SOME, ids=str)
def test_a_killed_platform_goes_on_where_it_was(
    moment: Moment, undisturbed: Undisturbed, pages: Path, tmp_path: Path
) -> None:
    print(
        f"moment {moment}: event {moment.nth} of {EVENTS[moment.stage]} of {moment.stage}, {moment.delay:.3f} s later"
    )
    data_dir = tmp_path / "data"
    process = start(*tiny(data_dir, pages))
    until(
        lambda: events(data_dir, moment.stage) >= moment.nth or process.poll() is not None,
        seconds=180,
        what=str(moment),
    )
    assert process.poll() is None, process.communicate()[1]
    moment.linger()
    assert kill_all(data_dir, process.pid) >= 2
    process.communicate(timeout=30)
    again = tutti(*tiny(data_dir, pages), seconds=400)
    assert again.code == 0, again.err
    assert checkpoints(again.json()) == undisturbed.states
    assert exported(data_dir) == undisturbed.canonical(again.json()["run"]["name"])
    assert family(data_dir) == []
