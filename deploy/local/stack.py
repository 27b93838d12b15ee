"""The platform as on a cluster, on this machine: every service its own process, on Kafka, Postgres and an S3 server.

Promises: servers, data and secrets of a stack lie in its data directory; what dies is started again; whatever was
started is stopped by its pid.

    python deploy/local/stack.py run RECIPE [--data-dir D] [--set KEY=VALUE] [--kill NAME@MOMENT]
    python deploy/local/stack.py up [--copies 2] [--replicated] | down | ps | roll | adopt [--data-dir D]
    python deploy/local/stack.py backup|restore FOLDER [--data-dir D]
    python deploy/local/stack.py reader [--data-dir D]
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import psutil
from accounts import reading, roles, users
from keeper import children, keep, replicas
from kills import Kill, Killer
from layout import replicate
from processes import ServerError, wait_until
from rolling import rolled
from roster import Row, keeper_of, kept, roster
from servers import ROOT, Stack

from tutti.backbone.postgres.views import READER
from tutti.chassis.config.datadir import DataDir, DataDirError, part_of
from tutti.chassis.config.exits import FAILED, KILLED, PREFIX, say
from tutti.chassis.config.settings import installed_services
from tutti.chassis.errors import Problem
from tutti.cli.readiness import LONGEST_SECONDS, SILENT
from tutti.cli.record import process_of
from tutti.cli.runs import ENDS_WITH_COMMAND
from tutti.client import Client, connect
from tutti.contracts.admin.v1 import DescribeRequest

DEFAULT = ROOT / "build" / "stack"
READY_SECONDS = 180.0
"""Without progress of a start: a replica that became ready, or one that has more time after it was silent."""
STOP_SECONDS = 90.0
HEAL_SECONDS = 60.0
INTERRUPT_SECONDS = 5.0
MEBI = 1 << 20
TUTTI = str(Path(sys.executable).with_name("tutti"))


def run(given: argparse.Namespace) -> int:
    """Carry a recipe out; the stack is started for the time being when nobody serves the data directory."""
    started, environment = time.monotonic(), dict(os.environ)
    if keeper_of(given.data_dir) is None:
        environment[ENDS_WITH_COMMAND] = "1"
    with _serving(given):
        _say(f"the stack is up after {time.monotonic() - started:.1f} s")
        _show(roster(given.data_dir))
        sets = [part for override in given.set for part in ("--set", override)]
        command = [TUTTI, "run", str(given.recipe), "--data-dir",
                   str(given.data_dir), *sets, "-o", given.output]  # fmt: skip
        killer = Killer(given.data_dir, given.kill)
        client = subprocess.Popen(command, start_new_session=True, env=environment)
        if given.kill:
            killer.start()
        most = 0
        try:
            while client.poll() is None:
                most = max(most, sum(row.memory for row in roster(given.data_dir)))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    client.wait(1.0)
        except KeyboardInterrupt:
            client.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.wait(INTERRUPT_SECONDS)
            client.terminate()
            client.wait()
            return KILLED
        if given.kill:
            killer.stop()
        for line in killer.done:
            _say(line)
        wait_until(lambda: all(each.pid and psutil.pid_exists(each.pid) for each in kept(given.data_dir)), HEAL_SECONDS)
        _show([row for row in roster(given.data_dir) if row.restarts is not None])
        _say(f"{time.monotonic() - started:.1f} s in all; at most {most / MEBI:,.0f} MiB (sum of PSS)")
        if killer.left and client.returncode == 0:
            return say(f"the run ended before {', '.join(map(str, killer.left))}", FAILED)
        return client.returncode if client.returncode >= 0 else KILLED


def up(given: argparse.Namespace) -> int:
    """Start the stack and leave it running."""
    if keeper_of(given.data_dir) is None:
        keeper = _start(given)
        _await_ready(given, keeper)
    return ps(given)


def down(given: argparse.Namespace) -> int:
    """Stop the stack: agents, services, servers; also what a killed keeper left."""
    _stop(given.data_dir)
    _say(f"the stack of {given.data_dir} is down; `up` or `run` goes on with its data")
    return 0


def adopt(given: argparse.Namespace) -> int:
    """Write one id to the stores of a stack that is down: `tutti stack adopt` for each service with its settings."""
    with _servers(given.data_dir) as urls:
        for child in children(DataDir(given.data_dir), urls, agents=0):
            command = [TUTTI, "stack", "adopt", child.name, "--data-dir", str(given.data_dir)]
            words = command + (["--id", given.id] if given.id else [])
            if code := subprocess.run(words, env={**os.environ, **child.environment}, check=False).returncode:
                return code
    return 0


def backup(given: argparse.Namespace) -> int:
    """Copy the stack to a folder while it works: `tutti backup` as the administrator of the servers."""
    if keeper_of(given.data_dir) is None:
        with _servers(given.data_dir) as urls:
            return _administer(["backup", str(given.folder)], given.data_dir, urls)
    servers = Stack(given.data_dir / "servers")
    return _administer(["backup", str(given.folder)], given.data_dir, _urls(servers))


def restore(given: argparse.Namespace) -> int:
    """Fill the empty servers of a stack that is down: `tutti restore` as their administrator."""
    with _servers(given.data_dir) as urls:
        children(DataDir(given.data_dir), urls, agents=0)  # roles, topics and users
        return _administer(["restore", str(given.folder)], given.data_dir, urls)


def roll(given: argparse.Namespace) -> int:
    """Restart every replica, one after another: SIGTERM, then wait until the new process serves."""
    if keeper_of(given.data_dir) is None:
        raise ServerError(f"the stack of {given.data_dir} is down: start it first, with `stack.py up`")
    for name, seconds in rolled(given.data_dir, given.only):
        print(f"{name:16} restarted, serves again after {seconds:5.1f} s", flush=True)
    return 0


def reader(given: argparse.Namespace) -> int:
    """Print the URLs of Postgres, Kafka and S3 for a person who reads, as assignments for a shell."""
    servers, folder = Stack(given.data_dir / "servers"), given.data_dir / "servers"
    urls = _urls(servers)
    if keeper_of(given.data_dir) is None:
        raise ServerError(f"the stack of {given.data_dir} is down: start it first, with `stack.py up`")
    services = installed_services()
    print(f"TUTTI_SQL={roles(urls['postgres'], services, folder / 'roles.json')[READER]}")
    print(f"TUTTI_EVENTS={users(urls['kafka'], services, folder / 'users.json')[READER]}")
    print(f"TUTTI_BLOBS={reading(urls['s3'], folder / 'keys.json')}")
    return 0


def ps(given: argparse.Namespace) -> int:
    """Print every process."""
    rows = roster(given.data_dir)
    if given.output == "json":
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        _show(rows)
    return 0


@contextlib.contextmanager
def _serving(given: argparse.Namespace) -> Iterator[None]:
    data_dir: Path = given.data_dir
    if keeper_of(data_dir) is not None:
        yield
        return
    keeper = _start(given)
    try:
        _await_ready(given, keeper)
        yield
    finally:
        _stop(data_dir)
        keeper.wait()


@contextlib.contextmanager
def _servers(data_dir: Path) -> Iterator[dict[str, str]]:
    """Yield the URLs of the servers of a stack that is down; they run meanwhile. Raises DataDirError, ServerError."""
    DataDir(data_dir)
    if keeper_of(data_dir) is not None:
        raise ServerError(f"the stack of {data_dir} is up: stop it first, with `stack.py down`")
    servers = Stack(data_dir / "servers")
    servers.up(servers.names, install=False)
    try:
        yield _urls(servers)
    finally:
        servers.down(servers.names)


def _urls(servers: Stack) -> dict[str, str]:
    return {each.name: each.url or "" for each in servers.status(servers.names)}


def _administer(words: Sequence[str], data_dir: Path, urls: Mapping[str, str]) -> int:
    settings = {"DATABASE": urls["postgres"], "LOG": urls["kafka"], "BLOBS": urls["s3"]}
    environment = {f"TUTTI_{table}__URL": url for table, url in settings.items()}
    command = [TUTTI, *words, "--data-dir", str(data_dir)]
    return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode


def _start(given: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Raises DataDirError, ServerError."""
    data_dir: Path = given.data_dir
    DataDir(data_dir)
    if given.replicated:
        replicate(data_dir / "servers")
    servers = Stack(data_dir / "servers")
    servers.obtain(servers.names, install=bool(os.environ.get("CI")))  # what takes minutes the first time
    _say("starts Kafka, Postgres, S3, every service and the agents")
    with open(data_dir / "logs" / "keeper.out", "wb") as output:
        command = [sys.executable, str(Path(__file__).resolve()), "keep", "--data-dir", str(data_dir), "--agents",
                   str(given.agents), "--copies", str(given.copies),
                   *(part for each in given.copies_of for part in ("--copies-of", each))]  # fmt: skip
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)


def _await_ready(given: argparse.Namespace, keeper: subprocess.Popen[bytes]) -> None:
    """Every replica of every service answers. Raises ServerError."""
    data_dir: Path = given.data_dir
    parts = [part_of(service, copy) or "" for service, copy in replicas(given.copies, given.copies_of)]

    def progress() -> tuple[list[str], int]:
        return _missing(data_dir, parts), _silences(data_dir, parts)

    began, before = time.monotonic(), progress()
    while before[0] and keeper.poll() is None and time.monotonic() - began < LONGEST_SECONDS:
        if not wait_until(lambda: keeper.poll() is not None or progress() != before, READY_SECONDS):  # noqa: B023
            break
        before = progress()
    if keeper.poll() is not None:
        words = (data_dir / "logs" / "keeper.out").read_text(errors="replace").strip().splitlines()
        raise ServerError((words or [f"the keeper ended with {keeper.returncode}"])[-1].removeprefix(PREFIX))
    if missing := _missing(data_dir, parts):
        _stop(data_dir)
        raise ServerError(
            f"{', '.join(missing)} did not answer within {time.monotonic() - began:.0f} s; look into "
            f"{data_dir / 'logs'}"
        )


def _silences(data_dir: Path, parts: Sequence[str]) -> int:
    """Return how often replicas were started again after a silence; each of them has twice the time then."""
    recorded = [process_of(data_dir, part) for part in parts]
    return sum(each.restarts for each in recorded if each is not None and each.exit.startswith(SILENT))


def _missing(data_dir: Path, parts: Sequence[str]) -> list[str]:
    """Replicas that have not announced themselves, and services that do not answer."""
    if missing := [each for each in parts if not (data_dir / "endpoints" / each).exists()]:
        return missing
    with contextlib.suppress(Problem), connect(data_dir) as client:
        return sorted(set(installed_services()) - _answering(client))
    return installed_services()


def _answering(client: Client) -> set[str]:
    return {each.name for each in client.admin.Describe(DescribeRequest(), timeout=5.0).services}


def _stop(data_dir: Path) -> None:
    keeper = keeper_of(data_dir)
    if keeper is not None:
        keeper.terminate()
        with contextlib.suppress(psutil.TimeoutExpired):
            keeper.wait(STOP_SECONDS)
        if keeper.is_running() and keeper.status() != psutil.STATUS_ZOMBIE:
            keeper.kill()
    servers = Stack(data_dir / "servers")
    servers.down(servers.names)


def _show(rows: Sequence[Row]) -> None:
    """A table; Postgres's processes of its own are counted, not listed."""
    backends = [row for row in rows if row.what == "postgres of postgres"]
    _say(f"{'PID':>8} {'PARENT':>8}  {'WHAT':34} {'SINCE':25} {'RESTARTS':>8} {'MiB':>7}")
    for row in rows:
        if row not in backends:
            restarts = "" if row.restarts is None else str(row.restarts)
            what = f"{row.what} (and {len(backends)} of its own)" if row.what == "postgres" and backends else row.what
            _say(f"{row.pid:>8} {row.parent:>8}  {what:34} {row.since:25} {restarts:>8} {row.memory / MEBI:>7.1f}")
    _say(f"{len(rows)} processes, {sum(row.memory for row in rows) / MEBI:,.0f} MiB (sum of PSS)")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stack.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="run|up|down|ps|roll|adopt|backup|restore|reader")
    for command in (run, up, down, ps, roll, adopt, backup, restore, reader, _keep):
        name = command.__name__.strip("_")
        made = commands.add_parser(name, description=command.__doc__)
        made.set_defaults(command=command)
        made.add_argument("--data-dir", type=Path, default=DEFAULT)
        if command in (run, up):
            made.add_argument("--replicated", action="store_true", help="a new stack has three brokers")
        if command in (run, up, _keep):
            made.add_argument("--agents", type=int, choices=range(9), default=2)
            made.add_argument("--copies", type=int, choices=(1, 2, 3), default=1, help="replicas of each service")
            made.add_argument("--copies-of", action="append", default=[], choices=installed_services(),
                              metavar="SERVICE", help="copies of these alone; may be repeated")  # fmt: skip
        if command is roll:
            made.add_argument("--only", action="append", default=[], metavar="SERVICE", help="may be repeated")
        if command is adopt:
            made.add_argument("--id", default="", help="the id to keep, if the stores have different ones")
        if command in (backup, restore):
            made.add_argument("folder", type=Path)
        if command in (run, up, down, ps):
            made.add_argument("-o", "--output", choices=["text", "json"], default="text")
        if command is run:
            made.add_argument("recipe", type=Path)
            made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the recipe")
            made.add_argument(
                "--kill",
                action="append",
                default=[],
                type=Kill.parse,
                metavar="NAME@MOMENT",
                help="kill -9 a server, a service or an agent after a step (kafka@10) or as a stage begins (s3@dedup)",
            )
    return parser


def _keep(given: argparse.Namespace) -> int:
    """Run the stack in the foreground; what `up` and `run` start."""
    return keep(given.data_dir, agents=given.agents, copies=given.copies, copied=given.copies_of)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    given.data_dir = given.data_dir.resolve()
    if given.command is not _keep:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code: int = given.command(given)
        return code
    except (ServerError, DataDirError) as error:
        return say(str(error), FAILED)
    except KeyboardInterrupt:
        return KILLED


if __name__ == "__main__":
    sys.exit(main())
