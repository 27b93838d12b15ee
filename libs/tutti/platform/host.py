"""The host: one process, one port, one or several services.

Promises: start → ready → drain → stop, each with a deadline that names who is missing; the address is announced when
everything is ready and withdrawn before anything stops; health tells which of these it is.
"""

import hashlib
import hmac
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel

from tutti.backbone import Database, Isolation, SystemClock, SystemRandomness, uuid7
from tutti.backbone.connect import open_database, open_log
from tutti.backbone.embedded.copies import copy_together
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.owned import OwnedBlobs, service_rights
from tutti.chassis.config.datadir import DataDir, part_of
from tutti.chassis.config.settings import Loaded, SettingsError
from tutti.chassis.delivery.compactor import Compactor
from tutti.chassis.errors import Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.metrics import MetricsServer, count_logs, metrics
from tutti.chassis.rpc.channel import RpcChannel
from tutti.chassis.rpc.eventloop import event_loop
from tutti.chassis.rpc.health import Health
from tutti.chassis.rpc.locator import locate
from tutti.chassis.rpc.server import Refusal, RpcServer
from tutti.chassis.rpc.tls import expiries, tls_of
from tutti.chassis.rpc.usertokens import UserTokens
from tutti.chassis.runtime.blocked import BlockedWatch
from tutti.chassis.runtime.healthfile import HealthFile, health_path
from tutti.chassis.runtime.loops import LoopThread, drain
from tutti.chassis.runtime.probe import Probe, look_at_log
from tutti.chassis.runtime.process import parts_of, prepare, process_name
from tutti.chassis.runtime.signals import Stop
from tutti.chassis.service import Build, Front, FrontHost, Home, PagesAt, Served
from tutti.chassis.store import audit, stack
from tutti.chassis.store.stack import Stores
from tutti.chassis.telemetry import configure_tracing, flush_tracing
from tutti.chassis.work.leadership import AT
from tutti.platform.admin import AdminApi, admin_descriptor
from tutti.platform.disk import Disk
from tutti.platform.gauges import Cached, Waiting
from tutti.platform.opening import blobs_of, check_deadline, tokens_of
from tutti.platform.pool import ProcessPool
from tutti.platform.resident import Resident
from tutti.platform.servicehost import ServiceHost
from tutti.upkeep.backup.databases import is_paired, on_server
from tutti.upkeep.examination import Administered, Examination
from tutti.upkeep.preflight import Preflight
from tutti.upkeep.scrubber import Scrubber
from tutti.upkeep.upgrades import StoppedWaiting, await_upgrade, older

log = logging.getLogger(__name__)
REPAIR_SECONDS = 5.0
"""Between two looks at stores that have to be repaired."""
S = TypeVar("S", bound=BaseModel)


class Closes(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closes)


class HostProcess:
    """`builds` by name of the service. `alone`: the one that announces itself under its name, not as the platform;
    `copy` is its number among the replicas that share the data directory.
    """

    def __init__(
        self, builds: Mapping[str, Build], data_dir: DataDir, loaded: Loaded, *, alone: str | None = None, copy: int = 1
    ) -> None:
        self._builds, self._data_dir, self._loaded = dict(builds), data_dir, loaded
        self._alone, self._copy, self._part = alone, copy, part_of(alone, copy)
        self._health_file = HealthFile(health_path(data_dir.path, self._part))
        self._clock, self._randomness = SystemClock(), SystemRandomness()
        self._open = ExitStack()
        self._channels: dict[str, RpcChannel] = {}
        self._running: list[Administered] = []
        self._lock = threading.Lock()
        self._serving = self._ready = False
        self._front: Front | None = None
        self._pages = PagesAt()
        self.address = ""

    @property
    def services(self) -> Sequence[Administered]:
        return self._running

    def start(self, stop: Stop | None = None) -> str:
        """Start everything; the address when all is ready. On failure nothing is left running.

        `stop` ends the wait for an upgrade of the tables: StoppedWaiting is raised.
        """
        deadline = time.monotonic() + self._loaded.values.lifecycle.start_seconds
        try:
            self._start(deadline, stop or Stop())
        except BaseException:
            self.stop()
            raise
        return self.address

    def drain(self) -> list[str]:
        """Let nothing new in; wait for calls and loops; what had not ended in time, by name."""
        if not self._serving:
            return []
        self._serving = False
        lifecycle = self._loaded.values.lifecycle
        seconds = lifecycle.drain_seconds
        deadline = time.monotonic() + seconds
        self._data_dir.withdraw(self.address, self._part)
        for each in self._running:
            self._health.set(each.service.name, "drains")
        threads = [thread for each in self._running for thread in each.threads if thread.started]
        threads += [thread for thread in self._own_threads if thread.started]
        for thread in threads:
            thread.tell_to_stop()
        late = self._drain_front(seconds)
        late += [f"call {name}" for name in self._server.drain(max(deadline - time.monotonic(), 0.0))]
        self._pool.close()
        late += [f"loop {name}" for name in drain(threads, max(deadline - time.monotonic(), lifecycle.stop_seconds))]
        if late:
            log.warning("did not end within %.1f s, aborted: %s", seconds, ", ".join(late))
        return late

    def stop(self) -> None:
        """Close everything in the reverse order; drains first what was not."""
        if self._serving:
            self.drain()
        self._open.close()
        flush_tracing()

    def _start(self, deadline: float, stop: Stop) -> None:
        values, data_dir = self._loaded.values, self._data_dir
        name = self._part or "host"
        self._open.callback(data_dir.lock(name, f"{name}.lock").release)
        self._instance = data_dir.instance(name)
        count_logs()
        configure_tracing(name, sample_ratio=values.telemetry.sample_ratio)
        self._watch = self._opened(BlockedWatch(values.lifecycle.blocked_seconds))
        self._open.callback(self._watch.watch("event loop", event_loop()))
        self._tokens, self._tls = tokens_of(values.rpc, data_dir), tls_of(values.tls)
        scratch = data_dir.scratch(name)
        self._open.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(scratch)
        models = Resident(
            "models",
            idle_seconds=values.lifecycle.model_idle_seconds,
            silence_seconds=values.lifecycle.model_silence_seconds,
            scratch=scratch,
        )
        self._pool = self._opened(ProcessPool(values.lifecycle.workers, scratch=scratch, resident=models))
        self._log = self._opened(open_log(values.log.url or data_dir.log_url, clock=self._clock))
        self._blobs = self._opened(blobs_of(values.blobs, data_dir))
        url = values.database.url or data_dir.database_url
        databases = {
            each: self._opened(open_database(url, each, clock=self._clock, connections=values.database.connections))
            for each in self._builds
        }
        check_deadline(deadline, "the comparison of the stores")
        self._stores = Stores(self._blobs, self._log, databases, stack.places(values, data_dir))
        deadline += self._join(stop)
        for service, build in self._builds.items():
            check_deadline(deadline, service)
            self._running.append(self._build(service, build, databases[service]))
        self._health = Health(
            {each.service.name: [one.descriptor.full_name for one in each.service.serves] for each in self._running},
            now=self._clock.now,
        )
        if values.database.migrate == "wait":
            deadline += self._await_upgrade(url, stop)
        for each in self._running:
            check_deadline(deadline, each.service.name)
            prepare(each.parts, self._instance)
            self._opened(each.parts)
        self._serve()
        for thread in [thread for each in self._running for thread in each.threads]:
            check_deadline(deadline, thread.name)
            thread.start()
        for thread in (self._probe, self._compactor, self._scrubbing):
            thread.start()
        running = {each.service.name: (each.host.units, each.parts) for each in self._running}
        waiting = Waiting(running, self._log, paired=is_paired(url))
        for collector in (waiting, Cached(self._blobs), Disk(data_dir.path)):
            metrics.collect(collector)
            self._open.callback(metrics.forget, collector)
        scraped = self._opened(MetricsServer(values.telemetry.metrics_listen))
        data_dir.write(
            "metrics" if self._alone is None else f"endpoints/{name}.metrics", f"{scraped.address}\n".encode()
        )
        if self._front is None:
            self._serve_pages()
        if self._front is not None:
            data_dir.announce_pages(self._pages.url, self._part)
        for each in self._running:
            self._health.set(each.service.name)
        self._examination.start()
        data_dir.announce(self.address, self._part)
        self._ready = True

    def _join(self, stop: Stop) -> float:
        """Compare the ids of the stores; the seconds that it took. Raises ForeignStore, StoppedWaiting.

        A service in a process of its own waits until the stores are repaired: if it ended, whatever restarts it would
        do so for ever.
        """
        began, told = time.monotonic(), ""
        while True:
            try:
                self._identity = stack.join(self._stores, self._randomness)
                return time.monotonic() - began
            except stack.ForeignStore as error:
                if self._alone is None:
                    raise
                if str(error) != told:
                    told = str(error)
                    log.error("waits until its stores are repaired: %s", told)
            self._health_file.write(told)
            if stop.wait(REPAIR_SECONDS):
                raise StoppedWaiting("told to stop while it waited for the repair of its stores")

    def _same_stack(self, service: str) -> None:
        """Raises ForeignStore."""
        stores = self._stores
        stack.compare(replace(stores, databases={service: stores.databases[service]}), self._identity)

    def _await_upgrade(self, url: str, stop: Stop) -> float:
        """Wait until `tutti migrate` has upgraded older tables; the seconds that it took. Raises SettingsError.

        Calls are not accepted meanwhile, so callers go to the replicas of the older version. The pages are served, for
        their health check.
        """
        if not on_server(url):
            raise SettingsError(
                "database.migrate is `wait`, but the databases are SQLite files, which a waiting service would lock: "
                "set database.url to postgresql://..., or database.migrate to `auto`"
            )
        services = [(each.service, each.host.database, each.host.metadata) for each in self._running]
        if not older(services):
            return 0.0
        began = time.monotonic()
        self._serve_pages()

        def tell(reasons: Mapping[str, str]) -> None:
            for name in self._builds:
                self._health.set(name, reasons.get(name, "starts"))
            self._health_file.write("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))

        try:
            await_upgrade(services, tell, stop)
        finally:
            self._health_file.write("starts")
        return time.monotonic() - began

    def _build(self, name: str, build: Build, database: Database) -> Administered:
        values = self._loaded.values
        blobs = OwnedBlobs(self._blobs, name, service_rights(name))
        host = ServiceHost.of(
            name,
            database,
            blobs,
            clock=self._clock,
            randomness=self._randomness,
            pool=self._pool,
            channels=self.channel,
            loaded=self._loaded,
            place=Home(self._data_dir, self._tokens.of(Role.SERVICE), self._open.callback),
        )
        service = build(host)
        blobs.rights = service.blob_rights()
        incarnation = uuid7(self._clock, self._randomness)
        parts = parts_of(service, host, self._log, values, instance=self._instance, incarnation=incarnation)
        threads = tuple(LoopThread(loop, clock=self._clock, watch=self._watch) for loop in parts.loops)
        return Administered(service, host, parts, threads)

    def _serve(self) -> None:
        values = self._loaded.values
        served = {each.service.name: each.service.serves for each in self._running}
        examination = Examination(self._running, self._log, self._health.reason, self._same_stack)
        topic = next((topic for each in self._running for topic in each.parts.topics), None)
        preflight = Preflight(
            self._data_dir.path,
            self._blobs,
            {each.service.name: each.host.database for each in self._running},
            ask_log=partial(look_at_log, self._log, topic),
            expiries=lambda: expiries(self._tls) if self._tls else [],
        )
        scrubber = self._opened(
            Scrubber(
                self._running,
                self._log,
                values.scrub,
                holder=f"{self._instance}/{uuid7(self._clock, self._randomness)}{AT}{process_name()}",
                ttl=values.lease.ttl_seconds,
            )
        )
        admin = Served(
            admin_descriptor,
            AdminApi(
                self._running,
                self._health.standing,
                examination,
                lambda: self._pages,
                self._copies,
                preflight.findings,
                scrubber,
            ),
        )
        own = [each for each in values.services.get(self._alone or "", "").split(",") if each]
        listen = own[self._copy - 1] if self._copy <= len(own) else values.rpc.listen
        self._server = RpcServer(
            [*(one for every in served.values() for one in every), admin],
            settings=values.rpc.model_copy(update={"listen": listen}),
            tokens=self._tokens,
            health=self._health,
            record=self._record_refusal,
            find_user=UserTokens(self.channel).find,
            tls=self._tls,
        )
        self.address = self._server.start()
        databases = {each.service.name: (each.host.database, each.threads) for each in self._running}
        probe = Probe(databases, self._log, topic, self._health, self._health_file)
        self._probe = LoopThread(probe, clock=self._clock, watch=None)
        self._compactor = LoopThread(Compactor(self._log), clock=self._clock, watch=None)
        self._examination = LoopThread(examination, clock=self._clock, watch=None)
        self._scrubbing = LoopThread(scrubber, clock=self._clock, watch=None)
        self._own_threads = (self._probe, self._compactor, self._examination, self._scrubbing)
        self._serving = True

    def _copies(self) -> str:
        """Copy the databases to the scratch folder; the folder relative to the data directory. Raises Refused."""
        databases = {each.service.name: each.host.database for each in self._running}
        embedded = {name: each for name, each in databases.items() if isinstance(each, EmbeddedDatabase)}
        if self._alone or len(embedded) < len(databases):
            raise Refused("REFUSED", "its databases are on a server or in several processes; it copies SQLite files")
        folder = Path(tempfile.mkdtemp(prefix="databases-"))
        try:
            copy_together(embedded, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return str(folder.relative_to(self._data_dir.path))

    def _record_refusal(self, refusal: Refusal, times: int) -> None:
        """In the audit trail of the service that was called; of one that all have, in that of the first."""
        named = {one.descriptor.full_name: each for each in self._running for one in each.service.serves}
        owner = named.get(refusal.service, self._running[0])
        who = refusal.principal
        owner.host.units.run(
            lambda unit: audit.refused(
                unit,
                refusal.action,
                refusal.reason,
                user=who.user if who else "",
                tenant=who.tenant if who else "",
                method=who.method.value if who else "",
                address=refusal.address,
                times=times,
            ),
            isolation=Isolation.READ_COMMITTED,
        )

    def _serve_pages(self) -> None:
        """One server for the pages of all services that have some."""
        pages = [each.service.pages for each in self._running if each.service.pages is not None]
        if not pages:
            return
        token = self._tokens.of(Role.SERVICE).encode()
        secret = hmac.new(token, b"tutti pages", hashlib.sha256).digest()
        names = list(self._builds)

        def reasons() -> dict[str, str]:
            return {name: self._health.reason(name) for name in names}

        ports = self._data_dir.ports(self._part)
        try:
            host = FrontHost(self._loaded.values.web, secret, self.channel, reasons, ports)
            self._front = pages[0].front(pages, host)
        except ImportError as error:
            log.warning("pages are not served: %s; install them with pip install 'tutti[web]'", error)
            return
        self._opened(self._front)
        self._pages = self._front.start()
        if list(self._pages.ports) != ports:
            self._data_dir.keep_ports(self._pages.ports, self._part)

    def _drain_front(self, seconds: float) -> list[str]:
        if self._front is None:
            return []
        self._data_dir.withdraw_pages(self._part)
        return [f"request {name}" for name in self._front.drain(seconds)]

    def channel(self, service: str) -> RpcChannel:
        """To a service by name, as the role SERVICE; one channel a service."""
        with self._lock:
            if service not in self._channels:
                rpc = self._loaded.values.rpc
                self._channels[service] = self._opened(
                    RpcChannel(
                        lambda: locate(service, self._loaded.values.services, self._data_dir.path, self._own),
                        token=self._tokens.of(Role.SERVICE),
                        deadline_seconds=rpc.deadline_seconds,
                        attempts=rpc.attempts,
                        max_message_bytes=rpc.max_message_bytes,
                        tls=self._tls,
                        door_secret=self._tokens.door_secret,
                    )
                )
            return self._channels[service]

    def _own(self, service: str) -> str:
        return self.address if service in self._builds else ""

    def _opened(self, thing: C) -> C:
        """Close it when the host stops; what fails to close is logged and the rest is closed all the same."""

        def close() -> None:
            try:
                thing.close()
            except Exception as error:
                log.warning("%s did not close: %s", type(thing).__name__, error)

        self._open.callback(close)
        return thing
