"""Looking on at a run: one line a stage.

Promises: on a terminal a line a stage with a bar, how far it is and how fast, or what it waits for; elsewhere a line
when a stage begins and one when it ends.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tutti.chassis.client import Client
from tutti.chassis.errors import NotFound
from tutti.cli import crawls
from tutti.cli.output import say
from tutti.cli.waiting import ENDED, answers
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING, GetRequest
from tutti.contracts.ingest.v1 import Crawl
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import Job

if TYPE_CHECKING:  # no other command waits for it
    from rich.console import Console
    from rich.progress import Progress, TaskID

POLL_SECONDS = 0.25
CRAWL_SECONDS = 2.0  # between two looks at a crawl, whose URLs are counted for that
CRAWL_WORD_SECONDS = 10.0
RATE_SECONDS = 10.0  # over which a speed is measured


def follow(client: Client, name: str, *, quiet: bool, ended: Callable[[], bool], trouble: Callable[[], str]) -> Run:
    """Print progress until the run ended; the run as it ended.

    `ended` says that nobody will answer any more; `trouble` says in words what the run may wait for, or nothing.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False, quiet=quiet)
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


class Crawling:
    """How far a crawl is, asked now and then."""

    def __init__(self) -> None:
        self._asked, self._words = -CRAWL_SECONDS, ""

    def words(self, client: Client, stage: Stage) -> str:
        """Raises NotFound while the crawl has not been created."""
        if time.monotonic() - self._asked >= CRAWL_SECONDS:
            self._asked = time.monotonic()
            self._words = crawls.progress(client.ingest.GetCrawl(GetRequest(name=stage.resource)))
        return self._words


class PlainView:
    """Lines: a stage began, a stage ended, training moved on (every tenth of it)."""

    def __init__(self, console: Console) -> None:
        self._console, self._said, self._tenth, self._reason = console, dict[str, int](), -1, ""
        self._past, self._crawl, self._crawl_word = Past(), Crawling(), time.monotonic()

    def show(self, client: Client, run: Run) -> None:
        for stage in run.stages:
            if stage.state != self._said.get(stage.name, 1) and stage.state:
                self._said[stage.name] = stage.state
                self._console.print(line(stage), soft_wrap=True)
                self._reason = stage.reason
            if stage.name == "train" and stage.state == STATE_RUNNING and stage.resource:
                self._training(client, stage)
            if stage.name == "crawl" and stage.state == STATE_RUNNING and stage.resource:
                self._crawling(client, stage)

    def _crawling(self, client: Client, stage: Stage) -> None:
        with contextlib.suppress(NotFound):
            if (words := self._crawl.words(client, stage)) and time.monotonic() - self._crawl_word > CRAWL_WORD_SECONDS:
                self._crawl_word = time.monotonic()
                self._console.print(f"  {words}", soft_wrap=True)

    def _training(self, client: Client, stage: Stage) -> None:
        with contextlib.suppress(NotFound):
            job = client.scheduler.GetJob(GetRequest(name=stage.resource))
            tenth = 10 * job.step // max(job.spec.steps, 1)
            for event in self._past.news(job):
                self._console.print(f"  {event}", soft_wrap=True)
            if job.reason and job.reason != self._reason and job.reason not in self._past.newest:
                self._reason = job.reason
                self._console.print(f"  {job.reason}", soft_wrap=True)
            if tenth > self._tenth and job.step:
                self._tenth = tenth
                self._console.print(f"  step {job.step}/{job.spec.steps}  loss {job.loss:.4f}", soft_wrap=True)


class LiveView:
    """A line for each stage: what it does or waits for, how far it is, how fast."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._past = progress, Past()
        self._tasks: dict[str, TaskID] = {}
        self._crawl_asked, self._rates = -CRAWL_SECONDS, {name: Rate() for name in ("crawl", "train")}

    def show(self, client: Client, run: Run) -> None:
        job, crawl = None, None
        for stage in run.stages:
            if stage.state == STATE_RUNNING and stage.resource:
                with contextlib.suppress(NotFound):
                    if stage.name == "train":
                        job = client.scheduler.GetJob(GetRequest(name=stage.resource))
                    elif stage.name == "crawl" and time.monotonic() - self._crawl_asked >= CRAWL_SECONDS:
                        self._crawl_asked = time.monotonic()
                        crawl = client.ingest.GetCrawl(GetRequest(name=stage.resource))
        self.draw(run, job, crawl, now=time.monotonic())

    def draw(self, run: Run, job: Job | None, crawl: Crawl | None, *, now: float) -> None:
        """Show the stages, and what is known of the job that trains and the crawl that runs."""
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
                self._progress.update(task, words=stage.reason or "waits for the stages before it")
            elif stage.name == "train" and job is not None:
                for event in self._past.news(job):
                    self._progress.console.print(f"  {event}", soft_wrap=True)
                speed = tokens_of_step(job) * self._rates["train"].of(now, job.step)
                self._show(task, job.step, job.spec.steps, training_words(job, speed))
            elif stage.name == "crawl" and crawl is not None:
                visited, waiting = crawls.visited(crawl), crawls.waiting(crawl)
                speed = self._rates["crawl"].of(now, visited)
                self._show(task, visited, visited + waiting, f"{speed:,.0f} URLs/s" if speed else "begins")
            elif stage.name not in self._rates:
                self._progress.update(task, words=stage.reason)

    def _show(self, task: TaskID, done: int, total: int, words: str) -> None:
        self._progress.update(task, total=total or None, completed=done, words=words, far=f"{done:,}/{total:,}")


class Rate:
    """How fast a count grows, over the newest seconds in which it was looked at."""

    def __init__(self, seconds: float = RATE_SECONDS) -> None:
        self._seconds, self._seen = seconds, deque[tuple[float, int]]()

    def of(self, now: float, count: int) -> float:
        """A second; 0 until it has grown. A count that falls, as after a resumption, begins anew."""
        if self._seen and count < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, count))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self._seconds:
            self._seen.popleft()
        (since, first), (until, last) = self._seen[0], self._seen[-1]
        return (last - first) / (until - since) if until > since else 0.0


def tokens_of_step(job: Job) -> int:
    """Tokens that a step of the job reads: leaves x rows x context."""
    training = json.loads(job.spec.training or "{}")
    try:
        return int(training["step"]["leaves"] * training["step"]["rows"] * training["model"]["context"])
    except (KeyError, TypeError):
        return 0


def training_words(job: Job, speed: float) -> str:
    """What a job does, or what it waits for."""
    if not job.step:
        return job.reason or "waits"
    ranks = job.shape.data_parallel
    told = [f"loss {job.loss:.4f}", *([f"{speed:,.0f} tokens/s"] if speed else [])]
    told.append(f"{ranks} rank{'' if ranks == 1 else 's'}")
    return "  ".join([*told, *([job.reason] if job.reason else [])])


@contextlib.contextmanager
def _view(console: Console) -> Iterator[PlainView | LiveView]:
    if not console.is_terminal or console.quiet:
        yield PlainView(console)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[far]}", justify="right"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        yield LiveView(progress)


def line(stage: Stage) -> str:
    """A stage in one line."""
    if stage.state == STATE_RUNNING:
        return f"{stage.name:13} began{f'  {stage.reason}' if stage.reason else ''}"
    if stage.state == STATE_DONE and stage.reused:
        return f"{stage.name:13} reused  {stage.content_digest[:19]}"
    if stage.state == STATE_DONE:
        return f"{stage.name:13} done in {seconds(stage):.1f} s  {stage.content_digest[:19]}"
    word = "failed" if stage.state == STATE_FAILED else "cancelled"
    return f"{stage.name:13} {word}: {stage.reason}"


def seconds(stage: Stage) -> float:
    """How long a stage took; 0 for one that was reused."""
    if not stage.HasField("started_at") or not stage.HasField("ended_at"):
        return 0.0
    return (stage.ended_at.ToNanoseconds() - stage.started_at.ToNanoseconds()) / 1e9
