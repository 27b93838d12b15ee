"""Starting and stopping the platform of a data directory."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from tutti.chassis.config.datadir import is_found
from tutti.chassis.config.diskspace import little_left
from tutti.chassis.config.exits import IN_USE
from tutti.chassis.errors import Problem, Unavailable
from tutti.cli import INTERRUPTED, interrupt
from tutti.cli.connection import data_dir_option, trusted
from tutti.cli.failures import FAILED, Failure
from tutti.cli.guests import Door, guest
from tutti.cli.handover import await_others, needs, unfinished
from tutti.cli.output import patiently, say
from tutti.cli.pages import say_moved
from tutti.cli.readiness import Wait
from tutti.cli.record import agents_of, owner_of, restarts, stopping
from tutti.client import Client, Unreachable, connect
from tutti.client.resources import list_all
from tutti.contracts.admin.v1 import DescribeRequest
from tutti.contracts.scheduler.v1 import NODE_STATE_LEFT, NODE_STATE_LOST
from tutti.platform import interpreter
from tutti.platform.heartbeatpipe import HeartbeatPipe
from tutti.platform.processes import gone
from tutti.report.hints import typed

STOP_SECONDS = 45.0
LOOK_SECONDS = 0.2
AGENT_SECONDS = 10.0  # for the agents of a platform that answers
AGAIN_SECONDS = 2.0  # until a platform is started once more, where another command was about to


class DataDirInUse(Failure):
    """Another supervisor has the data directory: it starts, or stops."""


@dataclass(frozen=True)
class Platform:
    """A platform that answers; `supervisor` is that of one which this command started, `data_dir` lies here.

    `resumed_by`: what goes on with a run once the platform was stopped.
    """

    client: Client
    supervisor: subprocess.Popen[bytes] | None = None
    data_dir: Path | None = None
    resumed_by: str = "the same command"

    def ended(self) -> bool:
        """True if its supervisor has ended, so that there is nothing left to wait for."""
        if self.supervisor is None:
            return self.data_dir is not None and stopped(self.data_dir)
        return self.supervisor.poll() is not None

    def stopped(self) -> bool:
        """True if it was stopped, or is about to be stopped, now that it does not answer."""
        return self.data_dir is not None and ends(self.data_dir)

    @property
    def own(self) -> bool:
        """True if this command started it, and therefore stops it."""
        return self.supervisor is not None

    def trouble(self) -> str:
        """A problem that a run may be waiting for, as seen from here; empty if there is none."""
        return "" if self.data_dir is None else little_left(self.data_dir)


def supervise(data_dir: Path, *arguments: str) -> list[str]:
    """The command that runs the platform in the foreground."""
    place = [] if is_found(data_dir) else ["--data-dir", str(data_dir)]
    return interpreter.module("tutti.platform.supervisor", *place, *arguments)


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="gRPC port; 0: a free one.")
@click.option("--agents", type=click.IntRange(0, 64), default=1, show_default=True, help="Number of agents to start.")
@click.option("--detach", is_flag=True, help="Return when the platform is ready; `tutti down` stops it.")
@data_dir_option
def up(port: int, agents: int, detach: bool, data_dir: Path) -> None:
    """Start the platform and keep it running until Ctrl-C.

    All its data is in the data directory: databases, event log, blobs, tokens. It listens on loopback only.
    """
    if detach and (address := _address(data_dir)):
        way = f"`{typed('tutti down', data_dir)}` stops it"
        say(f"the platform of {data_dir.absolute()} is up already at {address}; {way}")
        return
    command = supervise(data_dir, "--agents", str(agents), *(("--listen", f"127.0.0.1:{port}") if port else ()))
    with started(command, data_dir, detach=detach) as (process, client):
        told: list[int] = []
        # Noted, not raised: an exception that comes while a finalizer runs is dropped, and with it the Ctrl-C.
        interrupt.handle(lambda number, _frame: told.append(number))
        way = f"`{typed('tutti down', data_dir)}`" if detach else "Ctrl-C"
        say(f"the platform of {data_dir.absolute()} is up at {client.address('pipeline')}; {way} stops it")
        if late := await_agents(client, data_dir, lambda: bool(told) or process.poll() is not None):
            say(f"still starting: {', '.join(late)}; `{typed('tutti status', data_dir)}` shows when they take work")
        say_moved(client)
        client.close()
        while not (told or detach) and process.poll() is None:
            time.sleep(LOOK_SECONDS)
        if not (told or detach) and process.returncode != 0:
            raise last_words(process)


@click.command(short_help="Stop the platform; unfinished work continues at the next start.")
@data_dir_option
def down(data_dir: Path) -> None:
    """Drain and stop the platform of a data directory. Unfinished work continues at the next start."""
    if not data_dir.exists():
        raise Failure(f"{data_dir} does not exist, so no platform runs there; name its directory with --data-dir")
    supervisor = owner_of(data_dir)
    if supervisor is None or not supervisor.alive():
        say(f"nobody serves {data_dir}; there is nothing to stop")
        return
    supervisor.send(signal.SIGTERM)
    if not gone(supervisor, STOP_SECONDS):
        raise Failure(
            f"the platform of {data_dir} (process {supervisor.pid}) did not end within {STOP_SECONDS:.0f} s; "
            f"look into {data_dir / 'logs'}"
        )
    say(f"the platform of {data_dir} is down")


@contextlib.contextmanager
def running(data_dir: Path) -> Iterator[Platform]:
    """The platform of a data directory for a run: one that is up, or else one that is started, and stopped at the end.

    Of several commands one starts it, and the others wait until it answers. Raises DataDirInUse if it never does.
    """
    wait: Wait | None = None
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as waits:
        while True:
            try:
                platform = stack.enter_context(_running(data_dir))
                break
            except DataDirInUse:
                if wait is not None and wait.over():
                    raise
            if wait is None:
                wait = Wait(data_dir, now=time.monotonic, tell=say)
                words = f"waits for the platform of {data_dir}, which another command starts or stops"
                waits.enter_context(patiently(words))
            _await_any(data_dir)
        waits.close()
        yield platform


def _await_any(data_dir: Path) -> None:
    """Return when a platform answers, or soon if none does: the command that was about to start one may have ended."""
    interrupt.raised()
    again = time.monotonic() + AGAIN_SECONDS
    while time.monotonic() < again:
        interrupt.check()
        with contextlib.suppress(Unreachable):
            ready(data_dir).close()
            return
        time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def _running(data_dir: Path) -> Iterator[Platform]:
    """Raises DataDirInUse if another supervisor has the directory and does not answer."""
    with contextlib.ExitStack() as stay:
        stay.enter_context(guest(data_dir))
        try:
            client = ready(data_dir)
        except Unreachable:
            stay.close()
            if sys.stderr.isatty():  # a person sees at once that something happens
                say(f"starting the platform of {data_dir}")
            yield from _own(data_dir)
            return
        interrupt.raised()
        try:
            yield Platform(client, data_dir=data_dir)
        except Unavailable:
            if not ends(data_dir):
                raise
            raise put_down() from None
        finally:
            client.close()


def _own(data_dir: Path) -> Iterator[Platform]:
    """A platform that is stopped when no other `tutti run` and no run needs it, or at once after Ctrl-C."""
    with Door(data_dir) as door, started(supervise(data_dir), data_dir) as (process, client):
        left_over = unfinished(client)

        def needed() -> set[str]:
            return needs(lambda: unfinished(client), left_over, door)

        def settled() -> None:
            await_others(needed, gone=lambda: process.poll() is not None)

        try:
            yield Platform(client, process, data_dir)
        except (Failure, Problem) as error:
            if not (isinstance(error, Unavailable) or getattr(error, "code", FAILED) == INTERRUPTED):
                settled()
            raise
        settled()


@contextlib.contextmanager
def started(
    command: list[str], data_dir: Path, *, detach: bool = False
) -> Iterator[tuple[subprocess.Popen[bytes], Client]]:
    """Start a supervisor, wait until it is ready, and stop it at the end: drained and resumable.

    SIGTERM ends the wait as Ctrl-C does: who started the platform stops it. It ends by itself, drained too, when this
    process is killed. `detach` leaves it alone once the body has ended well.
    """
    early: list[int] = []
    interrupt.handle(lambda number, _frame: early.append(number))  # until there is something that can be stopped
    with _launched(command, with_pipe=not detach) as process:
        try:
            interrupt.raised()
            if early:
                raise KeyboardInterrupt
            client = await_ready(process, data_dir)
            try:
                yield process, client
            except Unavailable:
                ends(data_dir)
                if process.poll() is None:
                    raise
                raise last_words(process) from None  # they say why nobody answers
            finally:
                client.close()
        except BaseException:
            stop(process)
            raise
        if not detach:
            stop(process)


@contextlib.contextmanager
def _launched(command: list[str], *, with_pipe: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor, as a session of its own; `leashed` to this process, it ends with it."""
    pipe = HeartbeatPipe()
    process = interpreter.start(
        command,
        pipe.environment() if with_pipe else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # whoever reads what this command prints would wait for the platform too
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=[pipe.descriptor] if with_pipe else [],
    )
    pipe.given()
    try:
        yield process
    finally:
        pipe.close()


def ready(data_dir: Path) -> Client:
    """A client that has been answered. Raises Unreachable."""
    client = connect(data_dir=data_dir, tls=trusted(data_dir))
    try:
        client.admin.Describe(DescribeRequest(), timeout=5.0)
    except BaseException:
        client.close()
        raise
    return client


def _address(data_dir: Path) -> str:
    """Return where the platform of a directory answers; "" where none does."""
    if not restarts(data_dir):
        return ""
    try:
        with ready(data_dir) as client:
            return client.address("pipeline")
    except Unreachable:
        return ""


def await_ready(process: subprocess.Popen[bytes], data_dir: Path) -> Client:
    wait = Wait(data_dir, now=time.monotonic, tell=say)
    while True:
        if process.poll() is not None:
            raise last_words(process)
        owner = owner_of(data_dir)
        if owner is not None and owner.pid == process.pid:
            with contextlib.suppress(Unreachable):
                return ready(data_dir)
        if wait.over():
            raise Failure(
                f"the platform was not ready after {wait.seconds:.0f} s: {wait.missing()}; look into "
                f"{data_dir / 'logs'}"
            )
        time.sleep(0.05)


def await_agents(client: Client, data_dir: Path, stops: Callable[[], bool]) -> list[str]:
    """Return the nodes of this platform that left when it was stopped and have not come back after AGENT_SECONDS.

    They have left, or are lost, only until their agents register again. Returns at once if the scheduler is away.
    """
    until, late = time.monotonic() + AGENT_SECONDS, list[str]()
    with contextlib.suppress(Problem):
        while True:
            nodes = {node.name: node.state for node in list_all(client, "nodes")}
            own = [f"nodes/{agent}" for agent in agents_of(data_dir)]
            late = [name for name in own if nodes.get(name) in (NODE_STATE_LEFT, NODE_STATE_LOST)]
            if not late or stops() or time.monotonic() > until:
                break
            time.sleep(LOOK_SECONDS)
    return late


def last_words(process: subprocess.Popen[bytes]) -> Failure:
    """The failure with the last output of a supervisor that ended."""
    assert process.stderr is not None
    if process.returncode == 0:
        return put_down()
    words = process.stderr.read().decode(errors="replace").strip()
    last = words.splitlines()[-1] if words else f"the supervisor of the platform ended with {process.returncode}"
    if process.returncode == IN_USE:
        return DataDirInUse(last.removeprefix("tutti: "))
    return Failure(last.removeprefix("tutti: "), process.returncode if process.returncode in (1, 2) else FAILED)


def put_down(then: str = "the same command goes on where it was") -> Failure:
    """Somebody else stopped the platform under a command."""
    return Failure(f"stopped by `tutti down`; {then}", INTERRUPTED)


def stopped(data_dir: Path) -> bool:
    """True if the last platform of the directory was stopped, not killed."""
    supervisor = owner_of(data_dir)
    return supervisor is not None and stopping(data_dir) and not supervisor.alive()


def ends(data_dir: Path) -> bool:
    """The same, after waiting for one that is about to be."""
    supervisor = owner_of(data_dir)
    return supervisor is not None and stopping(data_dir) and gone(supervisor, STOP_SECONDS)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then wait; a second Ctrl-C does not cut the drain short. One that has ended leaves Ctrl-C as it was."""
    if process.poll() is not None:
        return
    interrupt.handle(signal.SIG_IGN)
    process.terminate()
    try:
        process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
