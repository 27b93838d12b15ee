"""Real replicas of a small model, requests of every kind, and how an undisturbed engine answers them."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests import talks
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import RealFiles
from tutti.chassis.config.datadir import DataDir
from tutti.chat.children import ReplicaChild
from tutti.chat.replica.engine import Started, started
from tutti.checkpoints.keys import manifest_of
from tutti.inference.engine import Chosen, Ended, Join, Mode, Shaping
from tutti.inference.limits import Limits
from tutti.inference.sampling import Sampling
from tutti.trainer.io.staging import Cache

MODEL = replace(talks.MODEL, context=256)
START_SECONDS = 180.0
"""For a replica to import and start, however busy the machine is."""
SLOTS = 16
Events = list[Chosen | Ended]


def staged(folder: Path, job: str = "chat") -> Path:
    """The folder of a staged checkpoint with random parameters."""
    blobs = EmbeddedBlobs(folder / "blobs")
    made = talks.base(blobs, MODEL, job=job)
    (found,) = Cache(folder / "cache", blobs, RealFiles()).checkpoints({made.state_digest: manifest_of(made.name)})
    return found


def child(data_dir: DataDir, name: str, checkpoint: Path) -> ReplicaChild:
    return ReplicaChild(data_dir, name, checkpoint, ["--slots", str(SLOTS)])


def serving(children: Sequence[ReplicaChild]) -> list[str]:
    """Wait until all serve; their addresses."""
    await_that(
        lambda: all(each.address or each.exit_code is not None for each in children), "replicas to serve", START_SECONDS
    )
    for each in children:
        assert each.address, each.log.read_text()[-2000:]
    return [each.address for each in children]


def await_that(holds: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.02)


def drawn(source: random.Random, count: int) -> list[Join]:
    """Requests that differ in all that a request can have."""
    return [_drawn(source, number) for number in range(count)]


def _drawn(source: random.Random, number: int) -> Join:
    ids = range(MODEL.vocabulary)
    sampling = Sampling(
        temperature=source.choice([0.0, 0.7, 1.0, 1.3]),
        top_p=source.choice([1.0, 0.95, 0.5]),
        top_k=source.choice([0, 0, 20]),
        seed=source.getrandbits(53),
    )
    shaping = source.choice(
        [
            Shaping(),
            Shaping(presence=source.uniform(-2, 2), frequency=source.uniform(-2, 2)),
            Shaping(bias=tuple((each, source.uniform(-100, 100)) for each in source.sample(ids, 3))),
        ]
    )
    return Join(
        f"answer-{source.getrandbits(64):x}",
        number=source.choice([0, number]),
        prompt=tuple(source.choices(ids, k=source.choice([1, 7, 60, 200]))),
        sampling=sampling,
        limits=Limits(
            tokens=source.choice([5, 40, 120, 400]),
            end=source.choice([-1, talks.TOKENIZER.eos]),
            vocabulary=MODEL.vocabulary,
            never=tuple(source.sample(ids, source.choice([0, 3]))),
        ),
        shaping=shaping,
        alternatives=source.choice([0, 0, 5]),
        salt=source.choice(["", "tenant"]),
        forced=tuple(source.choices(ids, k=source.choice([0, 0, 3]))),
    )


def engine(checkpoint: Path) -> Started:
    return started(checkpoint, mode=Mode.EXACT, slots=SLOTS, device="cpu")


def undisturbed(of: Started, requests: Sequence[Join]) -> dict[str, Events]:
    """The events of each request in an engine that nothing disturbs."""
    found: dict[str, Events] = {str(each.id): [] for each in requests}
    for request in requests:
        of.engine.admit(request)
    while of.engine.in_progress:
        for event in of.engine.step():
            found[str(event.id)].append(event)
    return found
