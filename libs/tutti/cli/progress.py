"""Looking on at a run: one line a stage.

Promises: on a terminal a line a stage with a bar, how far it is and how fast, or what it waits for; elsewhere a line
when a stage begins and one when it ends.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tutti.chassis.client import Client
from tutti.chassis.errors import NotFound
from tutti.cli import advance
from tutti.cli.advance import Advance, Rate
from tutti.cli.output import printable, say
from tutti.cli.trainings import trains
from tutti.cli.waiting import ENDED, POLL_SECONDS, answers
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING, GetRequest, Progress
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import Job

if TYPE_CHECKING:  # no other command waits for it
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

WORD_SECONDS, TRAINING_SECONDS = 10.0, 20.0
"""Between two lines of a stage where there is no terminal; a tenth of the training is a line in any case."""


def follow(client: Client, name: str, *, quiet: bool, ended: Callable[[], bool], trouble: Callable[[], str]) -> Run:
    """Print progress until the run ended; the run as it ended.

    `ended` says that nobody will answer any more; `trouble` says in words what the run may wait for, or nothing.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False, quiet=quiet)
    with _view(console) as view:
        troubled = False

        def look() -> Run:
            nonlocal troubled
            if (words := trouble()) and not troubled:
                say(words)
            troubled = bool(words)
            run = client.pipeline.GetRun(GetRequest(name=name))
            view.show(client, run)
            return run

        return next(run for run in answers(look, ended, POLL_SECONDS) if run.state in ENDED)


class Past:
    """What happened to a job, told once: why an epoch ended, where the next one began."""

    def __init__(self) -> None:
        self.newest = ""

    def news(self, job: Job) -> list[str]:
        """The lines of its history that are new since the last call; only its newest lines are kept by its owner."""
        lines = list(job.history)
        seen = len(lines) - lines[::-1].index(self.newest) if self.newest in lines else 0
        self.newest = lines[-1] if lines else self.newest
        return lines[seen:]


class PlainView:
    """Lines: a stage began, a stage ended, training moved on (every tenth of it), how far another stage is."""

    def __init__(self, console: Console) -> None:
        self._console, self._said, self._reason = console, dict[str, int](), ""
        self._job, self._tenth, self._step = "", -1, 0
        self._past, self._advance = Past(), Advance()
        self._word, self._rates = time.monotonic(), defaultdict[str, Rate](Rate)

    def show(self, client: Client, run: Run) -> None:
        for stage in run.stages:
            if stage.state != self._said.get(stage.name, 1) and stage.state:
                self._said[stage.name] = stage.state
                self._console.print(line(stage), soft_wrap=True)
                self._reason = stage.reason
            if stage.state == STATE_RUNNING and stage.resource:
                with contextlib.suppress(NotFound):
                    if trains(stage):
                        self._training(client, stage)
                    elif known := self._advance.of(client, stage):
                        self._far(stage, known)

    def _far(self, stage: Stage, known: Progress) -> None:
        now = time.monotonic()
        a_second = self._rates[stage.name].of(now, known.done)
        if now - self._word > WORD_SECONDS:
            self._word = now
            unit = "" if known.unit == "bytes" else f" {known.unit}"
            told = [f"{advance.far(known)}{unit}", *filter(None, [advance.speed(known, a_second)])]
            self._console.print(f"  {stage.name}  {'  '.join(told)}", soft_wrap=True)

    def _training(self, client: Client, stage: Stage) -> None:
        job = client.scheduler.GetJob(GetRequest(name=stage.resource))
        if job.name != self._job:
            self._job, self._tenth, self._step, self._past = job.name, -1, 0, Past()
        tenth, now = 10 * job.step // max(job.spec.steps, 1), time.monotonic()
        steps = self._rates[stage.name].of(now, job.step) if job.step else 0.0  # a start takes its time
        for event in self._past.news(job):
            self._console.print(f"  {event}", soft_wrap=True)
        if job.reason and job.reason != self._reason and job.reason not in self._past.newest:
            self._reason = job.reason
            self._console.print(f"  {job.reason}", soft_wrap=True)
        if job.step and (tenth > self._tenth or (job.step > self._step and now - self._word > TRAINING_SECONDS)):
            self._tenth, self._step, self._word = tenth, job.step, now
            left = advance.left(Progress(done=job.step, total=job.spec.steps), steps)
            speed = tokens_of_step(job) * steps
            told = (f"step {job.step}/{job.spec.steps}", training_words(job, speed, reason=False), left)
            self._console.print(f"  {'  '.join(filter(None, told))}", soft_wrap=True)


class LiveView:
    """A line for each stage: what it does or waits for, how far it is, how fast."""

    def __init__(self, progress: Bars) -> None:
        self._progress, self._past = progress, defaultdict[str, Past](Past)
        self._tasks: dict[str, TaskID] = {}
        self._advance, self._rates = Advance(), defaultdict[str, Rate](Rate)

    def show(self, client: Client, run: Run) -> None:
        job, known = None, dict[str, Progress]()
        for stage in run.stages:
            if stage.state == STATE_RUNNING and stage.resource:
                with contextlib.suppress(NotFound):
                    if trains(stage):
                        job = client.scheduler.GetJob(GetRequest(name=stage.resource))
                    elif found := self._advance.of(client, stage):
                        known[stage.name] = found
        self.draw(run, job, known, now=time.monotonic())

    def draw(self, run: Run, job: Job | None, known: Mapping[str, Progress], *, now: float) -> None:
        """Show the stages, and what is `known` of how far they are; of the job that trains, everything."""
        for stage in run.stages:
            if stage.name not in self._tasks:
                self._tasks[stage.name] = self._progress.add_task(stage.name, start=False, total=1, words="", far="")
            task = self._tasks[stage.name]
            if stage.state >= STATE_RUNNING and not self._progress.tasks[task].started:
                self._progress.start_task(task)
                self._progress.update(task, total=None)
            if stage.state in ENDED:
                words = line(stage).removeprefix(stage.name).strip()
                self._progress.update(task, total=1, completed=1, words=words, far="")
                self._progress.stop_task(task)
            elif stage.state != STATE_RUNNING:
                self._progress.update(task, words=printable(stage.reason) or "waits for the stages before it")
            elif job is not None and stage.resource == job.name:
                for event in self._past[job.name].news(job):
                    self._progress.console.print(f"  {event}", soft_wrap=True)
                steps = self._rates[stage.name].of(now, job.step) if job.step else 0.0  # a start takes its time
                far = Progress(done=job.step, total=job.spec.steps)
                told = (training_words(job, tokens_of_step(job) * steps), advance.left(far, steps))
                self._show(task, far, "  ".join(filter(None, told)))
            elif stage.name in known:
                a_second = self._rates[stage.name].of(now, known[stage.name].done)
                far = known[stage.name]
                told = (advance.speed(far, a_second), advance.left(far, a_second) if far.unit != "URLs" else "")
                self._show(task, far, "  ".join(filter(None, told)))
            else:
                self._progress.update(task, words=printable(stage.reason))

    def _show(self, task: TaskID, known: Progress, words: str) -> None:
        self._progress.update(
            task, total=known.total or None, completed=known.done, words=words, far=advance.far(known)
        )


def tokens_of_step(job: Job) -> int:
    """Tokens that a step of the job reads: leaves x rows x context."""
    training = json.loads(job.spec.training or "{}")
    try:
        return int(training["step"]["leaves"] * training["step"]["rows"] * training["model"]["context"])
    except (KeyError, TypeError):
        return 0


def training_words(job: Job, speed: float, *, reason: bool = True) -> str:
    """What a job does, or what it waits for; `reason`: also why it does not go on."""
    if not job.step:
        return job.reason or "waits"
    ranks = job.shape.data_parallel
    told = [f"loss {job.loss:.4f}", *([f"{speed:,.0f} tokens/s"] if speed else [])]
    told.append(f"{ranks} rank{'' if ranks == 1 else 's'}")
    return "  ".join([*told, *([job.reason] if job.reason and reason else [])])


@contextlib.contextmanager
def _view(console: Console) -> Iterator[PlainView | LiveView]:
    if not console.is_terminal or console.quiet:
        yield PlainView(console)
        return
    from rich.progress import BarColumn, Task, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars
    from rich.progress_bar import ProgressBar

    class StageBar(BarColumn):
        """Still before its stage has begun, where the library's would move."""

        def render(self, task: Task) -> ProgressBar:
            return super().render(task) if task.started else ProgressBar(total=1, completed=0, width=self.bar_width)

    columns = (
        TextColumn("{task.description}"),
        StageBar(bar_width=24),
        TextColumn("{task.fields[far]}", justify="right"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}", markup=False),
    )
    with Bars(*columns, console=console) as progress:
        yield LiveView(progress)


def line(stage: Stage) -> str:
    """A stage in one line."""
    reason = printable(stage.reason)
    if stage.state == STATE_RUNNING:
        return f"{stage.name:13} began{f'  {reason}' if reason else ''}"
    if stage.state == STATE_DONE and stage.reused:
        return f"{stage.name:13} reused  {stage.content_digest[:19]}"
    if stage.state == STATE_DONE:
        return f"{stage.name:13} done in {taken(seconds(stage), stage.resumptions)}  {stage.content_digest[:19]}"
    word = "failed" if stage.state == STATE_FAILED else "cancelled"
    return f"{stage.name:13} {word}: {reason}"


def taken(seconds: float, resumptions: int) -> str:
    """How long a stage took, and that nobody may have worked on it all the time, in words."""
    return f"{seconds:.1f} s{' with a stop in between' if resumptions else ''}"


def seconds(stage: Stage) -> float:
    """How long a stage took; 0 for one that was reused."""
    if not stage.HasField("started_at") or not stage.HasField("ended_at"):
        return 0.0
    return (stage.ended_at.ToNanoseconds() - stage.started_at.ToNanoseconds()) / 1e9
