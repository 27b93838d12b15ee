"""The number of ranks changes by recorded transitions, and no bit of the states does; without one it is refused."""

import contextlib
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.command import checkpoints, start, tiny, tutti
from tests.e2e.conftest import LONG_EVERY, LONG_STEPS
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
STEPS = (f"train.steps={LONG_STEPS}", f"train.checkpoint_every={LONG_EVERY}")
Begun = tuple[subprocess.Popen[str], Client, Path]


def way(number: int) -> list[int]:
    """Numbers of ranks, each another than the one before; the first way is the same everywhere."""
    if number == 0:
        return [4, 2, 3, 1, 4]
    chance, ranks = random.Random(number), [number % 8 + 1]
    while len(ranks) < 5:
        ranks.append(chance.choice([each for each in range(1, 9) if each != ranks[-1]]))
    return ranks


@contextlib.contextmanager
def training(data_dir: Path, pages: Path, ranks: int) -> Iterator[Begun]:
    """A run that trains, a client of its platform, and its folder."""
    process = start(*tiny(data_dir, pages, f"train.ranks={ranks}", *STEPS))
    try:
        until((data_dir / "endpoint").exists, seconds=60, what="the platform")
        with connect(data_dir=data_dir) as client:
            until(lambda: job(client).state == JOB_STATE_RUNNING, seconds=60, what="training")
            yield process, client, data_dir
    finally:
        process.terminate()
        process.communicate(timeout=400)


@pytest.fixture(scope="module")
def first_way(
    states_of_a_long_run: dict[int, str], pages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Begun]:
    """A run on the first number of ranks of the first way, which goes that way later. What it is compared with is there
    before it begins, since it does not wait."""
    with training(tmp_path_factory.mktemp("bent") / "data", pages, way(0)[0]) as begun:
        yield begun


def job(client: Client) -> Job:
    with contextlib.suppress(Problem):
        for found in client.scheduler.ListJobs(ListRequest()).jobs:
            return found
    return Job()


def test_without_a_transition_and_beyond_the_leaves_it_is_refused(first_way: Begun) -> None:
    _, client, data_dir = first_way
    found = job(client)
    refused, dry = (
        tutti("jobs", "reshape", found.name, "--dp", *options, "--data-dir", data_dir)
        for options in (["9"], ["2", "--dry-run"])
    )
    until(lambda: job(client).decided_step > 0, seconds=60, what="a checkpoint of its first ranks")
    request = OpenEpochRequest(
        job=found.name,
        epoch=found.epoch + 1,
        shape=to_wire(Shape(dp=3)),
        training=found.spec.training,
        training_digest=found.spec.training_digest,
        dataset_digest=found.spec.dataset_digest,
        nodes=1,
    )
    with connect(data_dir=data_dir, role=Role.SERVICE) as scheduler:
        with pytest.raises(Refused) as none:
            scheduler.committer.OpenEpoch(request)
        request.transition = "transitions/of-another-job/1"
        with pytest.raises(InvalidField) as strange:
            scheduler.committer.OpenEpoch(request)
    line = client.committer.GetLine(GetRequest(name=f"lines/{found.name.removeprefix('jobs/')}/0"))
    versions, garbage = (
        tutti(*command, "-o", "json", "--data-dir", data_dir) for command in (("topologies", "ls"), ("gc", "--dry-run"))
    )
    assert refused.code == 2
    assert "8" in refused.err
    assert (dry.code, "unspecified" in dry.out, "nothing was changed" in dry.err) == (0, False, True)
    assert (none.value.reason, strange.value.field) == ("TRANSITION_REQUIRED", "transition")
    assert (line.epoch, line.shape.data_parallel) == (found.epoch, way(0)[0])
    assert [(each["job"], each["version"], each["ranks"]) for each in versions.json()] == [(found.name, 1, way(0)[0])]
    assert garbage.json() == []


@pytest.mark.parametrize("number", range(WAYS), ids=lambda number: "-".join(map(str, way(number))))
def test_a_way_of_transitions_gives_the_states_of_an_undisturbed_run(
    number: int,
    states_of_a_long_run: dict[int, str],
    request: pytest.FixtureRequest,
    pages: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    assert number < scale(test=1, soak=12)
    first, *later = way(number)
    with contextlib.ExitStack() as stack:
        begun: Begun = (
            request.getfixturevalue("first_way")
            if number == 0
            else stack.enter_context(training(tmp_path / "bent", pages, first))
        )
        process, client, _ = begun
        decided = 0
        for epoch, ranks in enumerate(later, start=2):
            until(lambda: job(client).decided_step > decided, seconds=90, what=f"a checkpoint of epoch {epoch - 1}")  # noqa: B023
            asked = ReshapeJobRequest(request_id=f"way-{epoch}", job=job(client).name, data_parallel=ranks)
            client.scheduler.ReshapeJob(asked)
            until(lambda: job(client).epoch >= epoch, seconds=90, what=f"epoch {epoch}")  # noqa: B023
            decided = job(client).decided_step
        out, err = process.communicate(timeout=400)
        assert process.returncode == 0, err
    bent = json.loads(out)
    assert checkpoints(bent) == states_of_a_long_run
    assert bent["train"]["shape"]["data_parallel"] == later[-1]
    history = "\n".join(bent["train"]["history"])
    record_property("said", f"seed {number}, count of equal checkpoints {len(states_of_a_long_run)}\n{history}")
