"""What ordinary sites do to the stack: a second clone, an event log that was emptied, a host that is slow.

Promises: the stack is afterwards as it was before, and healthy.
"""

import json
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.trials.docker.engine import TrialError
from tests.trials.docker.project import CACHE, REPLICAS, ROOT, Project
from tutti.chassis.config.settings import installed_services

CLIENTS = (*installed_services(), "agent-a", "agent-b", "door")
"""The containers of ours that go on for ever."""
BROKERS = ("kafka", "kafka-2", "kafka-3")
"""The first, and those that the layer `replicas` adds; each has a volume of its name."""
BROKER_SECONDS = 300.0
ENDED = "{{.State.Status}} {{.State.ExitCode}}"
QUOTA = "0.03"
"""Of a processor for each of them: an agent starts for longer than a minute, as long as the watchdog's first limit."""
SLOW_SECONDS = 900.0


def second_clone(project: Project) -> None:
    """A clone in another folder gets nothing of this project, until it is said that the folder moved."""
    with tempfile.TemporaryDirectory() as folder:
        clone = replace(project, folder=Path(folder))
        shutil.copy(ROOT / "docker-compose.yml", folder)
        shutil.copytree(ROOT / "deploy", Path(folder, "deploy"))
        _refused(clone)
        clone.compose("run", "--rm", "-T", "--no-deps", "secrets", "moved")
        clone.compose("run", "--rm", "-T", "--no-deps", "secrets")
        _refused(project)
        project.compose("run", "--rm", "-T", "--no-deps", "secrets", "moved")
    print("the volumes are refused to a clone in another folder, until `secrets moved` says that it is the same")


def _refused(clone: Project) -> None:
    """Raises TrialError."""
    try:
        clone.compose("run", "--rm", "-T", "--no-deps", "secrets")
    except TrialError as error:
        if "COMPOSE_PROJECT_NAME" not in str(error):
            raise
    else:
        raise TrialError(f"{clone.folder} started on the volumes of a project in another folder")


def emptied_broker(project: Project) -> None:
    """An empty broker beside a full database is refused by name, until an operator adopts it. Raises TrialError."""
    brokers = BROKERS if REPLICAS in project.layers else BROKERS[:1]
    project.compose("stop", *CLIENTS)
    project.compose("rm", "--force", "--stop", *brokers, "topics")
    project.engine.run("volume", "rm", *(f"{project.name}_{each}" for each in brokers))
    project.compose("up", "-d", *brokers, "topics", seconds=BROKER_SECONDS)

    def said() -> str:
        return project.compose("logs", "--no-color", "topics")

    project.wait(
        lambda: "topics adopted" in said() or project.inspect(project.container("topics"), ENDED) == "exited 0",
        BROKER_SECONDS,
        lambda: f"the container topics does not say what to do:\n{said()[-2000:]}",
    )
    if "topics adopted" not in said():
        raise TrialError(f"the container topics filled an empty broker beside a full database:\n{said()[-2000:]}")
    project.compose("run", "--rm", "-T", "--no-deps", "topics", "adopted")
    project.up()
    print("an empty broker beside a full database was refused, and adopted when it was asked for", flush=True)


def slow_host(project: Project) -> None:
    """Every container of ours starts with little CPU time: none is killed after its first try. Raises TrialError."""
    override = CACHE / "slow.override.yml"
    override.write_text(json.dumps({"services": {name: {"cpus": QUOTA} for name in CLIENTS}}))  # JSON is YAML
    began = time.monotonic()
    slow = replace(project, overrides=[*project.overrides, override])
    slow.compose("stop", *CLIENTS)
    slow.compose("up", "-d", "--wait", seconds=SLOW_SECONDS)
    took = time.monotonic() - began
    restarts = {
        name: sum(int(slow.inspect(each, "{{.RestartCount}}")) for each in slow.containers(name)) for name in CLIENTS
    }
    if again := {name: count for name, count in restarts.items() if count > 1}:
        raise TrialError(f"with {QUOTA} of a processor each, containers were started again and again: {again}")
    print(
        f"with {QUOTA} of a processor each, all were healthy after {took:.0f} s; {sum(restarts.values())} first tries "
        "were too slow, and no second one",
        flush=True,
    )
    project.up()
