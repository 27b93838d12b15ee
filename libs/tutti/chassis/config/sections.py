"""Tables of the settings: their keys, defaults and bounds."""

import re
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.chassis.config.datadir import LOOPBACK

_LOCAL_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.localhost")


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
        "must hold its heartbeat pipe",
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
