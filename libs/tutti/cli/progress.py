"""Looking on at a run: one line a stage.

Promises: on a terminal a live bar for training; elsewhere a line when a stage begins and one when it ends.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tutti.chassis.client import Client
from tutti.chassis.errors import NotFound, Problem
from tutti.cli import crawls, interrupt
from tutti.cli.output import say
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING, GetRequest
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import Job

POLL_SECONDS = 0.25
CRAWL_SECONDS = 2.0  # between two looks at a crawl, whose URLs are counted for that
CRAWL_WORD_SECONDS = 10.0
# The platform may be restarting a service; longer than this is not a hiccup.
PATIENCE_SECONDS = 60.0
ENDED = (3, 4, 5)


def follow(client: Client, name: str, *, quiet: bool, ended: Callable[[], bool], trouble: Callable[[], str]) -> Run:
    """Print progress until the run ended; the run as it ended.

    `ended` says that nobody will answer any more; `trouble` says in words what the run may wait for, or nothing.
    """
    console = Console(stderr=True, highlight=False, quiet=quiet)
    with _view(console) as view:
        last_word, troubled = time.monotonic(), False
        while True:
            interrupt.check()
            if (words := trouble()) and not troubled:
                say(words)
            troubled = bool(words)
            try:
                run = client.pipeline.GetRun(GetRequest(name=name))
                view.show(client, run)
                last_word = time.monotonic()
            except Problem as problem:
                if not problem.transient or ended() or time.monotonic() - last_word > PATIENCE_SECONDS:
                    raise
            else:
                if run.state in ENDED:
                    return run
            time.sleep(POLL_SECONDS)


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
    """A bar for each stage that runs."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._tasks, self._past = progress, dict[str, TaskID](), Past()
        self._crawl = Crawling()

    def show(self, client: Client, run: Run) -> None:
        for stage in run.stages:
            if stage.state < STATE_RUNNING:
                continue
            if stage.name not in self._tasks:
                self._tasks[stage.name] = self._progress.add_task(stage.name, total=None)
            task = self._tasks[stage.name]
            if stage.state in ENDED:
                self._progress.update(task, total=1, completed=1, description=line(stage))
            elif stage.name == "crawl" and stage.resource:
                with contextlib.suppress(NotFound):
                    self._progress.update(task, description=f"crawl  {self._crawl.words(client, stage)}")
            elif stage.name == "train" and stage.resource:
                with contextlib.suppress(NotFound):
                    job = client.scheduler.GetJob(GetRequest(name=stage.resource))
                    for event in self._past.news(job):
                        self._progress.console.print(f"  {event}", soft_wrap=True)
                    words = f"train  loss {job.loss:.4f}" if job.step else f"train  {job.reason}"
                    self._progress.update(task, total=job.spec.steps, completed=job.step, description=words)


@contextlib.contextmanager
def _view(console: Console) -> Iterator[PlainView | LiveView]:
    if not console.is_terminal or console.quiet:
        yield PlainView(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
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
