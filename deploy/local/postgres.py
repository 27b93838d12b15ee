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

_HINT = "Postgres is not installed: apt-get install postgresql (or run with --install as root)"


class Postgres:
    name = "postgres"
    stop_signal = signal.SIGINT  # fast: SIGTERM would wait for the clients

    def __init__(self, cache: Path) -> None:
        del cache

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
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql"])
        if _binaries() is None:
            raise ServerError(_HINT)

    def settings(self, old: dict[str, str]) -> dict[str, str]:
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
        key = hashlib.sha256(settings["password"].encode()).hexdigest()
        if not (data / "PG_VERSION").exists() or _text(home / "key") != key:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(mode=0o700, parents=True)
            write_secret(home / "password", settings["password"])
            if account is not None:
                for path in (home, home / "password"):
                    os.chown(path, account.uid, account.gid)
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
        """Whether the server, offered a start-up message, asks for a password; while it recovers it refuses."""
        message = struct.pack(">i", 196608) + b"user\0tutti\0database\0postgres\0\0"
        try:
            with socket.create_connection(("127.0.0.1", int(settings["port"])), timeout=1) as connection:
                connection.sendall(struct.pack(">i", len(message) + 4) + message)
                return connection.recv(1) == b"R"
        except OSError:
            return False

    def url(self, settings: dict[str, str]) -> str:
        return f"postgresql://tutti:{settings['password']}@127.0.0.1:{settings['port']}/postgres"

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


def _text(path: Path) -> str:
    """What a file holds; nothing when there is none."""
    return path.read_text() if path.exists() else ""


def _home(folder: Path, account: Account | None) -> Path:
    """Where the data lies: in the folder, or in the temporary folder when the account cannot reach the former."""
    if account is None or all(parent.stat().st_mode & 0o001 for parent in [folder, *folder.parents]):
        return folder / "home"
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tutti-postgres-{name}"
