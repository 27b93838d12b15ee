"""Results with damaged blobs are made again with the same bytes, by the work that made them; missing ones are not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, TaskWorker, WorkFailed
from tutti.chassis.tasks_test import TTL, Bench
from tutti.chassis.work.work import Outcome, Work, publish, put_named
from tutti.contracts.dedup.v1 import CreateDedupRequest, Dedup, DedupSpec
from tutti.records.canonical import bytes_digest
from tutti.records.manifest import Kind, Manifest
from tutti.upkeep import scrub
from tutti.upkeep.remaking import remade
from tutti.upkeep.scrubs import Scrub


@dataclass
class Made:
    """A service whose work stored two blobs and the manifest that names them."""

    bench: Bench
    blobs: EmbeddedBlobs
    folder: Path
    content: list[bytes] = field(default_factory=lambda: [b"first", b"second"])
    failure: str = ""
    keys: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.work: Work[Dedup] = Work(self.bench, "dedups", Dedup, self.run, "v1")
        self.bench.database.create(self.bench.metadata)
        self.worker = TaskWorker(self.bench, {"dedups": self.work.task()}, holder="a", ttl=TTL)
        self.work.create(CreateDedupRequest(name="dedups/a", request_id="a", spec=DedupSpec(manifest_key="m")))
        assert self.worker.step()
        self.done = self.dedup()
        self.keys.append(self.done.result.manifest_key)

    def run(self, context: TaskContext, dedup: Dedup) -> Outcome:
        if self.failure:
            raise WorkFailed(self.failure)
        keys = [put_named(self.blobs, "dedup/clusters", each, ".bin") for each in self.content]
        entries = [
            {"key": key, "bytes_digest": bytes_digest(each)} for key, each in zip(keys, self.content, strict=True)
        ]
        self.keys = self.keys or keys
        manifest = Manifest(kind=str(Kind.DEDUP), body={"blobs": entries}, parents=(), producer="test")
        result = publish(self.blobs, "dedup", manifest, data_bytes=0)

        def fill(unit: Unit, found: Dedup) -> None:
            found.result.CopyFrom(result)

        return fill

    def dedup(self) -> Dedup:
        return self.bench.units.run(lambda unit: self.work.resource.get(unit, "dedups/a"))

    def flip(self, key: str) -> bytes:
        path = self.folder / key
        whole = path.read_bytes()
        at = whole.index(b'"body"') + 3 if key == self.keys[-1] else 0
        path.chmod(0o644)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        return whole

    def scrub(self) -> Scrub:
        """Read all blobs and make again what can be made again."""
        found = Scrub(began_at=1, rate=0)
        for looked in scrub.look(self.blobs, "dedup/", lambda key: True):
            found = found.with_look(looked)
        for looked in remade(self.bench.units, self.blobs, [self.work], found):
            found = found.with_look(looked)
            if looked.pause:
                self.worker.step()
        return found


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    blobs = EmbeddedBlobs(tmp_path)
    bench = Bench(blobs, service="dedup")
    yield Made(bench, blobs, tmp_path)
    bench.database.close()


@pytest.mark.parametrize("which", [0, 2], ids=["blob", "manifest"])
def test_a_damaged_blob_of_a_result_has_its_bytes_again(made: Made, which: int) -> None:
    key = made.keys[which]
    whole = made.flip(key)
    found = made.scrub()
    assert (found.damages, len(found.repaired)) == (0, 1)
    assert found.repaired[0].startswith(key)
    assert (made.folder / key).read_bytes() == whole
    assert made.dedup() == made.done
    assert not made.worker.step()
    assert made.scrub().repaired == ()


def other_bytes(made: Made) -> None:
    made.content = [b"first", b"another"]


def no_input(made: Made) -> None:
    made.failure = "its input is gone"


@pytest.mark.parametrize(
    ("change", "reason"), [(other_bytes, "its stage gave other bytes"), (no_input, "its input is gone")]
)
def test_what_cannot_be_made_again_is_told_with_the_reason_and_the_result_stays(
    made: Made, change: Callable[[Made], None], reason: str
) -> None:
    made.flip(made.keys[1])
    change(made)
    found = made.scrub()
    assert (found.damages, found.repaired) == (1, ())
    assert f"it could not be made again: {reason}; run its recipe again" in found.damaged[0].message
    assert made.dedup() == made.done


def test_a_result_of_which_a_blob_was_deleted_is_not_made_again(made: Made) -> None:
    made.blobs.delete(made.keys[0])
    made.flip(made.keys[1])
    found = made.scrub()
    assert sorted(each.what for each in found.damaged) == sorted(made.keys[:2])
    assert not (made.folder / made.keys[0]).exists()
    messages = {each.what: each.message for each in found.damaged}
    assert "if nobody deleted it, run its recipe again" in messages[made.keys[0]]


def test_a_result_of_an_earlier_version_of_its_logic_is_not_made_again(made: Made) -> None:
    made.flip(made.keys[0])
    made.work.logic_version = "v2"
    assert (made.scrub().damages, made.worker.step()) == (1, False)
