"""Settings: every number of the platform with its default, from a file, the environment and the command line.

Promises: later sources win (default, file, environment, command line) and each value knows where it came from; an
unknown key is refused and the nearest known one is named; secrets never leave through `effective`; a file that nobody
named starts no program, chooses no server and names no file.
"""

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tutti.chassis.config.datadir import LOOPBACK, is_found

M = TypeVar("M", bound=BaseModel)
Tree = dict[str, Any]
ENVIRONMENT_PREFIX = "TUTTI_"
# Read elsewhere, before there are settings: where the data directory is, which file to read, who the caller is.
RESERVED_VARIABLES = frozenset(
    {"TUTTI_DATA_DIR", "TUTTI_CONFIG", "TUTTI_TOKEN", "TUTTI_ADDRESS", "TUTTI_PROXY", "TUTTI_SUPERVISOR_FD"}
    | {"TUTTI_DEBUG"}
)
AGENT = "trainer"
"""The table that agents alone read; the host and the supervisor share their settings file with them."""
_LOCAL_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.localhost")
_SECRET = re.compile(r"(?:^|_)(secret|password|token)s?(?:_|$)")


class SettingsError(ValueError):
    """A setting that cannot be used: which, from where, what was expected."""


class Section(BaseModel):
    """One table of the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


class RpcSettings(Section):
    """gRPC, both sides."""

    listen: str = Field(default="127.0.0.1:0", description="address of the gRPC server; port 0: any free port")
    tokens: str = Field(
        default="",
        description="file with tokens, mode 0600; empty: `tokens` of the data directory",
    )
    door_secret: str = Field(
        default="",
        description="secret with which the front door signs the addresses of its callers; only the front door has it",
    )
    deadline_seconds: float = Field(
        default=10.0, gt=0, description="deadline of a call without one; watches have no deadline"
    )
    max_message_bytes: int = Field(default=4 << 20, gt=0, description="maximum size of a request")
    threads: int = Field(default=16, gt=0, description="threads for domain methods")
    readers: int = Field(default=4, gt=0, description="additional threads for methods that read whole data")
    attempts: int = Field(default=5, gt=0, description="maximum number of attempts for a call that may be retried")


class TlsSettings(Section):
    """TLS of gRPC. `ca` alone: calls are encrypted and servers proven; all three: servers speak TLS, too."""

    certificate: str = Field(default="", description="PEM file of the certificate that servers present, and clients")
    key: str = Field(default="", description="PEM file of its key, which others must not be able to read")
    ca: str = Field(
        default="", description="PEM file of the authorities that are trusted; empty: calls are not encrypted"
    )
    clients: Literal["token", "certificate"] = Field(
        default="token", description="what servers ask of callers: a token, or a certificate of `ca` beside it"
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if bool(self.certificate) != bool(self.key):
            raise ValueError("certificate and key must be set together")
        if self.certificate and not self.ca:
            raise ValueError("certificate is set and ca is not: services could not call each other")
        if self.clients == "certificate" and not self.certificate:
            raise ValueError("clients is `certificate`, which only servers with a certificate of their own can ask for")
        return self


class LeaseSettings(Section):
    ttl_seconds: float = Field(default=15.0, gt=0)
    renew_seconds: float = Field(default=5.0, gt=0)
    leader_seconds: float = Field(
        default=5.0, gt=0, description="time after which another replica leads when the leader is gone"
    )


class LogSettings(Section):
    url: str = Field(
        default="", description="sqlite:///file or kafka://user:password@host:port; empty: log/ of the data directory"
    )
    fact_retention_days: float = Field(
        default=14.0, gt=0, le=36500, description="retention of facts and of sent events"
    )
    inbox_retention_days: float = Field(
        default=30.0,
        gt=0,
        le=36500,
        description="retention of inbox rows and of ended tasks; longer than that of facts",
    )

    audit_retention_days: float = Field(default=365.0, gt=0, le=36500, description="retention of the audit trail")

    @model_validator(mode="after")
    def _inbox_outlives_facts(self) -> Self:
        if self.inbox_retention_days <= self.fact_retention_days:
            raise ValueError(
                f"inbox_retention_days ({self.inbox_retention_days:g}) must be more than fact_retention_days "
                f"({self.fact_retention_days:g}), or an event that is sent again would take effect twice"
            )
        return self


class DatabaseSettings(Section):
    url: str = Field(default="", description="sqlite:///folder or postgresql://…; empty: db/ of the data directory")
    connections: int = Field(
        default=8, ge=2, description="maximum number of connections of a service to a database server"
    )
    migrate: Literal["auto", "wait"] = Field(
        default="auto",
        description="auto: a service upgrades older tables when it starts; wait: it waits until `tutti migrate` has "
        "upgraded them (postgresql:// only). Both create the tables of a service that has none",
    )


class BlobSettings(Section):
    url: str = Field(default="", description="file:///folder or s3://…; empty: blobs/ of the data directory")
    cache_bytes: int = Field(
        default=16 << 30,
        ge=0,
        description="maximum size of the cache in the data directory for blobs from s3://…; 0: no cache",
    )


class ScrubSettings(Section):
    """Scrubs, which compare what is stored with its digests before somebody needs it."""

    every_days: float = Field(
        default=7.0, ge=0, le=36500, description="interval of the scrubs of a service; 0: only `tutti scrub` begins one"
    )
    mebibytes_per_second: float = Field(
        default=20.0, gt=0, description="read rate of the scrubs of one process that nobody asked for"
    )
    repair: bool = Field(default=True, description="make damaged results again, and publish damaged events again")


class RankSettings(Section):
    watchdog_seconds: float = Field(
        default=20.0, gt=0, description="time without a heartbeat of its agent after which a rank exits"
    )
    rendezvous_seconds: float = Field(default=60.0, gt=0)
    snapshot_buffers: int = Field(default=2, gt=0)
    spool_snapshots: int = Field(default=4, gt=0)


class LifecycleSettings(Section):
    start_seconds: float = Field(default=900.0, gt=0, description="timeout until everything is ready")
    drain_seconds: float = Field(
        default=10.0, gt=0, description="timeout for calls and loops to end when the process drains"
    )
    stop_seconds: float = Field(default=5.0, gt=0, description="additional timeout for loops to end after that")
    blocked_seconds: float = Field(
        default=0.25, gt=0, description="time without progress after which a loop is logged as blocked"
    )
    reconcile_seconds: float = Field(
        default=30.0, gt=0, description="interval between two reconciliations of all open resources"
    )
    workers: int = Field(default=0, ge=0, description="worker processes for CPU-bound work; 0: one per core, at most 4")
    model_idle_seconds: float = Field(
        default=600.0, gt=0, description="time without requests after which the process that holds models ends"
    )
    model_silence_seconds: float = Field(
        default=300.0, gt=0, description="time without progress, such as a token, after which that process is killed"
    )


class TelemetrySettings(Section):
    metrics_listen: str = Field(default="127.0.0.1:0", description="address of /metrics; port 0: any free port")
    sample_ratio: float = Field(
        default=1.0, ge=0, le=1, description="share of traces that are exported, if an exporter is configured"
    )
    level: Literal["debug", "info", "warning", "error"] = "info"


class SupervisorSettings(Section):
    agents: int = Field(default=1, ge=0, description="number of agents to run beside the host")
    agent_command: list[str] = Field(
        default=["{python}", "-P", "-m", "tutti.trainer", "--data-dir", "{data_dir}", "--node", "{node}"],
        description="command that starts an agent, with {python}, {data_dir} and {node} filled in; it "
        "must hold its leash",
    )
    first_word_seconds: float = Field(
        default=60.0,
        gt=0,
        description="timeout until a new child runs, and then until its first heartbeat; doubled after each timeout",
    )
    silence_seconds: float = Field(
        default=30.0,
        gt=0,
        description="time without a heartbeat after which a child is replaced; doubled after each timeout",
    )
    most_silence_seconds: float = Field(
        default=900.0,
        gt=0,
        description="maximum of both after doubling, and time without a timeout after which they fall back",
    )
    drain_seconds: float = Field(default=20.0, gt=0, description="time between SIGTERM and SIGKILL of a child")
    backoff_seconds: float = Field(default=0.5, gt=0, description="first delay before a restart; doubled up to 30 s")


class WebSettings(Section):
    """Pages."""

    listen: str = Field(
        default="127.0.0.1:0", description="address of the web pages; port 0: a free port, chosen once and kept"
    )
    public_url: str = Field(
        default="", description="URL at which browsers reach the pages, if it differs; https for other machines"
    )
    host: str = Field(
        default="",
        description="name of this machine's pages, such as a.localhost, so that no program at another port gets the "
        "session cookie; empty: 127.0.0.1",
    )
    threads: int = Field(default=8, gt=0, description="threads that render pages")
    deadline_seconds: float = Field(default=10.0, gt=0, description="timeout of a page")
    streams: int = Field(default=64, gt=0, description="maximum number of pages that are updated live")
    max_body_bytes: int = Field(default=1 << 20, gt=0, description="maximum size of a submitted form")

    @model_validator(mode="after")
    def _others_need_https(self) -> Self:
        public = urlsplit(self.public_url)
        safe = public.scheme == "https" or (public.scheme == "http" and public.hostname in LOOPBACK)
        if self.public_url and (not safe or not public.hostname or public.path.strip("/")):
            raise ValueError(f"public_url is {self.public_url!r}; expected https://HOST without a path")
        if self.host and (self.public_url or not _LOCAL_NAME.fullmatch(self.host)):
            raise ValueError(
                f"host is {self.host!r}; expected a name such as a.localhost, and no public_url beside it, which has "
                f"a host"
            )
        host = self.listen.rpartition(":")[0].strip("[]")
        if not self.public_url and host not in LOOPBACK:
            raise ValueError(
                f"listen is {self.listen!r}, which other machines can reach: put a proxy with TLS in front and set "
                f"web.public_url to its https URL, or listen at 127.0.0.1"
            )
        return self


class Settings(Section):
    """All settings; the tables of services (such as [scheduler]) are kept apart and typed by their own models."""

    rpc: RpcSettings = RpcSettings()
    tls: TlsSettings = TlsSettings()
    lease: LeaseSettings = LeaseSettings()
    log: LogSettings = LogSettings()
    database: DatabaseSettings = DatabaseSettings()
    blobs: BlobSettings = BlobSettings()
    scrub: ScrubSettings = ScrubSettings()
    rank: RankSettings = RankSettings()
    lifecycle: LifecycleSettings = LifecycleSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    supervisor: SupervisorSettings = SupervisorSettings()
    web: WebSettings = WebSettings()
    services: dict[str, str] = Field(default={}, description="addresses of services that run elsewhere, by name")


@dataclass(frozen=True)
class Effective:
    """One setting as it holds: its key, its value (hidden if secret), where it came from."""

    key: str
    value: str
    source: str


@dataclass(frozen=True)
class Loaded:
    """Settings together with where each value came from."""

    values: Settings
    own: Tree = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def section(self, service: str, model: type[M]) -> M:
        """The service's own table as its model. Raises SettingsError."""
        return _validated(model, self.own.get(service, {}), prefix=f"{service}.", sources=self.sources)

    def effective(self) -> list[Effective]:
        """Every setting, sorted by key, secrets hidden."""
        flat = [*_leaves(self.values.model_dump(), ""), *_leaves(self.own, "")]
        return sorted(
            (Effective(key, _shown(key, value), self.sources.get(key, "default")) for key, value in flat),
            key=lambda each: each.key,
        )


def load(
    config: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
    services: Iterable[str] | None = None,
) -> Loaded:
    """Read the file (if any), the environment and `key=value` overrides. Raises SettingsError."""
    known = set(installed_services() if services is None else services)
    tables = known | {AGENT}
    merged: Tree = {}
    sources: dict[str, str] = {}
    for source, tree in _layers(config, os.environ if environment is None else environment, overrides):
        for key, value in _leaves(tree, ""):
            _check_table(key.split(".")[0], tables, source)
            _put(merged, key, value, source)
            sources[key] = source
    own = {name: merged.pop(name) for name in list(merged) if name not in Settings.model_fields}
    for name in merged.get("services", {}):
        if known and name not in known:
            raise SettingsError(
                f"services.{name} ({sources[f'services.{name}']}): no such service{_nearest(name, known)}"
            )
    return Loaded(_validated(Settings, merged, prefix="", sources=sources), own, sources)


def installed_services() -> list[str]:
    """Names of the services of this installation, from the entry points."""
    return sorted(entry.name for entry in entry_points(group="tutti.services"))


def _layers(
    config: Path | None, environment: Mapping[str, str], overrides: Iterable[str]
) -> Iterator[tuple[str, Tree]]:
    if config is not None:
        tree = _read(config)
        _check_mode(config, tree)
        if is_found(config.parent):
            _check_found(config, tree)
        yield str(config), tree
    for name in sorted(environment):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in RESERVED_VARIABLES:
            key = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
            yield f"${name}", _nested(key, _parsed(environment[name]))
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SettingsError(f"--set {text!r}: expected key=value, such as rpc.deadline_seconds=20")
        yield "--set", _nested(key.strip(), _parsed(value.strip()))


def _read(config: Path) -> Tree:
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{config}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{config} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{config} is not TOML: {error}") from None


def _check_mode(config: Path, tree: Tree) -> None:
    """Raise SettingsError where others may read the file and it holds a secret; its group may, as with Kubernetes."""
    mode = stat.S_IMODE(config.stat().st_mode)
    if mode & 0o007 and (secret := _secret_in(tree)):
        raise SettingsError(f"{config} can be read by others (mode {mode:04o}) and {secret} is secret: chmod 600 it")


def _check_found(config: Path, tree: Tree) -> None:
    """Raise SettingsError for more than numbers, choices and ports: a stranger's checkout may have brought the file."""
    for key, value in _leaves(tree, ""):
        if not (isinstance(value, (bool, int, float)) or _is_choice(key) or _listens_here(key, value)):
            raise SettingsError(
                f"{config} sets {key}, and nobody named this directory, which a checkout may have brought along: if "
                f"the file is yours, give --data-dir {config.parent} (or --config, or TUTTI_DATA_DIR)"
            )


def _is_choice(key: str) -> bool:
    """True for a setting that is one of a few words."""
    table, _, name = key.partition(".")
    model = Settings.model_fields[table].annotation if table in Settings.model_fields else None
    field = model.model_fields.get(name) if isinstance(model, type) and issubclass(model, BaseModel) else None
    return field is not None and get_origin(field.annotation) is Literal


def _listens_here(key: str, value: object) -> bool:
    """True for the address of a server that other machines cannot reach."""
    return key.endswith("listen") and str(value).rpartition(":")[0].strip("[]") in LOOPBACK


def secret_in(override: str) -> str:
    """Return the key of a secret in `key=value`, "" if there is none."""
    key, _, value = override.partition("=")
    return _secret_in(_nested(key.strip(), _parsed(value.strip())))


def _secret_in(tree: Tree) -> str:
    hidden = (key for key, value in _leaves(tree, "") if _shown(key, value) != str(value))
    return next((key for key in hidden if key != "rpc.tokens"), "")  # which names a file


def _parsed(text: str) -> Any:
    """A value written without quotes: TOML where it is TOML, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def _nested(key: str, value: Any) -> Tree:
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def _put(tree: Tree, key: str, value: Any, source: str) -> None:
    *path, last = key.split(".")
    for part in path:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise SettingsError(f"{key} ({source}): {part} is a value, not a table")
    if isinstance(tree.get(last), dict) and tree[last] and not isinstance(value, dict):
        raise SettingsError(f"{key} ({source}): is a table, not a value")
    tree[last] = value


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _check_table(name: str, tables: set[str], source: str) -> None:
    known = {*Settings.model_fields, *tables}
    if name not in known:
        raise SettingsError(f"{name} ({source}): no such table of settings{_nearest(name, known)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(options)}"


def _validated(model: type[M], tree: Mapping[str, Any], *, prefix: str, sources: Mapping[str, str]) -> M:
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        path = [str(part) for part in first["loc"]]
        key = prefix + ".".join(path)
        source = sources.get(key) or next((of for name, of in sources.items() if name.startswith(f"{key}.")), "default")
        if first["type"] == "extra_forbidden":
            known = _fields_at(model, path[:-1])
            raise SettingsError(f"{key} ({source}): no such setting{_nearest(path[-1], known)}") from None
        seen = _shown(key, first["input"])
        raise SettingsError(f"{key} ({source}): {first['msg']}; seen {seen}") from None


def _fields_at(model: type[BaseModel], path: Iterable[str]) -> list[str]:
    for part in path:
        inner = model.model_fields[part].annotation
        if get_origin(inner) in (Union, UnionType):
            inner = next((each for each in get_args(inner) if isinstance(each, type)), None)
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return list(model.model_fields)


def _shown(key: str, value: object) -> str:
    if _SECRET.search(key.rsplit(".", 1)[-1].lower()) and value not in ("", None):
        return "***"
    if isinstance(value, str) and "@" in value and "://" in value:
        parts = urlsplit(value)
        if parts.password is not None or parts.scheme == "s3":
            return parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]).geturl()
    return str(value)
