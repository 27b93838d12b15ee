"""Experience: what agents report of rollouts, for people to read, until the retention policy removes it.

Promises: a node reports only of epochs in which it held a rank, and only iterations that the epoch made; a report of a
sealed epoch removes nothing. An experience is recorded once its bytes were read and checked by digest; the same report
again changes nothing, and another one under its name is refused. Figures and digests stay when rollouts are removed.
"""

from collections.abc import Callable, Mapping

from tutti.backbone.blobs import OF_NODE, BlobMissing
from tutti.chassis import version
from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.rpc import standard
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host, Served, TaskKind
from tutti.chassis.store import crud
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import Finish, Task, TaskContext, WorkFailed
from tutti.chassis.work.work import publish
from tutti.checkpoints.keys import experience_name
from tutti.contracts.committer.v1 import CheckHolderRequest
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.sampling.v1 import (
    EXPERIENCE_STATE_PRUNED,
    EXPERIENCE_STATE_STORED,
    ROLLOUT_ORDER_BEST,
    ROLLOUT_ORDER_KL,
    ROLLOUT_ORDER_LONGEST,
    ROLLOUT_ORDER_WORST,
    Experience,
    ExperienceCommitted,
    ReadExperienceRequest,
    ReadExperienceResponse,
    ReportExperienceRequest,
    Rollout,
)
from tutti.contracts.sampling.v1.experience_pb2 import DESCRIPTOR
from tutti.corpus.conversations import experience as files
from tutti.corpus.conversations.conversations import as_lines
from tutti.records.canonical import JsonValue
from tutti.records.errors import CorpusError
from tutti.records.fields import Fields
from tutti.records.manifest import Kind, Manifest
from tutti.sampling.settings import SamplingSettings
from tutti.staging import fetching

TASK = "prune"
SHOWN, MOST = 10, 1000
declare(
    {
        "EXPERIENCE_REFUSED": "the blob of an experience is missing, damaged or of another iteration; store it first",
        "EXPERIENCE_PRUNED": "the rollouts of an iteration were removed; raise sampling.experience_iterations",
    }
)
ORDERS: Mapping[int, Callable[[files.Rollout], float]] = {
    ROLLOUT_ORDER_BEST: lambda each: -each.reward,
    ROLLOUT_ORDER_WORST: lambda each: each.reward,
    ROLLOUT_ORDER_LONGEST: lambda each: -len(each.tokens),
    ROLLOUT_ORDER_KL: lambda each: -each.kl,
}


STORED = "trainer/experiences/"
"""Key prefix of the experience blobs that agents store."""


class Experiences:
    """The resource, its calls, and the task that removes rollouts."""

    def __init__(self, host: Host) -> None:
        self.resource: Resource[Experience] = Resource(
            host.metadata, "experiences", Experience, {"job": lambda each: each.job}, numbered=True
        )
        self._committer = CommitterServiceStub(host.channel("committer"))
        self._host, self._keep = host, host.settings(SamplingSettings).experience_iterations

    def served(self) -> Served:
        kept = standard.Stored(self._host.units, self.resource)
        return standard.served(DESCRIPTOR.services_by_name["ExperienceService"], self, kept)

    def task(self) -> TaskKind:
        return TaskKind(name=TASK, run=self._prune, on_failed=self._not_pruned)

    def ReportExperience(self, request: ReportExperienceRequest, call: Call) -> Experience:
        if not request.job.startswith("jobs/"):
            raise InvalidField("job", seen=request.job or "nothing", expected="the name of a job, jobs/...")
        if not request.key.startswith(STORED):
            raise InvalidField("key", seen=request.key or "nothing", expected=f"a key that begins with {STORED}")
        sealed = self._admit(request, call)
        found, size = self._read(request.key, request.digest)
        if found.iteration != request.iteration:
            words = f"{request.key} is of iteration {found.iteration}; expected {request.iteration}"
            raise Refused("EXPERIENCE_REFUSED", words)
        told = found.summary()
        body: dict[str, JsonValue] = {
            "blob": request.key,
            "bytes_digest": request.digest,
            "iteration": found.iteration,
            "policy": found.policy,
            "rollouts": len(found.rollouts),
            "step": found.step,
        }
        manifest = Manifest(Kind.EXPERIENCE, body, (request.job,), version.producer("sampling"))
        result = publish(self._host.blobs, "sampling", manifest, data_bytes=size)
        job = request.job.removeprefix("jobs/")
        made = Experience(
            name=experience_name(job, request.line, found.iteration),
            state=EXPERIENCE_STATE_STORED,
            job=request.job,
            checkpoint=request.checkpoint,
            iteration=found.iteration,
            step=found.step,
            policy=found.policy,
            result=result,
            rollouts=len(found.rollouts),
            reward_mean=told["reward_mean"],
            kl=told["kl"],
            answer_tokens=told["answer_tokens"],
            groups_dropped=int(told["groups_dropped"]),
        )
        fact = ExperienceCommitted(
            experience=made.name,
            job=request.job,
            line=request.line,
            iteration=found.iteration,
            step=found.step,
            policy=found.policy,
            digest=request.digest,
            rollouts=len(found.rollouts),
            tokens=sum(len(each.tokens) for each in found.rollouts),
        )

        def record(unit: Unit) -> Experience:
            recorded = self.resource.create(unit, made, request)
            if unit.wrote(recorded.name):
                unit.fact(recorded.name, fact)
            for iteration in range(found.iteration - self._keep, -1, -1) if self._keep and not sealed else ():
                if not self._give_up(unit, experience_name(job, request.line, iteration)):
                    break
            return recorded

        return self._host.units.run(record)

    def _admit(self, request: ReportExperienceRequest, call: Call) -> bool:
        """Return true if the epoch is sealed. Raises PermissionDenied unless the reporting node stored the blob, held a
        rank of the epoch, and the epoch made the iteration.

        An agent of an earlier version names neither; its node is that of the key, its epoch the open one.
        """
        folder = f"{STORED}{request.job.removeprefix('jobs/')}/{request.line}/{request.iteration}/"
        name, _, of_key = request.key.removeprefix(folder).partition(OF_NODE)
        node = request.node or f"nodes/{of_key}"
        if request.key != f"{folder}{name}{OF_NODE}{node.removeprefix('nodes/')}" or "/" in name:
            raise InvalidField(
                "key", seen=request.key, expected=f"{folder}DIGEST{OF_NODE}NODE, of the node that reports"
            )
        call.require_node(node)
        holder = CheckHolderRequest(
            job=request.job, epoch=request.epoch, node=node, line=request.line, iteration=request.iteration
        )
        return self._committer.CheckHolder(holder).sealed

    def ReadExperience(self, request: ReadExperienceRequest, call: Call) -> ReadExperienceResponse:
        known = crud.get(self._host.units, self.resource, GetRequest(name=request.name), call.principal)
        if request.order not in (0, *ORDERS):
            raise InvalidField("order", seen=request.order, expected="one of RolloutOrder")
        return ReadExperienceResponse(rollouts=self.rollouts(known, request.order, min(request.count or SHOWN, MOST)))

    def rollouts(self, known: Experience, order: int, count: int) -> list[Rollout]:
        """Return the first rollouts of an iteration in an order. Raises Refused where they cannot be read."""
        if known.state == EXPERIENCE_STATE_PRUNED:
            raise Refused("EXPERIENCE_PRUNED", f"the rollouts of {known.name} were removed by the retention policy")
        found, _ = self._read(*self._blob(known))
        key = ORDERS.get(order, _by_number)
        ordered = sorted(found.rollouts, key=lambda each: (key(each), each.number))
        return [_shown(found, each) for each in ordered[:count]]

    def _read(self, key: str, digest: str) -> tuple[files.Experience, int]:
        """The experience of a blob, and the bytes that it has. Raises Refused."""
        try:
            data = self._host.blobs.get(key)
            return files.Experience.decode(data, expected=digest), len(data)
        except BlobMissing as error:
            raise Refused("EXPERIENCE_REFUSED", f"{key} is not in the store; put it before telling of it") from error
        except CorpusError as error:
            raise Refused("EXPERIENCE_REFUSED", f"{key}: {error}") from error

    def _blob(self, known: Experience) -> tuple[str, str]:
        """The key of the rollouts and the digest of their bytes. Raises Refused."""
        try:
            artefact = known.result
            manifest = fetching.manifest(
                self._host.blobs, artefact.manifest_key, artefact.content_digest, Kind.EXPERIENCE
            )
        except WorkFailed as error:
            raise Refused("EXPERIENCE_REFUSED", f"{known.name}: {error.reason}") from error
        fields = Fields(manifest.body, path="body", error=CorpusError)
        return fields.text("blob"), fields.digest("bytes_digest")

    def _give_up(self, unit: Unit, name: str) -> bool:
        """True if the experience existed and is to be removed now."""
        found = self.resource.find(unit, name)
        if found is None or found.state != EXPERIENCE_STATE_STORED:
            return False
        known = self.resource.lock(unit, name)
        known.state = EXPERIENCE_STATE_PRUNED
        self.resource.put(unit, known)
        unit.enqueue(TASK, name, id=f"{name}/prune")
        return True

    def _prune(self, context: TaskContext) -> Finish:
        known = self._host.units.run(lambda unit: self.resource.get(unit, context.task.resource))
        self._host.blobs.delete(self._blob(known)[0])
        return lambda unit: None

    def _not_pruned(self, unit: Unit, task: Task, reason: str) -> None:
        """The blob stays: nothing reads it any more."""


def _by_number(rollout: files.Rollout) -> float:
    return rollout.number


def _shown(found: files.Experience, rollout: files.Rollout) -> Rollout:
    prompt = found.prompts[rollout.prompt]
    return Rollout(
        number=rollout.number,
        prompt=as_lines(prompt.messages),
        text=rollout.text,
        tokens=len(rollout.tokens),
        stop=rollout.stop,
        reward=rollout.reward,
        advantage=rollout.advantage,
        kl=rollout.kl,
        kept=rollout.kept,
    )
