"""The evidence of a trial that failed, in a folder: the state of the platform and its database, metrics, stacks, logs.

Promises: each part has a deadline, and a part that is not available is replaced by the reason; the folder has the
evidence of the last trial only.
"""

import shutil
from collections.abc import Callable, Sequence
from functools import partial

from tests.trials.docker.engine import TrialError, tell
from tests.trials.docker.project import CACHE, Project
from tutti.chassis.config.settings import installed_services

FOLDER = CACHE / "failed"
SECONDS = 60.0
COMMANDS = {
    "runs": ("runs", "ls", "-o", "json"),
    "run": ("runs", "show", "-o", "json"),
    "jobs": ("jobs", "ls", "-o", "json"),
    "nodes": ("nodes", "ls", "-o", "json"),
    "status": ("status",),
    "doctor": ("doctor", "--all"),
}
# As the superuser.
CONSOLE = (
    "PGPASSWORD=$(cat /run/tutti/postgres/password) exec psql --no-psqlrc --expanded --echo-queries "
    "'host=localhost user=tutti dbname=tutti connect_timeout=5' <<'END'\n{script}\nEND"
)
# Each service has a schema with these tables.
SCRIPT = r"""
SET statement_timeout = '10s';
SELECT now(), pid, usename, state, wait_event_type, wait_event, now() - xact_start AS in_transaction,
       now() - state_change AS in_state, pg_blocking_pids(pid) AS blocked_by, left(query, 300) AS query
  FROM pg_stat_activity WHERE backend_type = 'client backend' ORDER BY xact_start NULLS LAST;
SELECT pid, locktype, relation::regclass, mode FROM pg_locks WHERE NOT granted;
SELECT format('SELECT to_timestamp(expires_at / 1e6) AS expires, * FROM %I.leases', schemaname)
  FROM pg_tables WHERE tablename = 'leases' \gexec
SELECT format('SELECT to_jsonb(each) - ''payload'' AS task FROM %I.tasks AS each WHERE state <> ''done''', schemaname)
  FROM pg_tables WHERE tablename = 'tasks' \gexec
SELECT format('SELECT seq, type, subject, revision, to_timestamp(made_at / 1e6) AS made FROM %I.outbox '
              'WHERE sent_at IS NULL', schemaname)
  FROM pg_tables WHERE tablename = 'outbox' \gexec
SELECT format('SELECT group_name, id, type, subject, error FROM %I.dead_letters', schemaname)
  FROM pg_tables WHERE tablename = 'dead_letters' \gexec
"""
# The program that the entry point started writes the stacks of its threads to its log; its metrics are printed.
EXAMINE = (
    'kill -USR1 $(cat /proc/1/task/1/children); python -c "from tutti.backbone.direct import fetch; '
    "print(fetch('http://localhost:9464/metrics', seconds=10).read().decode())\""
)


def forget() -> None:
    """Remove the evidence of an earlier trial."""
    shutil.rmtree(FOLDER, ignore_errors=True)


def keep_state(project: Project) -> None:
    """Write the answers of the platform, its database and its processes, which write their stacks to their logs."""
    tell(f"writes the state of the platform to {FOLDER}")
    _keep("database.txt", partial(_rows, project))
    for service in (*installed_services(), "agent-a", "agent-b", "door"):
        _keep(f"metrics-{service}.txt", partial(_metrics, project, service))
    for name, words in COMMANDS.items():
        _keep(f"{name}.txt", partial(_answer, project, words))


def keep_logs(project: Project) -> None:
    """Write the logs of all containers, also of those that have ended."""
    tell(f"writes the logs of the containers to {FOLDER}")
    _keep("containers.txt", lambda: project.compose("ps", "--all"))
    _keep("logs.txt", lambda: project.compose("logs", "--timestamps", "--no-color"))


def _answer(project: Project, words: Sequence[str]) -> str:
    done = project.tutti(*words, seconds=SECONDS)
    return f"{done.stdout}{done.stderr}exit code {done.returncode}\n"


def _rows(project: Project) -> str:
    console = CONSOLE.format(script=SCRIPT)
    return project.engine.run("exec", project.container("postgres"), "bash", "-c", console)


def _metrics(project: Project, service: str) -> str:
    return "\n".join(project.engine.run("exec", each, "sh", "-c", EXAMINE) for each in project.containers(service))


def _keep(file: str, read: Callable[[], str]) -> None:
    try:
        text = read()
    except TrialError as error:
        text = f"not available: {error}\n"
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / file).write_text(text)
