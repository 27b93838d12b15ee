"""A synchronous standby of a Postgres server that `deploy/local/servers.py` started, as a database that is given to the
platform may have one. Who leads is decided by the test.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.faults.processes import until
from tests.stack.conftest import LOCAL

sys.path.append(str(LOCAL))
from postgres import find_binaries, home_of
from processes import Account, free_port, run, start

SECONDS = 60.0


class Standby:
    """`url` names both servers, and leads to the one that accepts writes."""

    def __init__(self, primary: str, folder: Path) -> None:
        """Follow the server of a URL; each of its commits then waits for this one."""
        binaries, account = find_binaries(), Account.unprivileged("postgres", "nobody")
        assert binaries is not None
        parts, port = urlsplit(primary), free_port()
        folder.mkdir()
        self._home = home_of(folder, account)
        self._home.mkdir(mode=0o700, exist_ok=True)
        if account is not None:
            os.chown(self._home, account.uid, account.gid)
        data = self._home / "data"
        backup: list[str | Path] = [binaries / "pg_basebackup", "-D", data, "-d", primary, "-R", "-X", "stream"]
        run([*backup, "--checkpoint=fast"], account=account, folder=self._home)
        command: list[str | Path] = [binaries / "postgres", "-D", data, "-p", str(port)]
        # A standby refuses fewer connections than its primary allows.
        for option in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"):
            command += ["-c", option]
        self._process = start(command, log=folder / "log", environment={}, account=account)
        user = f"postgresql://{parts.username}:{parts.password}@"
        self._own = f"{user}127.0.0.1:{port}/postgres"
        self.url = f"{user}127.0.0.1:{parts.port},127.0.0.1:{port}/postgres?target_session_attrs=read-write"
        with psycopg.connect(primary, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            state = "SELECT sync_state FROM pg_stat_replication"
            until(
                lambda: connection.execute(state).fetchall() == [("sync",)],
                seconds=SECONDS,
                what=f"a standby; {folder / 'log'}",
            )

    def promote(self) -> None:
        """Let it lead; return when it accepts writes."""
        with psycopg.connect(self._own, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)

    def stop(self) -> None:
        self._process.stop(signal.SIGQUIT)
        shutil.rmtree(self._home, ignore_errors=True)


@contextmanager
def standby(primary: str, folder: Path) -> Iterator[Standby]:
    """A standby that is gone in the end."""
    found = Standby(primary, folder)
    try:
        yield found
    finally:
        found.stop()
