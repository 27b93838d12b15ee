"""The number of ranks changes by recorded transitions, and no bit of the states does; without one it is refused."""

import contextlib
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.command import checkpoints, start, tiny, tutti
from tests.faults.processes import until
from tests.scale import SOAK, scale
from tutti.chassis.errors import InvalidField, Refused
from tutti.chassis.identity.auth import Role
from tutti.client import Client, Problem, connect
from tutti.contracts.committer.v1 import OpenEpochRequest
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.scheduler.v1 import JOB_STATE_RUNNING, Job, ReshapeJobRequest
from tutti.model.plan import Shape
from tutti.model.shapes import to_wire

WAYS = 12 if SOAK else 1
STEPS = ("train.steps=120", "train.checkpoint_every=10")


def way(number: int) -> list[int]:
    """Numbers of ranks, each another than the one before; the first way is the same everywhere."""
    if number == 0:
        return [4, 2, 3, 1, 4]
    chance, ranks = random.Random(number), [number % 8 + 1]
    while len(ranks) < 5:
        ranks.append(chance.choice([each for each in range(1, 9) if each != ranks[-1]]))
    return ranks


@pytest.fixture(scope="module")
def straight(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Step to state digest of an undisturbed run."""
    result = tutti(*tiny(tmp_path_factory.mktemp("straight") / "data", pages, "train.ranks=2", *STEPS))
    assert result.code == 0, result.err
    return checkpoints(result.json())


@contextlib.contextmanager
def training(data_dir: Path, pages: Path, ranks: int) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """A run that trains, and a client of its platform."""
    process = start(*tiny(data_dir, pages, f"train.ranks={ranks}", *STEPS))
    try:
        until((data_dir / "endpoint").exists, seconds=60, what="the platform")
        with connect(data_dir=data_dir) as client:
            until(lambda: job(client).state == JOB_STATE_RUNNING, seconds=60, what="training")
            yield process, client
    finally:
        process.terminate()
        process.communicate(timeout=400)


def job(client: Client) -> Job:
    with contextlib.suppress(Problem):
        for found in client.scheduler.ListJobs(ListRequest()).jobs:
            return found
    return Job()


@pytest.mark.parametrize("number", range(WAYS), ids=lambda number: "-".join(map(str, way(number))))
def test_a_way_of_transitions_gives_the_states_of_an_undisturbed_run(
    number: int,
    straight: dict[int, str],
    pages: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    assert number < scale(test=1, soak=12)
    first, *later = way(number)
    with training(tmp_path / "bent", pages, first) as (process, client):
        decided = 0
        for epoch, ranks in enumerate(later, start=2):
            until(lambda: job(client).decided_step > decided, seconds=90, what=f"a checkpoint of epoch {epoch - 1}")  # noqa: B023
            request = ReshapeJobRequest(request_id=f"way-{epoch}", job=job(client).name, data_parallel=ranks)
            client.scheduler.ReshapeJob(request)
            until(lambda: job(client).epoch >= epoch, seconds=90, what=f"epoch {epoch}")  # noqa: B023
            decided = job(client).decided_step
        out, err = process.communicate(timeout=400)
        assert process.returncode == 0, err
    bent = json.loads(out)
    assert checkpoints(bent) == straight
    assert bent["train"]["shape"]["data_parallel"] == later[-1]
    history = "\n".join(bent["train"]["history"])
    record_property("said", f"seed {number}, count of equal checkpoints {len(straight)}\n{history}")


def test_without_a_transition_and_beyond_the_leaves_it_is_refused(pages: Path, tmp_path: Path) -> None:
    with training(tmp_path / "data", pages, 1) as (_, client):
        found = job(client)
        refused, dry = (
            tutti("jobs", "reshape", found.name, "--dp", *options, "--data-dir", tmp_path / "data")
            for options in (["9"], ["2", "--dry-run"])
        )
        until(lambda: job(client).decided_step > 0, seconds=60, what="a checkpoint of one rank")
        request = OpenEpochRequest(
            job=found.name,
            epoch=found.epoch + 1,
            shape=to_wire(Shape(dp=3)),
            training=found.spec.training,
            training_digest=found.spec.training_digest,
            dataset_digest=found.spec.dataset_digest,
            nodes=1,
        )
        with connect(data_dir=tmp_path / "data", role=Role.SERVICE) as scheduler:
            with pytest.raises(Refused) as none:
                scheduler.committer.OpenEpoch(request)
            request.transition = "transitions/of-another-job/1"
            with pytest.raises(InvalidField) as strange:
                scheduler.committer.OpenEpoch(request)
        line = client.committer.GetLine(GetRequest(name=f"lines/{found.name.removeprefix('jobs/')}/0"))
        versions, garbage = (
            tutti(*command, "-o", "json", "--data-dir", tmp_path / "data")
            for command in (("topologies", "ls"), ("gc", "--dry-run"))
        )
    assert refused.code == 2
    assert "8" in refused.err
    assert (dry.code, "unspecified" in dry.out, "nothing was changed" in dry.err) == (0, False, True)
    assert (none.value.reason, strange.value.field) == ("TRANSITION_REQUIRED", "transition")
    assert (line.epoch, line.shape.data_parallel) == (found.epoch, 1)
    assert [(each["job"], each["version"], each["ranks"]) for each in versions.json()] == [(found.name, 1, 1)]
    assert garbage.json() == []
