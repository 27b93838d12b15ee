"""Traces of a platform through a real OpenTelemetry Collector to a real Jaeger, without Docker.

Promises: both programs are built from their Go modules, in the versions of docker-compose.yml, and run with the
configurations of deploy/docker, which only get other addresses, on loopback; what was started is stopped by its pid.

    python -m tests.trials.traces obtain               build both; once, about ten minutes of two cores
    python -m tests.trials.traces check                let both check their configuration
    python -m tests.trials.traces try PAGES            runs with the collector up, stopped and killed: same results
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from processes import Process, ServerError, free_port, run, start, tell, wait_until
from tools.manifests.parts import resolved

from tutti.backbone.direct import fetch

ROOT = Path(__file__).resolve().parents[2]
CACHE, FOLDER = ROOT / "build" / "observe", ROOT / "build" / "traces"
CONFIGURED = ROOT / "deploy" / "docker"
TUTTI = str(Path(sys.executable).with_name("tutti"))
MODULES = "go.opentelemetry.io/collector"
JAEGER = "github.com/jaegertracing/jaeger"
BUILD_SECONDS, READY_SECONDS, RUN_SECONDS, TRACE_SECONDS = 3600.0, 30.0, 300.0, 30.0
MISSING = 3  # the exit code when the programs were not built
HOPS = (
    "tutti-host: tutti.pipeline.v1.PipelineService/CreateRun",
    "tutti-host: handle ",
    "tutti-host: tokenization worker tokenizations on ",
    "tutti-host: scheduler jobs reconciler advances ",
    "tutti-agent-a: nodes/a reports",
    "tutti-agent-a: put trainer/reports/",
    "tutti-host: committer commits reconciler advances ",
    "tutti-host: handle tutti.committer.v1.Checkpoint",
)
"""How the names of spans begin that the trace of a run has: from its call to the blob of a shard, and back."""


class NotBuilt(ServerError):
    """A program is missing."""


@dataclass(frozen=True)
class Program:
    """A program that was built here, with the configuration of its container."""

    name: str
    version: str

    @property
    def path(self) -> Path:
        return CACHE / f"{self.name}-{self.version}"

    @property
    def configuration(self) -> Path:
        return CONFIGURED / self.name / f"{self.name}.yml"

    def require(self) -> None:
        """Raises NotBuilt."""
        if not self.path.exists():
            raise NotBuilt(f"{self.path} is missing: build it with `python -m tests.trials.traces obtain`")

    def check(self) -> None:
        """The program accepts its configuration. Raises ServerError."""
        self.require()
        run([self.path, "validate", "--config", self.configuration], seconds=60)

    def start(self, folder: Path, changed: Mapping[str, Any]) -> Process:
        """Start it with its configuration, in which `changed` is replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        override = folder / f"{self.name}.yml"
        override.write_text(yaml.safe_dump(dict(changed)))
        command: list[str | Path] = [self.path, "--config", self.configuration, "--config", override]
        return start(command, log=folder / f"{self.name}.log", environment={})


def programs() -> tuple[Program, Program]:
    """The collector and Jaeger, in the versions of docker-compose.yml."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    versions = {name: resolved(services[name]["image"]).rpartition(":")[2] for name in ("collector", "jaeger")}
    collector, jaeger = (Program(name, version) for name, version in versions.items())
    return collector, jaeger


def obtain() -> None:
    """Build what is missing. Raises ServerError."""
    collector, jaeger = programs()
    missing = [each for each in (collector, jaeger) if not each.path.exists()]
    if missing and shutil.which("go") is None:
        raise ServerError("the collector and Jaeger are built by Go 1.25 or newer: install it from https://go.dev/dl")
    CACHE.mkdir(parents=True, exist_ok=True)
    for each in missing:
        tell(f"compiles {each.name} {each.version}; once, minutes")
        (_build_collector if each is collector else _build_jaeger)(each)


def _build_collector(program: Program) -> None:
    """A collector with those components alone that its configuration names."""
    folder = CACHE / "collector"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    manifest = folder / "builder.yml"
    manifest.write_text(yaml.safe_dump(manifest_of(program, folder)))
    run(["go", "run", f"{MODULES}/cmd/builder@v{program.version}", "--config", manifest], seconds=BUILD_SECONDS)
    (folder / "made" / "collector").replace(program.path)


def manifest_of(program: Program, folder: Path) -> dict[str, Any]:
    """What the builder of the collector reads."""
    named = yaml.safe_load(program.configuration.read_text())
    found: dict[str, Any] = {
        "dist": {"name": "collector", "output_path": str(folder / "made"), "version": program.version}
    }
    for kind in ("receivers", "processors", "exporters"):
        single = kind.removesuffix("s")
        names = sorted({name.partition("/")[0].replace("_", "") for name in named[kind]})
        found[kind] = [{"gomod": f"{MODULES}/{single}/{name}{single} v{program.version}"} for name in names]
    return found


def _build_jaeger(program: Program) -> None:
    """Version 2.N of Jaeger is version 1.(63 + N) of its module."""
    minor = int(program.version.split(".")[1])
    module = f"{JAEGER}@v1.{63 + minor}.{program.version.split('.')[2]}"
    made = subprocess.run(
        ["go", "mod", "download", "-json", module], capture_output=True, text=True, timeout=600, check=False, cwd="/"
    )
    if made.returncode != 0:
        raise ServerError(f"go mod download {module} failed:\n{(made.stdout + made.stderr)[-2000:]}")
    folder = CACHE / "jaeger"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(json.loads(made.stdout)["Dir"], folder, copy_function=shutil.copyfile)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)  # the cache of modules is read-only
    beside = program.path.with_name(f"{program.path.name}.new")
    words = ["-mod=mod", "-ldflags=-s -w", "-o", str(beside), "./cmd/jaeger"]
    run(["go", "build", "-C", folder, *words], seconds=BUILD_SECONDS)
    beside.replace(program.path)


@dataclass(frozen=True)
class Observers:
    """A collector and a Jaeger that run; `endpoint` is for OTEL_EXPORTER_OTLP_ENDPOINT, `query` for people."""

    collector: Process
    endpoint: str
    query: str

    def traces(self, service: str) -> list[dict[str, Any]]:
        """The traces of a service, as Jaeger has them."""
        now = int(time.time() * 1e6)
        asked = {"service": service, "start": now - int(3600e6), "end": now, "limit": 1000}
        found: list[dict[str, Any]] = _asked(f"{self.query}/api/traces?{urllib.parse.urlencode(asked)}")["data"] or []
        return found


@contextmanager
def observing(folder: Path) -> Iterator[Observers]:
    """Start both, and stop them at the end. Raises ServerError."""
    collector, jaeger = programs()
    for each in (collector, jaeger):
        each.require()
    took, query, health, traces, scraped, grpc = _ports(6)
    started: list[Process] = []
    try:
        started.append(
            jaeger.start(
                folder,
                {
                    "extensions": {
                        "healthcheckv2": {"http": {"endpoint": _at(health)}},
                        "jaeger_query": {"http": {"endpoint": _at(query)}, "grpc": {"endpoint": _at(grpc)}},
                    },
                    "receivers": _receives(traces),
                    "service": {"telemetry": {"metrics": {"level": "none"}}},
                },
            )
        )
        readers = [{"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": scraped}}}}]
        started.append(
            collector.start(
                folder,
                {
                    "exporters": {"otlp": {"endpoint": _at(traces)}},
                    "receivers": _receives(took),
                    "service": {"telemetry": {"metrics": {"readers": readers}}},
                },
            )
        )
        addresses = {"jaeger": f"http://{_at(health)}/status", "collector": f"http://{_at(scraped)}/metrics"}
        if not wait_until(lambda: all(map(_answers, addresses.values())), READY_SECONDS):
            silent = [name for name, address in addresses.items() if not _answers(address)]
            logs = "\n".join((folder / f"{name}.log").read_text(errors="replace")[-1500:] for name in silent)
            raise ServerError(f"{', '.join(silent)} did not answer within {READY_SECONDS:.0f} s:\n{logs}")
        yield Observers(started[1], f"http://{_at(took)}", f"http://{_at(query)}")
    finally:
        for process in reversed(started):
            if process.is_alive():
                os.kill(process.pid, signal.SIGCONT)  # it may be stopped
            process.stop(signal.SIGTERM)


def _ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return sorted(found)


def _at(port: int) -> str:
    return f"127.0.0.1:{port}"


def _receives(port: int) -> dict[str, Any]:
    return {"otlp": {"protocols": {"grpc": {"endpoint": _at(port)}}}}


def _answers(url: str) -> bool:
    try:
        with fetch(url, seconds=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _asked(url: str) -> Any:
    with fetch(url, seconds=10) as answer:
        return json.loads(answer.read())


@dataclass(frozen=True)
class Ended:
    """A run that ended: the digests of its checkpoints by step, and seconds of the run and of stopping the platform."""

    digests: dict[int, str]
    seconds: float
    stopping: float


def attempt(given: argparse.Namespace) -> int:
    """Run recipes/tiny.yaml on four platforms: without traces, with the collector up, stopped, and killed."""
    folder: Path = given.dir
    shutil.rmtree(folder, ignore_errors=True)
    ended: dict[str, Ended] = {}
    with observing(folder) as observers:
        ended["none"] = _carried_out(folder / "none", given.pages, "")
        ended["up"] = _carried_out(folder / "up", given.pages, observers.endpoint)
        tell(_one_trace(observers))
        os.kill(observers.collector.pid, signal.SIGSTOP)
        ended["stopped"] = _carried_out(folder / "stopped", given.pages, observers.endpoint)
        os.kill(observers.collector.pid, signal.SIGCONT)
        os.kill(observers.collector.pid, signal.SIGKILL)
        ended["killed"] = _carried_out(folder / "killed", given.pages, observers.endpoint)
    print(f"{'collector':10} {'run':>8} {'stop':>8}  digest of the last checkpoint")
    for state, each in ended.items():
        print(f"{state:10} {each.seconds:6.1f} s {each.stopping:6.1f} s  {each.digests[max(each.digests)]}")
    if len({tuple(sorted(each.digests.items())) for each in ended.values()}) != 1:
        raise ServerError("the runs ended with different digests")
    return 0


def _carried_out(data_dir: Path, pages: Path, endpoint: str) -> Ended:
    """A run on a platform of its own, which exports to `endpoint` unless it is empty. Raises ServerError."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TUTTI_", "OTEL_"))}
    if endpoint:
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
    command = [TUTTI, "up", "--agents", "1", "--data-dir", str(data_dir)]
    silent = subprocess.DEVNULL
    platform = subprocess.Popen(command, env=environment, stdout=silent, stderr=silent, cwd=ROOT)
    try:
        if not wait_until(lambda: (data_dir / "endpoint").exists() or platform.poll() is not None, 2 * READY_SECONDS):
            raise ServerError(f"the platform was not up within {2 * READY_SECONDS:.0f} s: see {data_dir / 'logs'}")
        words = ["run", ROOT / "recipes" / "tiny.yaml", "--data-dir", data_dir, "--set", f"input.path={pages}"]
        began = time.monotonic()
        done = subprocess.run(
            [TUTTI, *map(str, words), "-o", "json"],
            env=environment, cwd=ROOT, capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - began
        if done.returncode != 0:
            raise ServerError(f"tutti run ended with {done.returncode}:\n{done.stderr[-2000:]}")
    except subprocess.TimeoutExpired as error:
        raise ServerError(f"tutti run did not end within {RUN_SECONDS:.0f} s; look into {data_dir / 'logs'}") from error
    finally:
        began = time.monotonic()
        platform.terminate()
        platform.wait(READY_SECONDS)
    found = {each["step"]: each["state_digest"] for each in json.loads(done.stdout)["checkpoints"]}
    return Ended(found, seconds, time.monotonic() - began)


def _one_trace(observers: Observers) -> str:
    """Describe the trace of the run in Jaeger. Raises ServerError when none has every hop."""
    best: dict[str, Any] = {}

    def complete() -> bool:
        nonlocal best
        best = max(observers.traces("tutti-agent-a"), key=lambda each: len(hops(each)), default={})
        return bool(best) and len(hops(best)) == len(HOPS)

    if not wait_until(complete, TRACE_SECONDS):
        lacking = [name for name in HOPS if name not in hops(best)]
        raise ServerError(f"within {TRACE_SECONDS:.0f} s no trace in Jaeger had {', '.join(map(repr, lacking))}")
    spans = best["spans"]
    first = min(each["startTime"] for each in spans)
    took = max(each["startTime"] + each["duration"] for each in spans) - first
    lines = [f"trace {best['traceID']}: {len(spans)} spans of {len(best['processes'])} processes in {took / 1e6:.1f} s"]
    ordered = sorted(hops(best).items(), key=lambda hop: hop[1])
    lines += [f"  {(at - first) / 1e6:6.2f} s  {name}" for name, at in ordered]
    return "\n".join(lines)


def hops(trace: Mapping[str, Any]) -> dict[str, int]:
    """Those of HOPS that a trace has, each with the start of its first span in microseconds."""
    found: dict[str, int] = {}
    for span in trace.get("spans", []):
        service = trace["processes"][span["processID"]]["serviceName"]
        for name in HOPS:
            if f"{service}: {span['operationName']}".startswith(name):
                found[name] = min(found.get(name, span["startTime"]), span["startTime"])
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.trials.traces", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command", metavar="obtain|check|try")
    commands.add_parser("obtain", description=obtain.__doc__)
    commands.add_parser("check", description="Let both programs check their configuration.")
    tried = commands.add_parser("try", description=attempt.__doc__)
    tried.add_argument("pages", type=Path, help="a folder of texts, such as tools/exhibit.py prints")
    tried.add_argument("--dir", type=Path, default=FOLDER, help="where data and logs are written anew; %(default)s")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        if given.command == "obtain":
            obtain()
            return 0
        if given.command == "try":
            given.pages, given.dir = given.pages.resolve(), given.dir.resolve()
            return attempt(given)
        for each in programs():
            each.check()
            print(f"{each.name} {each.version} accepts {each.configuration.relative_to(ROOT)}")
        return 0
    except NotBuilt as error:
        print(error, file=sys.stderr)
        return MISSING
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
