"""A Postgres server from the system's packages, with data checksums, for password clients on loopback.

Promises: never runs as root; its data lies where its account can reach it; data that another password was made for
belonged to a folder that is gone, and is made anew. Of a pair, it starts in the role that the pair's record gives it: a
server that was the primary of an earlier term is made anew as a standby, from a base backup.
"""

import hashlib
import os
import secrets
import shutil
import signal
import socket
import struct
import tempfile
from pathlib import Path
from typing import Any

from layout import DATABASES, LOOPBACK, Layout
from pair import Record
from processes import (
    STOP_SECONDS,
    Account,
    Process,
    ServerError,
    free_port,
    is_free,
    kill_in,
    lives_in,
    run,
    start,
    tell,
    wait_until,
    write_secret,
)
from psycopg.conninfo import make_conninfo

STANDBY = "standby"
"""The role, and the name of the connection, by which the standby replicates."""
REPLICATION = "replication.conf"
PAIRED = (
    "wal_keep_size=256MB",
    "wal_receiver_timeout=5s",
    "wal_receiver_status_interval=1s",
    "wal_sender_timeout=3s",  # a standby that hangs holds every commit for so long, and `Patience.apart`
    "wal_retrieve_retry_interval=200ms",
)
CANNOT_CONNECT_NOW, SHUTTING_DOWN = b"\0C57P03\0", b"shutting down"
_HINT = "Postgres is not installed: apt-get install postgresql (or run with --install as root)"


class Postgres:
    """The server `number`, from 0, of a layout's pair; without a layout it is alone."""

    stop_signal = signal.SIGINT  # fast: SIGTERM would wait for the clients

    def __init__(self, layout: Layout | None = None, number: int = 0) -> None:
        self._layout, self._number = layout, number
        self._listen = LOOPBACK if layout is None else layout.listen
        self.name = DATABASES[number]

    def obtain(self, *, install: bool) -> None:
        if _binaries() is not None:
            return
        if not (install and os.getuid() == 0 and shutil.which("apt-get")):
            raise ServerError(_HINT)
        tell("postgres: installs the system's packages; once")
        # The package would start a cluster of its own.
        Path("/etc/postgresql-common").mkdir(exist_ok=True)
        Path("/etc/postgresql-common/createcluster.conf").write_text("create_main_cluster = false\n")
        run(["apt-get", "update", "-qq"])
        waits = ["-o", "DPkg::Lock::Timeout=300"]  # for another installation to end
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *waits, "postgresql"])
        if _binaries() is None:
            raise ServerError(_HINT)

    def settings(self, old: dict[str, str]) -> dict[str, str]:
        if self._layout is not None:
            ports = self._layout.databases
            addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
            return {
                "port": str(ports[self._number]),
                "password": self._layout.database_password,
                "addresses": addresses,
            }
        password = old.get("password") or secrets.token_urlsafe(24)
        port = int(old.get("port", 0))
        return {"port": str(port if port and is_free(port) else free_port()), "password": password}

    def start(self, folder: Path, settings: dict[str, str]) -> Process:
        binaries = _binaries()
        if binaries is None:
            raise ServerError(_HINT)
        account = Account.unprivileged("postgres", "nobody")
        home = _home(folder, account)
        data = home / "data"
        record = None if self._layout is None else Record.read(folder.parent)
        key = hashlib.sha256(settings["password"].encode()).hexdigest()
        if record is not None and record.primary != self.name:
            self._become_standby(binaries, home, record, key, account)
        elif not (data / "PG_VERSION").exists() or _text(home / "key").partition(" ")[0] != key:
            if record is not None and record.term > 1:
                raise ServerError(f"{self.name} is the primary of term {record.term}, and its data in {home} are gone")
            _emptied(home, account)
            write_secret(home / "password", settings["password"])
            if account is not None:
                os.chown(home / "password", account.uid, account.gid)
            run([binaries / "initdb", "-D", data, "-U", "tutti", "-A", "scram-sha-256", f"--pwfile={home}/password",
                 "-E", "UTF8", "--locale=C", "--data-checksums", "--no-instructions"], account=account)  # fmt: skip
            (home / "password").unlink()
            if record is not None:
                with open(data / "postgresql.conf", "a") as configuration:
                    configuration.write(f"include_if_exists = '../{REPLICATION}'\n")
            if self._listen != LOOPBACK:
                with open(data / "pg_hba.conf", "a") as rules:
                    rules.write("host all all all scram-sha-256\n")
            (home / "key").write_text(key)  # last: without it, or with another, the data are not whole or not ours
        # Backends outlive a killed postmaster for a moment; a killed one that nobody reaps still has its pid.
        if wait_until(lambda: not lives_in(data), STOP_SECONDS):
            (data / "postmaster.pid").unlink(missing_ok=True)
        command: list[str | Path] = [binaries / "postgres", "-D", data, "-p", settings["port"]]
        paired = () if record is None else PAIRED
        for option in (f"listen_addresses={self._listen}", "unix_socket_directories=", "max_connections=200",
                       "shared_buffers=32MB", "logging_collector=off", *paired):  # fmt: skip
            command += ["-c", option]
        return start(command, log=folder / "log", environment={}, account=account)

    def _become_standby(self, binaries: Path, home: Path, record: Record, key: str, account: Account | None) -> None:
        """Have data that follow the primary of this term, of a base backup if need be. Raises ServerError."""
        assert self._layout is not None
        follows = f"{key} {record.term} {record.primary}"
        if _text(home / "key") == follows and (home / "data" / "standby.signal").exists():
            return
        if not wait_until(lambda: not kill_in(home), STOP_SECONDS):  # a base backup whose promoter was killed
            raise ServerError(f"a base backup in {home} does not stop, not even by SIGKILL")
        _emptied(home, account)
        port = self._layout.databases[DATABASES.index(record.primary)]
        secret, configuration = home / "passwords", home / REPLICATION
        where: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": port,
            "user": STANDBY,
            "passfile": str(secret),
            "connect_timeout": 5,
        }
        write_secret(secret, f"127.0.0.1:{port}:*:{STANDBY}:{self._layout.standby_password}\n")
        followed = make_conninfo(**where, application_name=STANDBY).replace("'", "''")
        configuration.write_text(f"primary_conninfo = '{followed}'\n")
        if account is not None:
            for path in (secret, configuration):
                os.chown(path, account.uid, account.gid)
        run([binaries / "pg_basebackup", "-D", home / "data", "-d", make_conninfo(**where), "-X", "stream",
             "--checkpoint=fast", "--no-password"], account=account, seconds=None, folder=home)  # fmt: skip
        (home / "data" / "standby.signal").touch()
        if account is not None:
            os.chown(home / "data" / "standby.signal", account.uid, account.gid)
        (home / "key").write_text(follows)

    def hold_commits(self, folder: Path, process: Process, *, for_standby: bool) -> None:
        """Let each commit wait for the standby, or none; the server reads it a moment later."""
        account = Account.unprivileged("postgres", "nobody")
        path = _home(folder, account) / REPLICATION
        value = STANDBY if for_standby else ""
        beside = path.with_suffix(".new")
        beside.write_text(f"synchronous_standby_names = '{value}'\n")
        if account is not None:
            os.chown(beside, account.uid, account.gid)
        beside.replace(path)
        if process.is_alive():
            os.kill(process.pid, signal.SIGHUP)

    def forget(self, folder: Path) -> None:
        """Let the next start make the data of a standby anew."""
        (_home(folder, Account.unprivileged("postgres", "nobody")) / "key").unlink(missing_ok=True)

    def fence(self, folder: Path, process: Process | None) -> None:
        """SIGKILL the server with all its backends. Raises ServerError when one of them stays."""
        if not folder.exists():
            return
        data = _home(folder, Account.unprivileged("postgres", "nobody")) / "data"
        if process is not None and process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
        if not wait_until(lambda: not kill_in(data), STOP_SECONDS):
            raise ServerError(f"a process of {self.name} in {data} does not stop, not even by SIGKILL")

    def is_ready(self, settings: dict[str, str]) -> bool:
        """Return true if the server asks for a password; while it recovers it refuses."""
        return _reply(settings).startswith(b"R")

    def recovers(self, settings: dict[str, str]) -> bool:
        """Return true if the server refuses with SQLSTATE 57P03 because it starts or recovers, not because it stops."""
        reply = _reply(settings)
        return reply.startswith(b"E") and CANNOT_CONNECT_NOW in reply and SHUTTING_DOWN not in reply

    def url(self, settings: dict[str, str]) -> str:
        user = f"postgresql://tutti:{settings['password']}"
        if "addresses" in settings:
            return f"{user}@{settings['addresses']}/postgres?target_session_attrs=read-write"
        return f"{user}@127.0.0.1:{settings['port']}/postgres"

    def wipe(self, folder: Path) -> None:
        shutil.rmtree(_home(folder, Account.unprivileged("postgres", "nobody")), ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path | None:
    """The newest installed version's folder of programs."""
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb and shutil.which("postgres") else None


def _reply(settings: dict[str, str]) -> bytes:
    """The server's answer to a start-up message; empty if there is none."""
    message = struct.pack(">i", 196608) + b"user\0tutti\0database\0postgres\0\0"
    try:
        with socket.create_connection(("127.0.0.1", int(settings["port"])), timeout=1) as connection:
            connection.sendall(struct.pack(">i", len(message) + 4) + message)
            return connection.recv(1024)
    except OSError:
        return b""


def _emptied(home: Path, account: Account | None) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700, parents=True)
    if account is not None:
        os.chown(home, account.uid, account.gid)


def _text(path: Path) -> str:
    """What a file holds; nothing when there is none."""
    return path.read_text() if path.exists() else ""


def _home(folder: Path, account: Account | None) -> Path:
    """Where the data lies: in the folder, or in the temporary folder when the account cannot reach the former."""
    if account is None or all(parent.stat().st_mode & 0o001 for parent in [folder, *folder.parents]):
        return folder / "home"
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tutti-postgres-{name}"
