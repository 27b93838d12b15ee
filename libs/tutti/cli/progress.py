"""Progress display of a run, one line per stage.

Promises: on a terminal a line a stage with a bar, how far it is and how fast, or what it waits for; elsewhere a line
when a stage begins and one when it ends.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.protobuf.field_mask_pb2 import FieldMask

from tutti.chassis.errors import NotFound
from tutti.cli import advance
from tutti.cli.advance import Advance, Rate, StepRate
from tutti.cli.output import say
from tutti.cli.waiting import ENDED, POLL_SECONDS, answers
from tutti.client import Client
from tutti.client.titles import title_of
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING, GetRequest, Progress
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import Job
from tutti.records.counts import counted
from tutti.report.durations import seconds, taken
from tutti.report.stages import trains
from tutti.report.values import printable
from tutti.web.formats import skipped

if TYPE_CHECKING:  # no other command waits for it
    from rich.console import Console, RenderableType
    from rich.progress import Progress as Bars
    from rich.progress import TaskID
    from rich.table import Column

WORD_SECONDS, TRAINING_SECONDS = 10.0, 20.0
"""Between two lines of a stage where there is no terminal; a tenth of the training is a line in any case."""


NAME, BAR, FAR, ELAPSED = 13, 10, 9, 8
"""Columns of the parts of a line; the rest of it is words."""
SHOWN = ("name", "revision", "spec", "state", "reason", "stages", "started_at", "ended_at")
CURVE, BLOCKS = 24, "▁▂▃▄▅▆▇█"


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
            run = client.pipeline.GetRun(GetRequest(name=name, read_mask=FieldMask(paths=SHOWN)))
            view.show(client, run)
            return run

        return next(run for run in answers(look, ended, POLL_SECONDS) if run.state in ENDED)


class Past:
    """Past events of a job, each told once: why an epoch ended, where the next one began."""

    def __init__(self) -> None:
        self.newest = ""

    def news(self, job: Job) -> list[str]:
        """The lines of its history that are new since the last call; only its newest lines are kept by its owner."""
        lines = list(job.history)
        seen = len(lines) - lines[::-1].index(self.newest) if self.newest in lines else 0
        self.newest = lines[-1] if lines else self.newest
        return lines[seen:]


class PlainView:
    """Lines: a stage began, a stage ended, training moved on (every tenth of it, and when steps begin to be skipped),
    how far another stage is.
    """

    def __init__(self, console: Console) -> None:
        self._console, self._said, self._reason = console, dict[str, int](), ""
        self._job, self._tenth, self._step, self._skipping = "", -1, 0, False
        self._past, self._advance = Past(), Advance()
        self._word, self._rates = time.monotonic(), defaultdict[str, Rate](Rate)
        self._steps = defaultdict[str, StepRate](StepRate)

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
            self._job, self._tenth, self._step, self._skipping, self._past = job.name, -1, 0, False, Past()
        tenth, now = 10 * job.step // max(job.spec.steps, 1), time.monotonic()
        steps = self._steps[stage.name].of(now, job.step) if job.step else 0.0  # a start takes its time
        for event in self._past.news(job):
            self._console.print(f"  {event}", soft_wrap=True)
        if job.reason and job.reason != self._reason and job.reason not in self._past.newest:
            self._reason = job.reason
            self._console.print(f"  {job.reason}", soft_wrap=True)
        skips = bool(job.skipped_in_a_row) and not self._skipping
        later = job.step > self._step and now - self._word > TRAINING_SECONDS
        if job.step and (tenth > self._tenth or later or skips):
            self._tenth, self._step, self._word = tenth, job.step, now
            left = advance.left(Progress(done=job.step, total=job.spec.steps), steps)
            speed = tokens_of_step(job) * steps
            told = (f"step {job.step}/{job.spec.steps}", training_words(job, speed, reason=False), left)
            self._console.print(f"  {'  '.join(filter(None, told))}", soft_wrap=True)
        self._skipping = bool(job.skipped_in_a_row)


class LiveView:
    """A heading, a line for each stage (what it does or waits for, how far it is, how fast), and the loss as a curve.

    Lines fit `width` columns.
    """

    def __init__(self, progress: Bars, width: int) -> None:
        self._progress, self._past = progress, defaultdict[str, Past](Past)
        self._tasks: dict[str, TaskID] = {}
        self._advance, self._rates = Advance(), defaultdict[str, Rate](Rate)
        self._steps = defaultdict[str, StepRate](StepRate)
        self._words_width = width - NAME - BAR - FAR - ELAPSED - 4
        self._losses = dict[int, float]()
        self.heading, self.footing = "", ""

    def show(self, client: Client, run: Run) -> None:
        job, known = None, dict[str, Progress]()
        for stage in run.stages:
            if stage.state == STATE_RUNNING and stage.resource:
                with contextlib.suppress(NotFound):
                    if trains(stage):
                        job = client.scheduler.GetJob(GetRequest(name=stage.resource))
                    elif found := self._advance.of(client, stage):
                        known[stage.name] = found
        self.draw(run, job, known, now=time.monotonic(), wall=time.time())

    def draw(self, run: Run, job: Job | None, known: Mapping[str, Progress], *, now: float, wall: float) -> None:
        """Show the stages, and what is `known` of how far they are; of the job that trains, everything.

        `now` is monotonic, `wall` since 1970, both in seconds.
        """
        self.heading = f"{run.name}  {printable(title_of(run))}".rstrip()
        for stage in run.stages:
            if stage.name not in self._tasks:
                self._tasks[stage.name] = self._progress.add_task(
                    stage.name, start=False, total=1, words="", far="", elapsed=""
                )
            task = self._tasks[stage.name]
            if stage.state >= STATE_RUNNING and not self._progress.tasks[task].started:
                self._progress.start_task(task)
                self._progress.update(task, total=None)
            self._progress.update(task, elapsed=elapsed(stage, wall))
            if stage.state in ENDED:
                words = line(stage).removeprefix(stage.name).strip()
                self._told(task, words, total=1, completed=1, far="")
                self._progress.stop_task(task)
            elif stage.state != STATE_RUNNING:
                self._told(task, printable(stage.reason) or "waits for the stages before it")
            elif job is not None and stage.resource == job.name:
                for event in self._past[job.name].news(job):
                    self._progress.console.print(f"  {event}", soft_wrap=True)
                steps = self._steps[stage.name].of(now, job.step) if job.step else 0.0  # a start takes its time
                far = Progress(done=job.step, total=job.spec.steps)
                told = (advance.left(far, steps), training_words(job, tokens_of_step(job) * steps))
                self._show(task, far, "  ".join(filter(None, told)))
            elif stage.name in known:
                a_second = self._rates[stage.name].of(now, known[stage.name].done)
                far = known[stage.name]
                told = (advance.speed(far, a_second), advance.left(far, a_second) if far.unit != "URLs" else "")
                self._show(task, far, "  ".join(filter(None, told)))
            else:
                self._told(task, printable(stage.reason))
        self.footing = self._footing(run, job)

    def _footing(self, run: Run, job: Job | None) -> str:
        """The results so far: documents kept, checkpoints, the loss as a curve."""
        kept = next((stage.summary for stage in run.stages if stage.kind == "dedup" and stage.summary), "")
        told = [printable(kept)] if kept else []
        if job is not None:
            if job.decided_step:
                told.append(f"checkpoint at step {job.decided_step:,}")
            if job.step and not job.skipped_in_a_row:
                self._losses[job.step] = job.loss
            if len(self._losses) > 1:
                told.append(f"loss {sparkline(list(self._losses.values()))}")
        return "  ".join(told)

    def _show(self, task: TaskID, known: Progress, words: str) -> None:
        self._told(task, words, total=known.total or None, completed=known.done, far=advance.far(known))

    def _told(self, task: TaskID, words: str, **values: Any) -> None:
        """Words are cut to what fits on their line."""
        if len(words) > self._words_width:
            words = f"{words[: max(0, self._words_width - 1)]}…"
        self._progress.update(task, words=words, **values)


def sparkline(values: Sequence[float], width: int = CURVE) -> str:
    """Return values as blocks of eight heights, the mean of a stretch each, at most `width` of them."""
    count = min(width, len(values))
    means = [
        sum(stretch) / len(stretch)
        for at in range(count)
        if (stretch := values[at * len(values) // count : (at + 1) * len(values) // count])
    ]
    low, high = min(means), max(means)
    return "".join(BLOCKS[round((len(BLOCKS) - 1) * (each - low) / ((high - low) or 1.0))] for each in means)


def elapsed(stage: Stage, wall: float) -> str:
    """Return how long a stage has taken since it began, by its owner's record, so also after a resumption."""
    if stage.reused or not stage.HasField("started_at"):
        return ""
    whole = round(seconds(stage, wall))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def tokens_of_step(job: Job) -> int:
    """Tokens that a step of the job reads: leaves x rows x context."""
    training = json.loads(job.spec.training or "{}")
    try:
        return int(training["step"]["leaves"] * training["step"]["rows"] * training["model"]["context"])
    except (KeyError, TypeError):
        return 0


def training_words(job: Job, speed: float, *, reason: bool = True) -> str:
    """A text about the activity of a job, or what it waits for; `reason`: also the reason why it does not continue."""
    if not job.step:
        return job.reason or "waits"
    told = [training_loss(job), *([f"{speed:,.0f} tokens/s"] if speed else [])]
    told.append(counted(job.shape.data_parallel, "rank"))
    return "  ".join([*told, *([job.reason] if job.reason and reason else [])])


def training_loss(job: Job) -> str:
    """Return the loss, or that the newest step was skipped and the loss without it; and how many were skipped."""
    told = skipped(job.skipped, job.skipped_in_a_row)
    if not job.skipped_in_a_row:
        return f"loss {job.loss:.4f}" + (f"  {told}" if told else "")
    return told + (f" (loss {job.loss:.4f} before)" if job.loss else "")


@contextlib.contextmanager
def _view(console: Console) -> Iterator[PlainView | LiveView]:
    if not console.is_terminal or console.quiet:
        yield PlainView(console)
        return
    from rich.progress import BarColumn, Task, TextColumn
    from rich.progress import Progress as Bars
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    class StageBar(BarColumn):
        """Still before its stage has begun, where the library's would move."""

        def render(self, task: Task) -> ProgressBar:
            return super().render(task) if task.started else ProgressBar(total=1, completed=0, width=self.bar_width)

    class Screen(Bars):
        """The bars between a heading and what there is so far."""

        view: LiveView

        def get_renderables(self) -> Iterator[RenderableType]:
            view = getattr(self, "view", None)
            if view is not None and view.heading:
                yield Text(view.heading, overflow="ellipsis", no_wrap=True)
            yield from super().get_renderables()
            if view is not None and view.footing:
                yield Text(view.footing, overflow="ellipsis", no_wrap=True)

    columns = (
        TextColumn("{task.description}"),
        StageBar(bar_width=BAR),
        TextColumn("{task.fields[far]}", justify="right"),
        TextColumn("{task.fields[elapsed]}", justify="right"),
        TextColumn("{task.fields[words]}", markup=False, table_column=_words()),
    )
    with Screen(*columns, console=console) as progress:
        progress.view = view = LiveView(progress, console.width)
        yield view


def _words() -> Column:
    from rich.table import Column

    return Column(no_wrap=True, overflow="ellipsis")


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
