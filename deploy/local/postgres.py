"""A Postgres server from the system's packages, with data checksums, for password clients on loopback.

Promises: never runs as root; its data lies where its account can reach it; data that another password was made for
belonged to a folder that is gone, and is made anew.
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

from processes import (
    STOP_SECONDS,
    Account,
    Process,
    ServerError,
    free_port,
    is_free,
    lives_in,
    run,
    start,
    tell,
    wait_until,
    write_secret,
)

CANNOT_CONNECT_NOW, SHUTTING_DOWN = b"\0C57P03\0", b"shutting down"
_HINT = "Postgres is not installed: apt-get install postgresql (or run with --install as root)"


class Postgres:
    name = "postgres"
    stop_signal = signal.SIGINT  # fast: SIGTERM would wait for the clients

    def obtain(self, *, install: bool) -> None:
        if find_binaries() is not None:
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
        if find_binaries() is None:
            raise ServerError(_HINT)

    def settings(self, old: dict[str, str]) -> dict[str, str]:
        password = old.get("password") or secrets.token_urlsafe(24)
        port = int(old.get("port", 0))
        return {"port": str(port if port and is_free(port) else free_port()), "password": password}

    def start(self, folder: Path, settings: dict[str, str]) -> Process:
        binaries = find_binaries()
        if binaries is None:
            raise ServerError(_HINT)
        account = Account.unprivileged("postgres", "nobody")
        home = home_of(folder, account)
        data = home / "data"
        key = hashlib.sha256(settings["password"].encode()).hexdigest()
        if not (data / "PG_VERSION").exists() or _text(home / "key") != key:
            _emptied(home, account)
            write_secret(home / "password", settings["password"])
            if account is not None:
                os.chown(home / "password", account.uid, account.gid)
            run([binaries / "initdb", "-D", data, "-U", "tutti", "-A", "scram-sha-256", f"--pwfile={home}/password",
                 "-E", "UTF8", "--locale=C", "--data-checksums", "--no-instructions"], account=account)  # fmt: skip
            (home / "password").unlink()
            (home / "key").write_text(key)  # last: without it, or with another, the data are not whole or not ours
        # Backends outlive a killed postmaster for a moment; a killed one that nobody reaps still has its pid.
        if wait_until(lambda: not lives_in(data), STOP_SECONDS):
            (data / "postmaster.pid").unlink(missing_ok=True)
        command: list[str | Path] = [binaries / "postgres", "-D", data, "-p", settings["port"]]
        for option in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200",
                       "shared_buffers=32MB", "logging_collector=off"):  # fmt: skip
            command += ["-c", option]
        return start(command, log=folder / "log", environment={}, account=account)

    def is_ready(self, settings: dict[str, str]) -> bool:
        """Return true if the server asks for a password; while it recovers it refuses."""
        return _reply(settings).startswith(b"R")

    def recovers(self, settings: dict[str, str]) -> bool:
        """Return true if the server refuses with SQLSTATE 57P03 because it starts or recovers, not because it stops."""
        reply = _reply(settings)
        return reply.startswith(b"E") and CANNOT_CONNECT_NOW in reply and SHUTTING_DOWN not in reply

    def url(self, settings: dict[str, str]) -> str:
        return f"postgresql://tutti:{settings['password']}@127.0.0.1:{settings['port']}/postgres"

    def wipe(self, folder: Path) -> None:
        shutil.rmtree(home_of(folder, Account.unprivileged("postgres", "nobody")), ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def find_binaries() -> Path | None:
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


def home_of(folder: Path, account: Account | None) -> Path:
    """Where the data lies: in the folder, or in the temporary folder when the account cannot reach the former."""
    if account is None or all(parent.stat().st_mode & 0o001 for parent in [folder, *folder.parents]):
        return folder / "home"
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tutti-postgres-{name}"
