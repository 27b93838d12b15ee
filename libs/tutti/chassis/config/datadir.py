"""The data directory: one folder that holds everything a platform on this machine keeps.

Promises: one owner at a time (a lock that dies with its process); a directory of a newer version is refused; it belongs
to this account and no other can read it or put anything into it; tokens are made once; files that other processes read
appear whole or not at all; a directory that nobody named decides nothing that a stranger may want (`is_found`).
"""

import contextlib
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlsplit

from tutti.backbone.files import Files, Lock, RealFiles, overwrite, publish
from tutti.backbone.ours import OTHERS, OTHERS_WRITE, PRIVATE, NotOurs, check, claim, open_regular
from tutti.chassis.config.diskspace import is_full
from tutti.chassis.identity.auth import HELD, Role, Tokens

DEFAULT = Path(".tutti")
"""The directory if nobody names one; this relative path, and no other, says that it was found (`is_found`)."""
SETTINGS = "tutti.toml"
VOLUME_FOLDER = "data"
"""The name of a data directory in the volume of a container, which is not ours; 0.2.0 used the volume (`_move_in`)."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
VERSION = 1
MOST_COPIES = 9
"""The maximum number of replicas of a service that share a data directory."""
MOST_LINE = 4096
MOST_LINKS = 8
PROCESSES = "processes.json"  # which ones the supervisor keeps running
KEPT = ("db", "blobs")
FOLDERS = ("db", "log", "blobs", "agents", "logs", "endpoints")


class DataDirError(Exception):
    """The data directory cannot be used; the message says why and what to do."""


class InUse(DataDirError):
    """Another process owns it."""


class NewerVersion(DataDirError):
    """It was written by a newer Tutti."""


class NotUsable(DataDirError):
    """It cannot be read or written."""


class DiskFull(DataDirError):
    """No space left."""


@dataclass(frozen=True)
class Holder:
    """The holder of a lock, as written into it."""

    pid: int
    since: str
    what: str


class DataDir:
    """Opening makes what is missing. Raises DataDirError."""

    def __init__(self, path: Path, *, files: Files | None = None) -> None:
        self.path, self._given = path.absolute(), path
        self._files = files or RealFiles()
        if any("\udc80" <= each <= "\udcff" for each in str(self.path)):  # bytes that are no UTF-8 (PEP 383)
            raise NotUsable(f"data directory {str(self.path)!a}: expected a path in UTF-8; choose another")
        with self._named("open"):
            self._check_version()
            _move_in(self.path, self._files)
            closed = not _is_shared(self.path)
            claim(self.path, files=self._files, close=_is_empty(self.path) or _was_kept(self.path), links=True)
            for name in FOLDERS:
                self._own(name, closed=closed)
            if (self.path / "version").exists():
                self._files.fsync_folder(self.path)  # who made it may have died before
            else:
                self._publish("version", f"{VERSION}\n".encode())

    @property
    def database_url(self) -> str:
        return f"sqlite://{_quoted(self.path / 'db')}"

    @property
    def log_url(self) -> str:
        return f"sqlite://{_quoted(self.path / 'log' / 'events.db')}"

    @property
    def blobs_url(self) -> str:
        return f"file://{_quoted(self.path / 'blobs')}"

    @property
    def config(self) -> Path | None:
        """The settings file, if there is one."""
        return config_in(self._given)

    def lock(self, what: str, name: str = "lock") -> Lock:
        """Own the directory (or the part called `name`) until released or dead. Raises InUse."""
        path = self.path / name
        with self._named("lock"):
            lock = self._files.try_lock(path)
            if lock is None:
                holder = _holder(path)
                who = f"process {holder.pid} ({holder.what}) since {holder.since}" if holder else "another process"
                raise InUse(f"{self.path} is in use by {who}: stop it, or give another directory with --data-dir")
            holder = Holder(os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"), what)
            path.write_text(json.dumps(asdict(holder)))  # a hint for the message above, not a promise
            return lock

    def instance(self, part: str) -> str:
        """A name that this part of no other directory has, made at the first call: for who holds the part's lock."""
        path = self.path / f"{part}.instance"
        with self._named("name a part of"):
            if not path.exists():
                self._publish(path.name, f"{uuid.uuid4().hex}\n".encode())
            return _content(path).decode().strip()

    def tokens(self) -> Tokens:
        """The tokens of this directory, made at the first call. Raises NotUsable."""
        path = self.path / "tokens"
        with self._named("read the tokens of"):
            if not path.exists():
                with contextlib.suppress(FileExistsError):  # another process was first: its tokens hold
                    self._publish_private(path, Tokens.random().text().encode())
            return tokens_in(self.path)

    def announce(self, address: str, service: str | None = None) -> None:
        """Say where the platform (or one service that runs alone) answers; whole or not at all."""
        with self._named("announce in"):
            target = self._endpoint(service)
            overwrite(self._files, self._temporary(), target, [f"{address}\n".encode()])

    def withdraw(self, address: str, service: str | None = None) -> None:
        """Take the announcement back, unless another's stands there by now."""
        target = self._endpoint(service)
        with contextlib.suppress(OSError):
            if _line(target) == address:
                target.unlink()

    def endpoint(self, service: str | None = None) -> str | None:
        """The address of a service: its own if it runs alone, else the one port of the directory."""
        return endpoint_in(self.path, service)

    def announced(self, part: str) -> str:
        """The address that a part announced for itself; empty if it has none."""
        return _line(self._endpoint(part))

    def announce_pages(self, url: str, service: str | None = None) -> None:
        """Say where the pages of the platform (or of one service that runs alone) are."""
        self.write(_pages_file(service), f"{url}\n".encode())

    def withdraw_pages(self, service: str | None = None) -> None:
        self.remove(_pages_file(service))

    def ports(self, service: str | None = None) -> list[int]:
        """The ports of the pages of the platform (or of one service that runs alone), the newest first; empty before
        its first start. Raises NotUsable.

        0.2.0 kept no ports; only where it was killed, its URL of the pages is still there.
        """
        path = self.path / _ports_file(service)
        if not path.exists():
            return _port_in(_line(self.path / _pages_file(service)))
        with self._named("read the ports of"):
            found = _content(path).splitlines()
        if not found or not all(re.fullmatch(rb"[1-9][0-9]{0,4}", each) and int(each) < 1 << 16 for each in found):
            seen = b"\n".join(found)[:40]
            raise NotUsable(
                f"{path} holds {seen!r}; expected one port of the pages per line, the newest first: correct it, or "
                f"remove it to have a new port chosen, which tabs that are open do not know"
            )
        return [int(each) for each in found]

    def keep_ports(self, ports: Sequence[int], service: str | None = None) -> None:
        """Remember the ports of the pages for the next start."""
        self.write(_ports_file(service), "".join(f"{each}\n" for each in ports).encode())

    def write(self, name: str, content: bytes) -> None:
        """A file that others read: `processes.json`, `metrics`."""
        with self._named("write to"):
            overwrite(self._files, self._temporary(), self.path / name, [content])

    def write_private(self, name: str, content: bytes) -> None:
        """A file that its owner alone can read. Raises NotUsable where there is one of this name."""
        with self._named("write to"):
            self._publish_private(self.path / name, content)

    def scratch(self, part: str) -> Path:
        """An empty folder for what is worth nothing after a restart; for who holds the lock of that part."""
        path = self.path / "scratch" / part
        with self._named("clear the scratch folder of"):
            if path.exists():
                shutil.rmtree(path)
            path.mkdir(parents=True)
        return path

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.path / name).unlink()

    def _own(self, name: str, *, closed: bool) -> None:
        """Make a folder of the directory, or close it to others; `closed`: nobody else can have written to it."""
        folder = self.path / name
        if folder.is_symlink():
            claim(folder, files=self._files, close=True, links=True)
            return
        self._files.make_folder(folder, PRIVATE)
        seen = folder.lstat()
        check(folder, seen, 0 if closed else OTHERS_WRITE)
        if stat.S_IMODE(seen.st_mode) != PRIVATE:
            folder.chmod(PRIVATE)

    def _check_version(self) -> None:
        try:
            text = _content(self.path / "version").decode(errors="replace").strip()
        except FileNotFoundError:
            return
        if not text.isdigit():
            raise NotUsable(
                f"{self.path / 'version'} holds {text[:40]!r}, not a number: is this a data directory of Tutti?"
            )
        if int(text) > VERSION:
            raise NewerVersion(
                f"{self.path} has version {text}, this Tutti knows up to {VERSION}: install the newer Tutti that wrote "
                f"it, or give another directory with --data-dir"
            )

    def _endpoint(self, service: str | None) -> Path:
        return self.path / ("endpoint" if service is None else f"endpoints/{service}")

    def _temporary(self) -> Path:
        return self.path / f".{uuid.uuid4().hex}.tmp"

    def _publish(self, name: str, content: bytes) -> None:
        with contextlib.suppress(FileExistsError):
            publish(self._files, self._temporary(), self.path / name, [content])

    def _publish_private(self, path: Path, content: bytes) -> None:
        temporary = self._temporary()
        try:
            with self._files.create(temporary) as handle:
                temporary.chmod(0o600)  # while it is still empty
                handle.write(content)
                handle.fsync()
            self._files.link(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                self._files.unlink(temporary)
        self._files.fsync_folder(self.path)

    @contextlib.contextmanager
    def _named(self, verb: str) -> Iterator[None]:
        try:
            yield
        except NotOurs as error:
            raise NotUsable(f"cannot {verb} {self.path}: {error.strerror}") from None
        except OSError as error:
            if is_full(error):
                raise DiskFull(f"cannot {verb} {self.path}: the disk is full; free some space and try again") from None
            reason = error.strerror or str(error)
            raise NotUsable(
                f"cannot {verb} {self.path}: {reason}; give a folder that you may write with --data-dir"
            ) from None


def named(path: Path | str) -> Path:
    """Return a path that somebody gave, as an argument or in the environment."""
    return Path(path).absolute() if Path(path) == DEFAULT else Path(path)


def is_found(path: Path) -> bool:
    """True for the directory of the working folder that nobody named: a checkout may have brought it along."""
    return path == DEFAULT


def part_of(service: str | None, copy: int) -> str | None:
    """The name under which a replica of a service announces itself: that of the service for the first."""
    return service if service is None or copy == 1 else f"{service}-{copy}"


def endpoint_in(path: Path, service: str | None = None) -> str | None:
    """The address in a data directory, or those of all replicas of a service, with commas; changes nothing there."""
    parts = [part_of(service, copy) for copy in range(1, MOST_COPIES + 1)] if service else []
    with contextlib.suppress(OSError):
        known = set(os.listdir(path / "endpoints")) if service else set()
        addresses = [_line(path / "endpoints" / part) for part in parts if part in known and part is not None]
        if any(addresses):
            return ",".join(filter(None, addresses))
    return _line(path / "endpoint") or None


def _content(path: Path) -> bytes:
    """The content of a small file; raises OSError, at once for a pipe too: another account may have made it."""
    with open_regular(path) as file:
        return file.read(MOST_LINE)


def _line(path: Path) -> str:
    """The content of a file of one line; empty where there is none."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return _content(path).decode().strip()
    return ""


def pages_in(path: Path, service: str) -> str | None:
    """The URL of a service's pages in a data directory; changes nothing there."""
    for name in (_pages_file(service), _pages_file(None)):
        if url := _line(path / name):
            return url
    return None


def config_in(path: Path) -> Path | None:
    """Return the settings file of a data directory, if there is one; the directory is not made."""
    file = path / SETTINGS
    return file if file.is_file() else None


def tokens_in(path: Path) -> Tokens:
    """The tokens in a data directory; changes nothing there. Raises NotUsable."""
    return tokens_at(path / "tokens")


def tokens_at(file: Path, roles: Iterable[Role] = HELD) -> Tokens:
    """The tokens in a file, which has one for each of `roles`. Raises NotUsable."""
    try:
        with open_regular(_led_to(file)) as opened:
            mode, text = stat.S_IMODE(os.fstat(opened.fileno()).st_mode), opened.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise NotUsable(
            f"{file} cannot be read: {reason}; it is made when the platform first starts, for its owner alone"
        ) from None
    if mode & 0o077:
        raise NotUsable(f"{file} can be read by others (mode {mode:04o}): chmod 600 it, or remove it for new ones")
    try:
        return Tokens.parse(text, roles)
    except ValueError as error:
        raise NotUsable(f"{file}: {error}; remove it and start again to make new ones") from None


def _led_to(file: Path) -> Path:
    """Return the file that a name leads to, since Kubernetes mounts files as links.

    The folders on the way stay as they were given: one below /proc/PID/root is in the mounts of that process.
    """
    for _ in range(MOST_LINKS):
        if not file.is_symlink():
            break
        file = file.parent / os.readlink(file)
    return file


def require_ours(path: Path) -> None:
    """Raise NotUsable if another account can use a data directory that exists, or put an address there."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        seen = path.stat()
        try:
            check(path, seen, OTHERS_WRITE if _was_kept(path) else OTHERS)
        except NotOurs as error:
            raise NotUsable(f"cannot use {path}: {error.strerror}") from None


def is_data_dir(path: Path) -> bool:
    """True if a folder is a data directory, in use or not; changes nothing there."""
    return _line(path / "version").isdigit() and all((path / name).is_dir() for name in FOLDERS)


def _was_kept(path: Path) -> bool:
    """True for what a platform kept, also where only a part of it was unpacked from an archive."""
    version = path / "version"
    return version.is_file() and _line(version).isdigit() and all((path / name).is_dir() for name in KEPT)


def _move_in(path: Path, files: Files) -> None:
    """Move what 0.2.0 kept in the volume of a container into the folder of it that is now the data directory.

    Such a volume belongs to nobody who serves in it (mode 1777, or the group of a pod); what is ours moves, once, also
    if a process that moved it died.
    """
    volume, moving = path.parent, path.parent / f".{path.name}.moving"
    if path.name != VOLUME_FOLDER or os.path.lexists(path) or not _is_shared(volume):
        return
    if not moving.exists() and not (volume / "version").is_file():
        return
    claim(moving, files=files)
    for entry in sorted(os.listdir(volume)):
        beside = entry.startswith(f"{path.name}.")  # of the entry point of the container
        if volume / entry != moving and not beside and (volume / entry).lstat().st_uid == os.geteuid():
            files.replace(volume / entry, moving / entry)
    files.fsync_folder(moving)
    files.replace(moving, path)
    files.fsync_folder(volume)


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not os.listdir(path)


def _is_shared(folder: Path) -> bool:
    """True for a folder that is there, and in which others can make files."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        seen = folder.stat()
        return seen.st_uid != os.geteuid() or bool(seen.st_mode & OTHERS_WRITE)
    return False


def _holder(path: Path) -> Holder | None:
    try:
        return Holder(**json.loads(_content(path)))
    except (OSError, ValueError, TypeError):
        return None


def _pages_file(service: str | None) -> str:
    return "pages" if service is None else f"endpoints/{service}.pages"


def _port_in(url: str) -> list[int]:
    """Return the port of a URL of pages; none where browsers reach them by other means, such as a proxy."""
    with contextlib.suppress(ValueError):
        found = urlsplit(url)
        if found.scheme == "http" and found.hostname in LOOPBACK and found.port:
            return [found.port]
    return []


def _ports_file(service: str | None) -> str:
    return "pages.ports" if service is None else f"{service}.pages.ports"


def _quoted(path: Path) -> str:
    return quote(str(path))
