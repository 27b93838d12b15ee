"""Deployments: checkpoints that are brought to serve, and kept serving, until they are stopped.

Promises: a deployment is where its row says it shall be, however often this process or its replicas end; what keeps it
from serving is its reason; a checkpoint that cannot answer fails at once, replicas that end again and again after
some tries.
"""

import json
import logging
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.config.freememory import available_bytes
from tutti.chassis.connections import connection_of_loop
from tutti.chassis.errors import InvalidField, Refused, Unavailable
from tutti.chassis.rpc import eventloop
from tutti.chassis.service import Home, Host
from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work.reconciler import RETRYING, Reconciler, Trouble
from tutti.chat.defaults import GENERATION, NONE, Defaults, of_generation, record, recorded
from tutti.chat.filter.release import Filter
from tutti.chat.filters import filter_of
from tutti.chat.fleets import Fleet, GaveUp
from tutti.chat.leases import Leases
from tutti.chat.models import Model
from tutti.chat.reasons import RELEASE_WITHDRAWN
from tutti.chat.releases import Releases, withdrawn
from tutti.chat.routing import Router
from tutti.chat.saying import Served
from tutti.chat.settings import ChatSettings
from tutti.chat.sizing import Size, answering, asked, sized
from tutti.chat.standing import state_of
from tutti.chat.tables import Tables
from tutti.checkpoints.bodies import Body, decode_body
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.imported import ImportBody
from tutti.checkpoints.reader import stage
from tutti.contracts.chat.v1 import (
    DEPLOYMENT_STATE_FAILED,
    DEPLOYMENT_STATE_READY,
    DEPLOYMENT_STATE_STARTING,
    DEPLOYMENT_STATE_STOPPED,
    DEPLOYMENT_STATE_STOPPING,
    Deployment,
    DeploymentState,
    FilterSpec,
    Opened,
)
from tutti.contracts.evaluation.v1 import STANDING_STALE, Standing
from tutti.corpus.conversations.rendered import Renderer, TemplateError
from tutti.corpus.conversations.renderers import own_renderer, renderer_of
from tutti.inference.errors import InvalidSampling
from tutti.records.canonical import bytes_digest
from tutti.staging.checkpoints import Checkpoints, Found

OPEN = (DEPLOYMENT_STATE_STARTING, DEPLOYMENT_STATE_READY, DEPLOYMENT_STATE_STOPPING)
LOOK_SECONDS = 0.5
ROUTER_SECONDS = 10.0
"""Deadline of a change of the router's replicas."""
log = logging.getLogger(__name__)
EPOCH = datetime.fromtimestamp(0, UTC)
_OTHERS = re.compile(r"[^a-z0-9]+")


@dataclass
class Running:
    """A deployment in this process; `served` is the model as the router needs it, `folder` has its checkpoint.

    `asked` is the size that was asked for, `size` the one that it has, `own` the default sampling of the model itself.
    """

    fleet: Fleet
    asked: tuple[int, int]
    size: Size
    folder: Path
    served: Served
    filtered: FilterSpec
    own: Defaults
    opened: Opened | None = None


class Deployments:
    """The reconciler of deployments, and the router to their replicas."""

    def __init__(self, host: Host, tables: Tables, leases: Leases) -> None:
        self._host, self._resource, self._leases = host, tables.deployments, leases
        self._reports = tables.reports
        self._releases = Releases(host.channel, host.clock.monotonic)
        self._withdrawn: dict[str, tuple[Model | None, str]] = {}
        self._checkpoints, self._settings = Checkpoints(host), host.settings(ChatSettings)
        self._running: dict[str, Running] = {}
        self._ready: dict[str, Model] = {}
        self._router: Router | None = None
        self._used: set[str] = set()
        self.reconciler = Reconciler("deployments", host, open=self._open, advance=self._advance, tell=self._tell)

    def models(self) -> list[Model]:
        """The deployments that are ready; from any thread."""
        return list(self._ready.values())

    def refusal(self, name: str) -> str:
        """The reason why the model that is called `name` was withdrawn; empty if it was not. From any thread."""
        found = [reason for model, reason in [*self._withdrawn.values()] if model is not None and model.is_called(name)]
        return found[0] if found else ""

    def told(self, unit: Unit, deployment: Deployment) -> Deployment:
        """A deployment as it is now, with its reports.

        The row of one that was ready says so until this process has looked at it.
        """
        if deployment.state == DEPLOYMENT_STATE_READY and deployment.name not in self._ready:
            deployment.state, deployment.serving = DEPLOYMENT_STATE_STARTING, 0
            deployment.reason = deployment.reason or "the service was started, and starts the replicas again"
        deployment.reports = self._reports.count(unit, deployment.name)
        return deployment

    def _open(self, unit: Unit) -> Iterable[str]:
        return [each.name for each in self._resource.select(unit, state=[int(state) for state in OPEN])]

    def _advance(self, name: str) -> float | None:
        deployment = self._host.units.run(lambda unit: self._resource.get(unit, name))
        if deployment.state not in OPEN:
            self._leave(name)
            return None
        if deployment.state == DEPLOYMENT_STATE_STOPPING:
            self._leave(name)
            self._change(deployment, lambda each, now: _ended(each, DEPLOYMENT_STATE_STOPPED, "", now))
            return None
        standing = self._releases.standing(deployment.release)
        if reason := withdrawn(deployment, standing, self._host.clock.now()):
            self._withdraw(name, reason)
            self._change(deployment, lambda each, now: _ended(each, DEPLOYMENT_STATE_FAILED, reason, now))
            return None
        if (before := self._running.get(name)) is not None and before.asked != asked(deployment.spec):
            self._leave(name)
        try:
            running = self._running.get(name) or self._begin(deployment)
            running.fleet.keep(deployment.spec.replicas)
            self._filter(name, running, deployment.spec.filter)
        except (WorkFailed, GaveUp) as error:
            reason = str(error)
            self._leave(name)
            self._change(deployment, lambda each, now: _ended(each, DEPLOYMENT_STATE_FAILED, reason, now))
            return None
        self._look(deployment, running, standing)
        return LOOK_SECONDS

    def _withdraw(self, name: str, reason: str) -> None:
        """End the answers of a deployment whose release does not allow them any more, and its replicas."""
        self._withdrawn[name] = (self._ready.pop(name, None), reason)
        eventloop.event_loop().call_soon_threadsafe(self._leases.stop, name, Refused(RELEASE_WITHDRAWN, reason))
        self._leave(name)

    def _look(self, deployment: Deployment, running: Running, standing: "Standing.ValueType") -> None:
        """Follow the replicas that are there, and record the state of the deployment."""
        router = self._follow()
        followed = {each.address: each.opened for each in router.replicas if each.opened is not None}
        views = running.fleet.views(followed)
        running.opened = next((followed[each] for each in running.fleet.addresses if each in followed), running.opened)
        state, reason = state_of(deployment.state, views)
        opened, restarts = running.opened, running.fleet.restarts
        defaults = recorded(deployment) or self._defaults(deployment, running)

        def change(each: Deployment, now: datetime) -> None:
            each.state, each.reason = state, clipped(reason)
            each.serving, each.restarts = sum(view.serves for view in views), restarts
            each.model = running.served.model
            each.context, each.memory_bytes = running.size.context, running.size.memory_bytes
            record(each, defaults)
            _note(each, standing, now)
            if opened is not None:
                each.signature, each.exact = opened.signature, opened.exact

        self._change(deployment, change)
        if state == DEPLOYMENT_STATE_READY and opened is not None:
            self._ready[deployment.name] = Model(
                name=deployment.name.partition("/")[2],
                deployment=deployment.name,
                checkpoint=deployment.spec.checkpoint,
                created=deployment.started_at.seconds,
                served=running.served,
                router=router,
                fingerprint=opened.signature,
                streams=running.size.streams * max(1, sum(each.serves for each in views)),
                defaults=defaults,
            )
        else:
            self._ready.pop(deployment.name, None)

    def _begin(self, deployment: Deployment) -> Running:
        """Fetch the checkpoint of a deployment. Raises WorkFailed where it cannot answer."""
        if self._withdrawn.pop(deployment.name, None) is not None:
            eventloop.event_loop().call_soon_threadsafe(self._leases.allow, deployment.name)
        home, found = self._host.home(), self._checkpoints.find(deployment.spec.checkpoint)
        served, body = served_by(found), decode_body(found.manifest)
        size = self._sized(deployment, body)
        served = replace(served, length=size.context, filter=self._filter_of(deployment.spec.filter))
        folder = Path(tempfile.mkdtemp(prefix="tutti-chat-"))
        try:
            stage(self._host.blobs, found.manifest_key, folder, identity=found.identity)
        except CheckpointError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise WorkFailed(str(error)) from error
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        filtered = FilterSpec()
        filtered.CopyFrom(deployment.spec.filter)
        arguments = ["--context", str(size.context), "--slots", str(size.streams), "--mode", self._settings.mode]
        fleet = Fleet(home, prefix_of(deployment.name), folder, self._host.clock.monotonic, arguments)
        if self._router is None:
            self._router = eventloop.run(_router(home), ROUTER_SECONDS)
            home.closing(self._close)
        running = self._running[deployment.name] = Running(
            fleet, asked(deployment.spec), size, folder, served, filtered, self._own(found.name, body)
        )
        return running

    def _defaults(self, deployment: Deployment, running: Running) -> Defaults:
        """The sampling of the evidence of its release, or else of the model itself. Raises Problem."""
        found = self._releases.defaults(deployment.release) if deployment.release else NONE
        return found if found.source else running.own

    def _own(self, checkpoint: str, body: Body) -> Defaults:
        """The sampling that the folder of an import says, if the file was kept and can be used."""
        files = body.files if isinstance(body, ImportBody) else ()
        key = next((each.key for each in files if each.name == GENERATION), "")
        try:
            return of_generation(json.loads(self._host.blobs.get(key))) if key else NONE
        except (BlobMissing, InvalidSampling) as error:
            log.warning("%s of %s is not used: %s", GENERATION, checkpoint, error)
            return NONE

    def _sized(self, deployment: Deployment, body: Body) -> Size:
        """Raises WorkFailed where the memory holds too little; Unavailable for one that has served: it waits."""
        try:
            return sized(answering(body), deployment.spec, self._available(), kept=deployment.context)
        except WorkFailed as error:
            if deployment.context:
                raise Unavailable(str(error)) from error
            raise

    def _available(self) -> int:
        """The bytes that are left beside the deployments that run, of which some have not taken theirs yet."""
        most = self._settings.memory_bytes
        taking = [each for name, each in self._running.items() if most or name not in self._ready]
        left = (most or available_bytes()) - sum(each.size.memory_bytes for each in taking)
        return max(0, left)

    def _filter(self, name: str, running: Running, spec: FilterSpec) -> None:
        """Let later answers have this filter. Raises WorkFailed where it cannot be read."""
        if spec != running.filtered:
            running.served = replace(running.served, filter=self._filter_of(spec))
            running.filtered.CopyFrom(spec)
            if (model := self._ready.get(name)) is not None:
                self._ready[name] = replace(model, served=running.served)

    def _filter_of(self, spec: FilterSpec) -> Filter:
        try:
            return filter_of(spec, self._host.blobs)
        except InvalidField as error:
            raise WorkFailed(str(error)) from error

    def _follow(self) -> Router:
        """Let the router follow the replicas of all deployments."""
        assert self._router is not None
        addresses = {address for each in self._running.values() for address in each.fleet.addresses}
        if addresses != self._used:
            eventloop.run(self._router.use(addresses), ROUTER_SECONDS)
            self._used = addresses
        return self._router

    def _leave(self, name: str) -> None:
        """Take a deployment out of service, and end its replicas."""
        self._ready.pop(name, None)
        running = self._running.pop(name, None)
        if running is not None:
            self._follow()  # its requests move, where another deployment has the same model
            running.fleet.close()
            shutil.rmtree(running.folder, ignore_errors=True)

    def _close(self) -> None:
        """End all replicas; their rows say that they shall serve, so the next start begins anew."""
        self._ready.clear()
        for each in self._running.values():
            each.fleet.close()
            shutil.rmtree(each.folder, ignore_errors=True)
        self._running.clear()
        if self._router is not None:
            try:
                eventloop.run(self._router.close(), ROUTER_SECONDS)
            except TimeoutError:
                log.warning("the links to the replicas did not end within %g s; this process ends them", ROUTER_SECONDS)

    def _change(self, seen: Deployment, change: Callable[[Deployment, datetime], None]) -> None:
        """Write what became of a deployment, unless a call has changed its goal since then."""
        changed = Deployment()
        changed.CopyFrom(seen)
        change(changed, EPOCH)
        if changed == seen:
            return

        def write(unit: Unit) -> None:
            deployment = self._resource.lock(unit, seen.name)
            if any(getattr(deployment, name) != getattr(seen, name) for name in ("spec", "started_at", "release")):
                return
            if (deployment.state == DEPLOYMENT_STATE_STOPPING) == (seen.state == DEPLOYMENT_STATE_STOPPING):
                change(deployment, unit.now)
                self._resource.put(unit, deployment)

        self._host.units.run(write)

    def _tell(self, unit: Unit, name: str, trouble: Trouble | None) -> None:
        deployment = self._resource.lock(unit, name)
        if deployment.state not in OPEN:
            return
        if trouble is not None:
            deployment.reason = clipped(trouble.reason)
            if trouble.final:
                _ended(deployment, DEPLOYMENT_STATE_FAILED, deployment.reason, unit.now)
        elif deployment.reason.startswith(RETRYING):
            deployment.reason = ""
        self._resource.put(unit, deployment)


def served_by(found: Found) -> Served:
    """The model of a checkpoint as it answers. Raises WorkFailed for one that knows no conversations."""
    body = decode_body(found.manifest)
    if isinstance(body, ImportBody):
        return _served(found, body.length, lambda: own_renderer(found.tokenizer))
    training = body.training
    if not training.template:
        raise WorkFailed(
            f"{found.name} was not trained on conversations and has no chat template: serve a checkpoint of a stage "
            "`sft`, or of one that began with it"
        )
    if training.model.scalar_head:
        raise WorkFailed(f"{found.name} is a reward model, which gives scores: serve a checkpoint that answers")
    return _served(found, training.length, lambda: renderer_of(training.template, found.tokenizer))


def _served(found: Found, length: int, bind: Callable[[], Renderer]) -> Served:
    """Raises WorkFailed for a template that does not fit the tokenizer, or ends no answer."""
    try:
        renderer = bind()
        _ = renderer.end
    except TemplateError as error:
        raise WorkFailed(f"{found.name}: {error}") from error
    return Served(found.model_digest, length, found.tokenizer, renderer)


def prefix_of(name: str) -> str:
    """The beginning of the names of a deployment's replicas, different for each deployment."""
    digest = bytes_digest(name.encode()).removeprefix("blake3:")
    return f"{_OTHERS.sub('-', name.partition('/')[2])[:40].strip('-')}-{digest[:6]}"


def _ended(deployment: Deployment, state: "DeploymentState.ValueType", reason: str, now: datetime) -> None:
    deployment.state, deployment.reason, deployment.serving = state, clipped(reason), 0
    deployment.ended_at.FromDatetime(now)


def _note(deployment: Deployment, standing: "Standing.ValueType", now: datetime) -> None:
    """Note in a deployment since when its release is stale."""
    if standing != STANDING_STALE:
        deployment.ClearField("stale_since")
    elif not deployment.HasField("stale_since"):
        deployment.stale_since.FromDatetime(now)


async def _router(home: Home) -> Router:
    return Router(connection_of_loop, home.token)
