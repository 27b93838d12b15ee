"""The trial of docker-compose.yml on a real engine: `make compose-test`.

Promises: cold to healthy is timed; every container has a proxy in its environment that leads nowhere;
recipes/tiny.yaml gives the canonical state of the embedded platform, byte for byte; while runs go on, containers are
killed, paused and cut off, one fault at a time, and every run ends with the same state; every write that was
acknowledged meanwhile is there; cold start, memory and image size meet their goals; what was started is stopped. Exit
codes: 0 passed, 1 failed, 77 no engine can be had here.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.trials.docker import evidence
from tests.trials.docker.engine import NOWHERE, NoEngine, TrialError, command, engine, processor_seconds, proxied, tell
from tests.trials.docker.faults import HEAL_SECONDS, Fault, cause
from tests.trials.docker.firstlight import first_light
from tests.trials.docker.images import PYTHON, prepare, sizes
from tests.trials.docker.project import CACHE, READERS, REPLICAS, ROOT, TUTTI, Project
from tests.trials.docker.reading import read
from tests.trials.docker.sites import emptied_broker, second_clone, slow_host
from tests.trials.docker.upgrading import upgrade
from tests.trials.docker.writes import Writes
from tutti.chassis.config.settings import installed_services

NO_ENGINE = 77
# One of each kind: the stores, a service of each room, an agent, the front door.
KINDS = ("kafka", "postgres", "s3", "ingest", "pipeline", "scheduler", "committer", "agent-a", "door")
# With the layer `replicas`: each broker leads a third of the partitions, one of them the controllers too.
REPLICATED = (
    *((each, Fault.KILL) for each in ("kafka", "kafka-2", "kafka-3")),
    ("kafka-2", Fault.PAUSE),
    ("kafka-3", Fault.DISCONNECT),
    ("postgres", Fault.PAUSE),
    ("postgres", Fault.DISCONNECT),
)
CONTAINERS = ROOT / "docs" / "operations" / "containers.md"
BEGIN, END = "<!-- figures of make compose-test: begin -->", "<!-- end -->"
RECIPE = ROOT / "recipes" / "tiny.yaml"
REST_SECONDS = 10.0
COPIES = 3
LONG, LONG_STEPS = 19, 400
"""The limit of the run that goes on while a backup is taken, and its steps."""
HANG_SECONDS = 62.0
STORES = {"kafka": "event log", "postgres": "database", "s3": "blobs"}
"""The findings of the doctor about each store."""
RUN_SECONDS = 600.0  # with the faults meanwhile, on a machine that is busy with other work
REACH_SECONDS = 60.0
NOT_REACHABLE = 3  # the exit code of the command
DOCTOR_SECONDS = 15.0
COLD_PROCESSOR_SECONDS, REST_MIB, CONTROL_MB = 60.0, 1.4 * 1024, 450.0
"""Goals: from nothing to healthy, all containers at rest, and the image `control` over its base. The first is of
CPU time, as the time of a cold start depends on what else the machine does.
"""


def trial(given: argparse.Namespace) -> int:
    CACHE.mkdir(parents=True, exist_ok=True)
    pages = Path(command([sys.executable, ROOT / "tools/exhibit.py"], seconds=300, folder=ROOT).split()[-1])
    with engine(CACHE) as found, tempfile.TemporaryDirectory(prefix="tutti-docker-") as configuration:
        standins = prepare(found, CACHE)
        if standins:
            tell(
                f"STAND-INS: {', '.join(standins)} are made here from Debian's packages and the servers' own releases."
            )
            tell("This trial proves the compose file and our images, not the public images.")
        figures = Figures(standins)
        figures.sizes(sizes(found))
        client = proxied(found, Path(configuration))  # builds are over, which need the network
        project = Project(client, "tutti-trial", given.port, pages.parent, tuple(given.layer), tuple(given.single))
        project.down()
        evidence.forget()
        # A container gives the folder another owner, who is not the one that runs the trial.
        with tempfile.TemporaryDirectory(prefix="tutti-backups-", ignore_cleanup_errors=True) as backups:
            project.backups = Path(backups)
            try:
                code = _carried_out(project, pages, given, figures)
                if given.record:
                    figures.write(CONTAINERS)
                if REPLICAS not in given.layer:  # which starts more containers
                    figures.tell_goals(strict=given.strict)
                return code
            except TrialError:
                evidence.keep_logs(project)
                raise
            finally:
                project.down()


def _carried_out(project: Project, pages: Path, given: argparse.Namespace, figures: "Figures") -> int:
    before = processor_seconds()
    took, after = project.up(), processor_seconds()
    figures.cold(took, len(project.services()), after - before if after and before is not None else None)
    time.sleep(REST_SECONDS)
    _proxies(project)
    figures.memory(project.memory())
    limits = [20]
    _run(project, limits[0])
    print("recipes/tiny.yaml ran through the front door")
    second_clone(project)
    emptied_broker(project)
    slow_host(project)
    if READERS in project.layers:
        read(project)
    if REPLICAS not in project.layers:
        _with_copies(project, limits)
        upgrade(project)
    faults = _faults(given)
    failed = _with_faults(project, faults, limits) if faults and not given.no_faults else ""
    if failed:
        raise TrialError(failed)
    _doctor(project)
    _unchanged(project)
    _rotated(project, limits)
    _restored(project, limits)
    mine = _exported(project)
    with tempfile.TemporaryDirectory() as folder:
        theirs = _embedded(Path(folder), pages, limits)
    if mine != theirs:
        ours, others = mine.splitlines(), theirs.splitlines()
        differing = [line for line in ours if line not in others] + [line for line in others if line not in ours]
        raise TrialError("the canonical state differs from the embedded platform's:\n" + "\n".join(differing)[:2000])
    if given.first_light:
        first_light(project, given.first_light)
    if REPLICAS not in project.layers:
        _observed(project)
    print(f"{len(limits)} runs: the canonical state is the embedded platform's, {len(mine):,} bytes")
    return 0


def _proxies(project: Project) -> None:
    """The proxy that leads nowhere is in the environment of the front door. Raises TrialError."""
    found = project.engine.run("exec", project.container("door"), "printenv", "http_proxy").strip()
    if found != NOWHERE:
        raise TrialError(f"the front door has http_proxy={found!r}, and its client was configured with {NOWHERE}")
    print("all containers are healthy with a proxy in their environment that leads nowhere")


def _faults(given: argparse.Namespace) -> list[tuple[str, Fault]]:
    """The faults that were asked for, or those of the layers, in their order."""
    if REPLICAS in given.layer and not (given.kind or given.fault):
        return list(REPLICATED)
    return [(kind, fault) for fault in given.fault or list(Fault) for kind in given.kind or KINDS]


def _with_copies(project: Project, limits: list[int]) -> None:
    """A run while several replicas of a service share its tasks. Raises TrialError."""
    project.compose("up", "-d", "--wait", "--no-recreate", "--scale", f"dedup={COPIES}")
    limits.append(limits[-1] + 1)
    _run(project, limits[-1])
    print(f"a run with {COPIES} copies of dedup")
    project.compose("up", "-d", "--wait", "--no-recreate", "--scale", "dedup=1")


def _with_faults(project: Project, faults: Sequence[tuple[str, Fault]], limits: list[int]) -> str:
    """Cause every fault while runs go on, one after another; why it failed, empty when it did not.

    `limits` gets an entry for each run, by which they differ from the first stage on.
    """
    failures: list[str] = []
    over = threading.Event()

    def work() -> None:
        try:
            with Writes(project) as writes:
                for service, fault in faults:
                    began = time.monotonic()
                    seconds = cause(project, service, fault, meanwhile=_naming(project, service, fault))
                    gap = f"no write was acknowledged for {writes.longest_gap(began):5.1f} s"
                    print(f"{fault.value:10} {service:12} all healthy after {seconds:5.1f} s, {gap}", flush=True)
            writes.read_back()
            print(f"{len(writes)} writes were acknowledged between the faults, and all are there", flush=True)
            if ("postgres", Fault.PAUSE) in faults:
                cause(
                    project,
                    "postgres",
                    Fault.PAUSE,
                    seconds=HANG_SECONDS,
                    meanwhile=lambda: _named(project, "database"),
                )
                print(f"postgres hung for {HANG_SECONDS:.0f} s while a run went on", flush=True)
        except (TrialError, OSError) as error:
            failures.append(str(error))
        finally:
            over.set()

    worker = threading.Thread(target=work, name="faults", daemon=True)
    worker.start()
    try:
        while not (over.is_set() or failures):
            limits.append(limits[-1] + 1)
            _run(project, limits[-1])
    except TrialError as error:
        failures.append(str(error))
    worker.join()
    return "\n".join(failures)


def _rotated(project: Project, limits: list[int]) -> None:
    """Make all secrets anew: an old token is refused, and a run goes on with the new ones. Raises TrialError."""
    old, began = project.token, time.monotonic()
    rotate = ("--entrypoint", "python", "secrets", "/opt/provision.py", "rotate", "/run/tutti")
    project.compose("run", "--rm", "-T", "--no-deps", *rotate)
    project.up("--force-recreate")
    print(f"all secrets were made anew, and all containers healthy, in {time.monotonic() - began:.1f} s", flush=True)
    new, project.token = project.token, old
    refused = project.tutti("runs", "ls")
    project.token = new
    if refused.returncode == 0 or "the token is not one of this platform" not in refused.stderr:
        raise TrialError(f"an old token was answered with {refused.returncode}: {refused.stderr[-1000:]}")
    limits.append(limits[-1] + 1)
    _run(project, limits[-1])


def _restored(project: Project, limits: list[int]) -> None:
    """Back up while a run goes on, delete everything, restore: the run continues. Raises TrialError."""
    limits.append(LONG)
    begun = project.tutti("run", str(RECIPE), *_sets("/input/pages", LONG), "--detach")
    if begun.returncode != 0:
        raise TrialError(f"tutti run --detach ended with {begun.returncode}:\n{begun.stderr[-3000:]}")
    run, began = begun.stdout.strip(), time.monotonic()
    project.compose("run", "--rm", "-T", "archive", "backup", "/backups/trial", seconds=300)
    print(f"archive took a backup in {time.monotonic() - began:.1f} s, while a run went on", flush=True)
    if (state := _state(project, run)) != "running":
        raise TrialError(f"the run was {state} before the backup was complete: give it more steps")
    project.down()
    began = time.monotonic()
    project.compose("run", "--rm", "-T", "archive", "restore", "/backups/trial", seconds=300)
    project.up()
    print(f"restored on empty volumes and healthy in {time.monotonic() - began:.1f} s", flush=True)
    project.wait(
        lambda: _state(project, run) == "done", RUN_SECONDS,
        lambda: f"the restored run to be done; it is {_state(project, run)}",
    )  # fmt: skip
    _unchanged(project)
    # The restored services publish every event again, which Kafka writes to disk one by one.
    project.wait(lambda: project.tutti("doctor").returncode == 0, HEAL_SECONDS, lambda: "a doctor that is content")
    _doctor(project)


def _state(project: Project, run: str) -> str:
    """The state of a run; "unknown" where nobody answers."""
    done = project.tutti("runs", "ls", "-o", "json")
    found = {each["name"]: each["state"] for each in json.loads(done.stdout)} if done.returncode == 0 else {}
    return str(found.get(run, "unknown"))


def _run(project: Project, limit: int) -> None:
    """Carry the recipe out over the first pages; keep the state if that fails. Raises TrialError."""
    try:
        done = _reached(project, limit)
        if done.returncode != 0:
            raise TrialError(f"tutti run with input.limit={limit} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    except TrialError:
        evidence.keep_state(project)
        raise


def _reached(project: Project, limit: int) -> "subprocess.CompletedProcess[str]":
    """The recipe over the first pages, again where nobody answers at first. Raises TrialError."""
    deadline = time.monotonic() + REACH_SECONDS
    while True:
        done = project.tutti("run", str(RECIPE), *_sets("/input/pages", limit), seconds=RUN_SECONDS)
        if done.returncode != NOT_REACHABLE or time.monotonic() > deadline:
            return done
        print(f"the command is repeated: {done.stderr.strip().splitlines()[-1]}", flush=True)
        time.sleep(1)


def _sets(pages: str, limit: int) -> list[str]:
    steps = LONG_STEPS if limit == LONG else 60
    return ["--set", f"input.path={pages}", "--set", f"input.limit={limit}", "--set", f"train.steps={steps}"]


def _doctor(project: Project) -> None:
    """The doctor finds nothing, at once or when a busy machine is calmer. Raises TrialError."""
    deadline = time.monotonic() + HEAL_SECONDS
    while (done := project.tutti("doctor", "--all")).returncode != 0:
        bad = [line for line in done.stdout.splitlines() if "BAD" in line]
        if time.monotonic() < deadline:
            print("\n".join(["the doctor is asked again:", *bad]), flush=True)
            time.sleep(5)
            continue
        raise TrialError("tutti doctor is not content:\n" + "\n".join(bad or [done.stderr]))
    kernels = [line for line in done.stdout.splitlines() if " kernel: " in line]
    lacking = [line for line in kernels if "by kernels of this installation" not in line]
    if lacking or not kernels:
        raise TrialError(f"kernels that were not compiled with the images: {lacking or 'all'}")


def _unchanged(project: Project) -> None:
    """The audit trail of every service is as it was sealed. Raises TrialError."""
    done = project.tutti("audit", "verify", "-o", "json")
    if done.returncode != 0:
        raise TrialError(f"tutti audit verify ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    trails = json.loads(done.stdout)
    print(
        f"{sum(int(each.get('records', 0)) for each in trails)} audit records of {len(trails)} services are unchanged"
    )


def _observed(project: Project) -> None:
    """Prometheus finds every service and agent, and can evaluate every rule. Raises TrialError."""
    project.compose("--profile", "observe", "up", "-d", "--wait", "--no-recreate", "prometheus")
    container = project.container("prometheus")

    def asked(path: str) -> dict[str, Any]:
        url = f"http://localhost:9090/api/v1/{path}"
        found: dict[str, Any] = json.loads(project.engine.run("exec", container, "wget", "-q", "-O", "-", url))["data"]
        return found

    def targets() -> int:
        found = [each for each in asked("targets")["activeTargets"] if each["labels"]["job"] == "tutti"]
        return len([each for each in found if each["health"] == "up"])

    wanted = len([each for each in project.services() if each.startswith("agent-") or each in installed_services()])
    project.wait(lambda: targets() == wanted, REACH_SECONDS, lambda: f"{wanted} targets of Prometheus, {targets()} up")
    rules = [rule for group in asked("rules")["groups"] for rule in group["rules"]]
    bad = [f"{rule['name']}: {rule['lastError']}" for rule in rules if rule.get("lastError")]
    if bad or not rules:
        raise TrialError(f"rules that Prometheus cannot evaluate: {bad or 'none are loaded'}")
    print(f"Prometheus scrapes {wanted} targets and evaluates {len(rules)} rules")


def _naming(project: Project, service: str, fault: Fault) -> Callable[[], None] | None:
    """A call that asks the doctor while a store hangs; None for other faults."""
    if fault is not Fault.PAUSE or service not in STORES or REPLICAS in project.layers:
        return None
    return lambda: _named(project, STORES[service])


def _named(project: Project, store: str) -> None:
    """The doctor names a store that hangs. Raises TrialError."""
    began = time.monotonic()
    done = project.tutti("doctor")
    took = time.monotonic() - began
    bad = [line for line in done.stdout.splitlines() if "BAD" in line and store in line]
    if not bad or took > DOCTOR_SECONDS:
        raise TrialError(f"tutti doctor took {took:.1f} s and said of {store} that hangs: {done.stdout[-2000:]}")
    print(f"tutti doctor named the {store} after {took:.1f} s, in {len(bad)} findings", flush=True)


def _exported(project: Project) -> str:
    done = project.tutti("export", "--canonical")
    if done.returncode != 0:
        raise TrialError(f"tutti export failed: {done.stderr[-2000:]}")
    return done.stdout


def _embedded(data_dir: Path, pages: Path, limits: Sequence[int]) -> str:
    """The canonical state of the embedded platform after the same runs. Raises TrialError."""
    where = ["--data-dir", str(data_dir)]
    command([TUTTI, "up", "--detach", *where], seconds=120)
    try:
        for limit in limits:
            command([TUTTI, "run", RECIPE, *_sets(str(pages), limit), *where], seconds=300)
        return command([TUTTI, "export", "--canonical", *where], seconds=120)
    finally:
        command([TUTTI, "down", *where], seconds=120)


class Figures:
    """What a trial measured, printed as it comes and written into a page between two marks."""

    def __init__(self, standins: Sequence[str]) -> None:
        cores, memory = os.cpu_count(), psutil.virtual_memory().total / 2**30
        images = "stand-ins for the public images, so their sizes are not those" if standins else "the public images"
        where = f"{_processor()}, {cores} cores, {memory:.0f} GiB, {platform.system()}"
        self._load, self._missed = f"load {os.getloadavg()[0]:.1f} at the start", list[str]()
        self._lines = [f"On {where}, {self._load};", f"{images}.", ""]

    def sizes(self, found: dict[str, float]) -> None:
        self._tell("image", [(name, f"{size:,.0f} MB") for name, size in found.items()])
        for name in ("control", "compute"):
            over = found[f"tutti/{name}:latest"] - found[PYTHON]
            self._say(f"{name} is {over:,.0f} MB over its base.")
            if name == "control":
                self._compare("the image control over its base", over, CONTROL_MB, "MB")

    def cold(self, seconds: float, containers: int, processor: float | None) -> None:
        used = f", and {processor:.0f} s of CPU time in containers" if processor is not None else ""
        self._say(f"From nothing to {containers} healthy containers, images present: {seconds:.1f} s{used}.")
        if processor is not None:
            self._compare("from nothing to healthy", processor, COLD_PROCESSOR_SECONDS, "s of CPU time")

    def memory(self, found: dict[str, float]) -> None:
        ordered = sorted(found.items(), key=lambda each: -each[1])
        total = sum(found.values())
        rows = [(name, f"{used:,.0f} MiB") for name, used in [*ordered, ("all", total)]]
        self._tell("container at rest, without page cache", rows)
        self._compare("all containers at rest", total, REST_MIB, "MiB")

    def tell_goals(self, *, strict: bool) -> None:
        """Name the goals that were missed, which is no failure of what was tried. Raises TrialError if `strict`."""
        if self._missed:
            words = f"goals were missed ({self._load}): {'; '.join(self._missed)}"
            if strict:
                raise TrialError(words)
            print(words, flush=True)

    def write(self, page: Path) -> None:
        before, _, rest = page.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n" + "\n".join(self._lines).strip() + f"\n{END}{after}")

    def _compare(self, what: str, value: float, most: float, unit: str) -> None:
        if value > most:
            self._missed.append(f"{what}: {value:,.1f} {unit}, the goal is at most {most:,.1f} {unit}")

    def _tell(self, what: str, rows: Sequence[tuple[str, str]]) -> None:
        self._lines += [f"| {what} | |", "|---|--:|", *(f"| {name} | {value} |" for name, value in rows), ""]
        for name, value in rows:
            print(f"  {name:30} {value:>12}", flush=True)

    def _say(self, line: str) -> None:
        self._lines += [line, ""]
        print(line, flush=True)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials.docker.trial", description=__doc__)
    parser.add_argument("--port", type=int, default=27600, help="port of the front door on loopback")
    parser.add_argument("--kind", action="append", help="cause faults of this service alone; may be repeated")
    parser.add_argument("--fault", action="append", type=Fault, help="kill, pause or disconnect; may be repeated")
    parser.add_argument(
        "--layer",
        action="append",
        default=[],
        choices=["tls", READERS, REPLICAS],
        help="a file of deploy/compose; may be repeated",
    )
    parser.add_argument("--single", action="append", default=[], metavar="SERVICE",
                        help="one replica of this service, whatever a layer says; may be repeated")  # fmt: skip
    parser.add_argument("--record", action="store_true", help="write the figures into docs/operations/containers.md")
    parser.add_argument("--strict", action="store_true", help="fail when a goal for time or memory was missed")
    parser.add_argument("--no-faults", action="store_true", help="only the cold start and one run")
    parser.add_argument("--first-light", type=int, default=0, metavar="STEPS",
                        help="also crawl the site of the profile `example`, and train so many steps")  # fmt: skip
    given = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        code = trial(given)
    except NoEngine as error:
        print(f"no trial: {error}", file=sys.stderr)
        return NO_ENGINE
    except TrialError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print(f"passed in {time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
