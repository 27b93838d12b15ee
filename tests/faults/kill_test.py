"""SIGKILL of every process at a named moment, then the same command again: nothing was lost, nothing doubled.

A moment is "the n-th blob is visible", and a delay from a seed after it. The oracle is the canonical export, compared
byte for byte with that of a run that nobody killed.
"""

import random
import threading
from pathlib import Path

import pytest

from tests.e2e.command import checkpoints, platform, start, tiny, tutti
from tests.faults.processes import blobs, family, kill_all, until
from tests.scale import scale

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.timeout(7000)]
SEED = 20261121
LAST_DELAY_SECONDS = 0.3


def exported(data_dir: Path, pages: Path) -> str:
    """The canonical export; the platform is started for it by a run that reuses everything."""
    with platform(data_dir):
        result = tutti("export", "--canonical", "--data-dir", data_dir)
    assert result.code == 0, result.err
    return result.out


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, pages: Path) -> tuple[dict[int, str], str, int]:
    """States, export and number of blobs of a run that nobody killed."""
    data_dir = tmp_path_factory.mktemp("undisturbed") / "data"
    result = tutti(*tiny(data_dir, pages))
    assert result.code == 0, result.err
    return checkpoints(result.json()), exported(data_dir, pages), blobs(data_dir)


def test_a_killed_platform_goes_on_where_it_was(
    undisturbed: tuple[dict[int, str], str, int], pages: Path, tmp_path: Path
) -> None:
    states, canonical, count = undisturbed
    moments = scale(test=4, soak=50)
    source = random.Random(SEED)
    for number in range(moments):
        nth = 1 + number * count // moments
        delay = source.uniform(0, LAST_DELAY_SECONDS)
        print(f"moment {number}: blob {nth} of {count}, then {delay * 1000:.0f} ms; seed {SEED}")
        data_dir = tmp_path / f"killed-{number}"
        process = start(*tiny(data_dir, pages))
        until(
            lambda nth=nth, data_dir=data_dir, process=process: blobs(data_dir) >= nth or process.poll() is not None,  # type: ignore[misc]
            seconds=120,
            what=f"blob {nth}",
        )
        threading.Event().wait(delay)
        assert kill_all(data_dir, process.pid) >= 2
        process.communicate(timeout=30)
        again = tutti(*tiny(data_dir, pages))
        assert again.code == 0, again.err
        assert checkpoints(again.json()) == states
        assert exported(data_dir, pages) == canonical
        assert family(data_dir) == []
