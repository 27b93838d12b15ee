"""The commit protocol, killed at every point: no wrong promotion, no decision lost, no manifest of damaged chunks."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tutti.committer.garbage
import tutti.committer.service
from tests.scale import parts, rotated, scale
from tutti.backbone.recording import Operation
from tutti.chassis.store.unit import Unit
from tutti.checkpoints import CheckpointBody
from tutti.committer.commits import Commits
from tutti.committer.garbage import Stored
from tutti.committer.records import DecisionRow, EpochRow

from .story import Outcome, tell

PARTS = 2
BEYOND = 1 << 40


class PublishesFirst(Commits):
    """A committer that makes the manifest visible before its decision is a row."""

    def _record(self, unit: Unit, seen: EpochRow, row: DecisionRow, body: CheckpointBody) -> bool:
        self.host.blobs.put_if_absent(row.manifest_key, row.manifest)
        return super()._record(unit, seen, row, body)


class ForgetsAtRestart(Commits):
    """A committer that publishes what it remembers, not what the decisions say."""

    def _publish(self, job: str) -> bool:
        rows = self.host.units.run(lambda unit: self.records.unpublished(unit, job))
        mine = self.__dict__.setdefault("mine", set())
        return super()._publish(job) if mine.issuperset(row.name for row in rows) else False

    def _record(self, unit: Unit, seen: EpochRow, row: DecisionRow, body: CheckpointBody) -> bool:
        self.__dict__.setdefault("mine", set()).add(row.name)
        return super()._record(unit, seen, row, body)


@parts(PARTS)
def test_killed_after_every_change_of_a_port_nothing_wrong_is_promoted_and_nothing_decided_is_lost(
    memory: Path, part: int
) -> None:
    whole = tell(memory / "whole")
    assert not whole.violations
    points = rotated(range(part, len(whole.points), PARTS), test=6)
    outcomes = {point: tell(memory / str(point), crash_at=point) for point in points}
    killed = Counter(whole.points[point] for point in points)
    print(
        f"count of port changes killed after: {len(points)} of {len(whole.points)}, wrong promotions: 0: {dict(killed)}"
    )
    assert all(outcome.crashed for outcome in outcomes.values())
    assert not {point: outcome.violations for point, outcome in outcomes.items() if outcome.violations}
    assert all(outcome.export == whole.export for outcome in outcomes.values())


@parts(PARTS)
def test_killed_at_every_file_operation_with_what_was_not_synced_lost_nothing_wrong_is_promoted(
    memory: Path, part: int
) -> None:
    whole = tell(memory / "whole", file_crash_at=BEYOND)
    assert not whole.violations
    operations = rotated([each.number for each in whole.operations if each.number % PARTS == part], test=8)
    seeds = scale(test=1, soak=20)
    for seed in range(seeds):
        outcomes = {number: tell(memory / f"{seed}.{number}", file_crash_at=number, seed=seed) for number in operations}
        assert all(outcome.crashed for outcome in outcomes.values())
        assert not {number: outcome.violations for number, outcome in outcomes.items() if outcome.violations}
        assert all(outcome.export == whole.export for outcome in outcomes.values())
    killed = Counter(whole.operations[number].kind for number in operations)
    count = f"{len(operations)} of {len(whole.operations)}, seeds {seeds}"
    print(f"count of file operations killed at: {count}, wrong promotions: 0: {dict(killed)}")


def test_killed_again_and_again_the_state_is_that_of_an_undisturbed_life(memory: Path) -> None:
    whole = tell(memory / "whole")
    stories = rotated(range(1_000), test=2)
    for seed in stories:
        chance = random.Random(seed)
        first, *later = (chance.randrange(len(whole.points)) for _ in range(chance.randint(2, 5)))
        outcome = tell(memory / str(seed), crash_at=first, later=later)
        assert not outcome.violations, f"seed {seed}: killed at {first}, then {later}"
        assert outcome.export == whole.export, f"seed {seed}: killed at {first}, then {later}"
    print(f"count of stories killed up to five times: seeds {stories[0]} to {stories[-1]}, wrong promotions: 0")


def first_violation(run: Callable[[int], Outcome], numbers: range) -> str:
    """The first thing that a campaign finds wrong; empty when it finds nothing."""
    return next((found for number in numbers for found in run(number).violations), "")


@pytest.mark.parametrize(
    ("mutant", "named"), [(PublishesFirst, "visible without a decision"), (ForgetsAtRestart, "was never announced")]
)
def test_control_a_committer_that_publishes_wrongly_is_caught(
    memory: Path, monkeypatch: pytest.MonkeyPatch, mutant: type[Commits], named: str
) -> None:
    monkeypatch.setattr(tutti.committer.service, "Commits", mutant)
    points = tell(memory / "whole").points
    put = points.index("put committer/manifests")
    found = first_violation(lambda point: tell(memory / str(point), crash_at=point), range(put - 1, put + 3))
    assert named in found


@pytest.mark.parametrize(
    ("mutant", "named"),
    [
        (lambda stored, *, below, kept: [each for each in stored if each.name.epoch < below], "visible, but damaged"),
        (lambda stored, *, below, kept: [], "was left behind"),
    ],
    ids=["too much", "nothing"],
)
def test_control_a_committer_that_collects_the_wrong_garbage_is_caught(
    memory: Path, monkeypatch: pytest.MonkeyPatch, mutant: Callable[..., list[Stored]], named: str
) -> None:
    monkeypatch.setattr(tutti.committer.garbage, "undecided", mutant)
    assert named in first_violation(lambda _: tell(memory / "whole"), range(1))


@pytest.mark.parametrize("kind", ["fsync", "fsync_folder"])
def test_control_a_store_without_this_sync_is_caught(memory: Path, kind: str) -> None:
    def skipped(operation: Operation) -> bool:
        return operation.kind == kind

    operations = tell(memory / "whole", file_crash_at=BEYOND, skipped=skipped).operations
    published = next(each.number for each in operations if each.kind == "link" and "manifests" in each.path.parts)

    def run(seed: int) -> Outcome:
        return tell(memory / str(seed), file_crash_at=published + 3, seed=seed, skipped=skipped)

    assert first_violation(run, range(40))
