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
from typing import Any, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from tutti.chassis.config.datadir import LOOPBACK, is_found
from tutti.chassis.config.sections import (
    BlobSettings,
    DatabaseSettings,
    LeaseSettings,
    LifecycleSettings,
    LogSettings,
    RankSettings,
    RpcSettings,
    ScrubSettings,
    Section,
    SupervisorSettings,
    TelemetrySettings,
    TlsSettings,
    WebSettings,
)

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
_SECRET = re.compile(r"(?:^|_)(secret|password|token)s?(?!_per_)(?:_|$)")
"""Names of settings that are secret; `tokens_per_minute` is a rate."""


class SettingsError(ValueError):
    """A setting that cannot be used: which, from where, what was expected."""


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
        said = first["msg"].removeprefix("Value error, ")  # a check of ours says what it saw
        seen = "" if said != first["msg"] else f"; seen {_shown(key, first['input'])}"
        raise SettingsError(f"{key} ({source}): {said}{seen}") from None


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
