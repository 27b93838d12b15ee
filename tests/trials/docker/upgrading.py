"""The commands for Docker Compose of docs/operations/upgrade.md, on a stack where the tables of one service are older.

Promises: the service waits and says so in its health; the command `migrate` upgrades it, and everything is healthy
afterwards. The images stay the same: that a newer version meets older tables follows from the tables alone.
"""

import json
import time

from tests.trials.docker.engine import TrialError
from tests.trials.docker.evidence import CONSOLE
from tests.trials.docker.project import CACHE, Project
from tutti.chassis.config.settings import installed_services
from tutti.upkeep.backup.databases import installed

SERVICE = "dedup"
UNDO = r"""
\set ON_ERROR_STOP 1
DROP TABLE dedup.chassis_version;
ALTER TABLE dedup.origins DROP COLUMN owner;
"""
"""SQL that undoes each revision of the chassis tables of the service, to those from before they had a history."""
WAIT = "TUTTI_DATABASE__MIGRATE"
WAITING_SECONDS = 120.0


def upgrade(project: Project) -> None:
    """Raises TrialError."""
    began = time.monotonic()
    project.compose("stop", SERVICE)
    project.engine.run(
        "exec", project.container("postgres"), "bash", "-c", CONSOLE.format(database="tutti", script=UNDO)
    )
    _check(project, due=True)
    override = CACHE / "docker-compose.override.yml"
    services = {name: {"environment": {WAIT: "wait"}} for name in installed_services()}
    override.write_text(json.dumps({"services": services}))  # JSON is YAML
    project.overrides.append(override)
    project.compose("up", "-d", seconds=WAITING_SECONDS)
    project.wait(lambda: "tutti migrate" in _health(project), WAITING_SECONDS,
                 lambda: f"{SERVICE} to say that it waits; it says: {_health(project)}")  # fmt: skip
    upgraded = project.compose("run", "--rm", "-T", "archive", "migrate", seconds=WAITING_SECONDS)
    chassis, own = installed()[SERVICE]
    expected = f"{own.newest()}, chassis none -> {chassis.newest()}"
    if not any(line.split() == [SERVICE, *expected.split()] for line in upgraded.splitlines()):
        raise TrialError(f"archive migrate did not upgrade {SERVICE} ({expected}):\n{upgraded}")
    project.compose("up", "-d", "--wait", seconds=WAITING_SECONDS)
    project.overrides.remove(override)
    _check(project, due=False)
    took = time.monotonic() - began
    print(f"{SERVICE} waited for `migrate` and continued; the upgrade took {took:.1f} s", flush=True)


def _check(project: Project, *, due: bool) -> None:
    """Compare what `migrate --check` says of the tables with what is expected. Raises TrialError."""
    try:
        project.compose("run", "--rm", "-T", "archive", "migrate", "--check", seconds=WAITING_SECONDS)
        found = False
    except TrialError as error:
        if "to be upgraded" not in str(error):
            raise
        found = True
    if found != due:
        raise TrialError(f"`archive migrate --check` says that {'some' if found else 'no'} tables are older")


def _health(project: Project) -> str:
    """The last outputs of the service's health check."""
    (container,) = project.containers(SERVICE)
    try:
        log = json.loads(project.inspect(container, "{{json .State.Health.Log}}")) or []
    except (TrialError, ValueError):
        return ""
    return " ".join(each["Output"].strip() for each in log)
