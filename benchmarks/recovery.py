"""SIGKILL of a rank until the first step beyond the last one that was crossed, and where that time goes.

A job of two ranks runs on `tutti up`; again and again one of its ranks is killed. Seen from outside: the job's watch,
the processes, the agent's counters. The peer is what cannot be saved: the steps since the last checkpoint, done again
at the pace that they had before the kill.
"""

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

from benchmarks import data
from benchmarks.pairs import Pairs, median
from benchmarks.platforms import Platform, await_found, up
from benchmarks.program import main, scratch
from benchmarks.table import Row, at_most
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.rpc.watch import Watch
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_FAILED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    CreateJobRequest,
    Job,
    JobSpec,
)
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training

GOAL_SECONDS = 10.0
RANKS = 2
STEPS = 1_000_000
CHECKPOINT_EVERY = 20
JOB = "jobs/recovery"
MODEL = ModelSpec(vocabulary=1024, width=128, layers=4, heads=4, kv_heads=4, hidden=320, context=64, tied=True)
CROSSED = "step_time_seconds_count"
FORK_SERVER = "tutti.trainer.rank.forkserver"
READY = "restore_seconds_count"
DELAY_SECONDS = 3.0
RECOVERY_SECONDS = 180.0


@dataclass(frozen=True)
class Split:
    """Seconds of one recovery, one part after the other."""

    detect: float
    """until the scheduler knows that a rank is lost"""
    seal: float
    """until the old ranks are gone, the old epoch refused and the next one open"""
    spawn: float
    """until the checkpoint is staged, buffers are made and the new ranks are processes"""
    load: float
    """until a new rank has met the others and holds the state of the checkpoint"""
    replay: float
    """until the first step beyond the last one crossed"""

    @property
    def total(self) -> float:
        """From the kill to the first step beyond."""
        return self.detect + self.seal + self.spawn + self.load + self.replay


@dataclass(frozen=True)
class Recovery:
    """One kill and what came of it."""

    split: Split
    lost_steps: int
    step_seconds: float
    """before the kill"""


class Seen:
    """When the job was first seen in each (epoch, state)."""

    def __init__(self) -> None:
        self._moments: dict[tuple[int, int], float] = {}
        self._lock = threading.Lock()

    def note(self, revision: int, job: Job) -> None:
        """Take a snapshot of the job from its watch."""
        del revision
        with self._lock:
            self._moments.setdefault((job.epoch, job.state), time.perf_counter())

    def when(self, epoch: int, *states: int) -> float | None:
        """Of the first that was seen: a watch may pass over a state."""
        with self._lock:
            found: list[float] = [self._moments[epoch, state] for state in states if (epoch, state) in self._moments]
        return min(found) if found else None

    def after(self, epoch: int) -> float | None:
        """The first sight of a later epoch."""
        with self._lock:
            return min((at for (seen, _), at in self._moments.items() if seen > epoch), default=None)


def measure(quick: bool) -> list[Row]:
    """The worst of all kills, and its parts."""
    kills = 3 if quick else 20
    with scratch("recovery") as folder, up(Path(folder) / "data") as platform:
        blobs = EmbeddedBlobs(platform.data_dir / "blobs")
        _create(platform, blobs)
        seen = Seen()
        watch = Watch(platform.client.channel("scheduler"), JOB, seen.note, Job).start()
        try:
            campaign = Campaign(platform, seen)
            found = [campaign.recover() for _ in range(kills)]
        finally:
            watch.close()
    return _rows(found)


def _create(platform: Platform, blobs: EmbeddedBlobs) -> None:
    made = data.make(blobs, vocabulary=MODEL.vocabulary, context=MODEL.context, sequences=4096)
    training = Training(
        model=MODEL,
        optimizer=OptimizerSpec(peak_rate=1e-3, steps=STEPS, warmup_steps=5),
        step=StepSpec(leaves=8, rows=2),
        dataset=made.digest,
        checkpoint_every=CHECKPOINT_EVERY,
        audit_every=0,
    )
    spec = JobSpec(
        training=training.to_json(),
        training_digest=training.digest(),
        dataset_manifest_key=made.manifest_key,
        dataset_digest=made.digest,
        leaves=training.step.leaves,
        steps=STEPS,
        data_parallel=RANKS,
    )
    platform.client.scheduler.CreateJob(CreateJobRequest(request_id="recovery", name=JOB, spec=spec))


class Campaign:
    """Kills one job again and again. Steps are counted by the agent: what an epoch crossed is the counter's growth."""

    def __init__(self, platform: Platform, seen: Seen) -> None:
        self._platform, self._seen = platform, seen
        self._source = random.Random(20)
        self._resumed_at, self._counted = 0, 0.0

    def recover(self) -> Recovery:
        """One kill, some time after a checkpoint that this epoch made."""
        platform, seen = self._platform, self._seen
        job = self._checkpointed()
        before, since = platform.counter(CROSSED), time.perf_counter()
        time.sleep(self._source.uniform(DELAY_SECONDS / 2, DELAY_SECONDS))
        pace = (time.perf_counter() - since) / max(platform.counter(CROSSED) - before, 1.0)
        ready, old = platform.counter(READY), self._ranks()
        victim = self._source.choice(sorted(old))
        killed = time.perf_counter()
        os.kill(victim, signal.SIGKILL)

        detected = self._when(lambda: seen.when(job.epoch, JOB_STATE_STOPPING) or seen.after(job.epoch))
        counted = platform.counter(CROSSED)
        last_crossed = self._resumed_at + round(counted - self._counted)
        sealed = self._when(lambda: seen.when(job.epoch + 1, JOB_STATE_STARTING, JOB_STATE_RUNNING))
        spawned = self._when(lambda: _now(len(self._ranks() - old) == RANKS))
        loaded = self._when(lambda: _now(platform.counter(READY) > ready))
        self._resumed_at, self._counted = self._resume_step(), counted
        lost = last_crossed - self._resumed_at
        beyond = self._when(lambda: _now(platform.counter(CROSSED) - counted > lost))
        moments = (killed, detected, sealed, spawned, loaded, beyond)
        return Recovery(Split(*(max(0.0, b - a) for a, b in itertools.pairwise(moments))), lost, pace)

    def _checkpointed(self) -> Job:
        """The running job, once its epoch has made a checkpoint."""

        def look() -> Job | None:
            job: Job = self._platform.client.scheduler.GetJob(GetRequest(name=JOB))
            if job.state in (JOB_STATE_FAILED, JOB_STATE_CANCELLED):
                raise RuntimeError(f"{JOB} ended: {job.reason}")
            return job if job.state == JOB_STATE_RUNNING and job.decided_step > self._resumed_at else None

        return await_found(look, what="a checkpoint", seconds=RECOVERY_SECONDS)

    def _resume_step(self) -> int:
        job = self._platform.client.scheduler.GetJob(GetRequest(name=JOB))
        return int(job.resume_checkpoint.rpartition("/")[2] or 0)

    def _ranks(self) -> set[int]:
        """Processes of ranks: what the fork server forked and what still runs."""
        found = set()
        for process in self._platform.processes():
            with contextlib.suppress(psutil.Error):
                parent = process.parent()
                if parent is not None and FORK_SERVER in process.cmdline() and FORK_SERVER in parent.cmdline():
                    found.add(process.pid)
        return found

    def _when(self, look: Callable[[], float | None]) -> float:
        return await_found(look, what="the recovery", seconds=RECOVERY_SECONDS)


def _now(happened: bool) -> float | None:
    return time.perf_counter() if happened else None


def _rows(found: list[Recovery]) -> list[Row]:
    totals = [each.split.total for each in found]
    worst = max(found, key=lambda each: each.split.total)
    again = Pairs(tuple(totals), tuple(max(each.lost_steps + 1, 1) * each.step_seconds for each in found))
    rows = [
        Row(
            what=f"recovery from SIGKILL of a rank, worst of {len(found)}",
            unit="s",
            ours=worst.split.total,
            peer=median(again.peer),
            ratio=again.cost(),
            goal=at_most(GOAL_SECONDS),
            note=f"{RANKS} ranks, a checkpoint every {CHECKPOINT_EVERY} steps of {1000 * worst.step_seconds:.0f} ms; "
            f"median {median(totals):.2f} s; the worst lost {worst.lost_steps} steps; peer: these steps, undisturbed",
        )
    ]
    for field in fields(Split):
        parts = [getattr(each.split, field.name) for each in found]
        rows.append(
            Row(
                what=f"  of it {field.name}",
                unit="s",
                ours=getattr(worst.split, field.name),
                note=f"median {median(parts):.2f} s, worst {max(parts):.2f} s",
            )
        )
    return rows


if __name__ == "__main__":
    main("recovery", __doc__, measure)
