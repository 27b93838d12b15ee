"""The calls that chat answers, beside Get and List, which are derived."""

from tutti.chassis.errors import AlreadyExists, Refused
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.kinds import named
from tutti.chassis.rpc.required import limit_of
from tutti.chassis.service import Host
from tutti.chassis.store.bodies import content_digest
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import Reconciler
from tutti.chat import sizing
from tutti.chat.answers import Answers
from tutti.chat.filters import filter_of
from tutti.chat.standing import check
from tutti.chat.tables import Tables
from tutti.contracts.chat.v1 import (
    DEPLOYMENT_STATE_FAILED,
    DEPLOYMENT_STATE_READY,
    DEPLOYMENT_STATE_STARTING,
    DEPLOYMENT_STATE_STOPPED,
    DEPLOYMENT_STATE_STOPPING,
    CreateDeploymentRequest,
    CreateDeploymentResponse,
    Deployment,
    DeploymentSpec,
    ListReportsRequest,
    ListReportsResponse,
    StopDeploymentRequest,
    VerifyAnswerRequest,
    VerifyAnswerResponse,
)
from tutti.contracts.evaluation.v1 import STANDING_ACTIVE

REPORTS, MOST_REPORTS = 100, 1000
ENDED = (DEPLOYMENT_STATE_STOPPED, DEPLOYMENT_STATE_FAILED)


class ChatApi:
    def __init__(self, host: Host, tables: Tables, reconciler: Reconciler, answers: Answers) -> None:
        self._units, self._resource, self._reconciler = host.units, tables.deployments, reconciler
        self._reports = tables.reports
        self._answers, self._evaluation, self._blobs = answers, host.channel("evaluation"), host.blobs

    def CreateDeployment(self, request: CreateDeploymentRequest, call: Call) -> CreateDeploymentResponse:
        check(request.spec)
        sizing.check(request.spec)
        filter_of(request.spec.filter, self._blobs)
        name, release = check_name("deployments", request.name), self._released(request.spec)
        if request.validate_only:
            made = Deployment(name=name, spec=request.spec, state=DEPLOYMENT_STATE_STARTING)
            return CreateDeploymentResponse(deployment=made)

        def create(unit: Unit) -> Deployment:
            if self._resource.find(unit, name) is None:
                deployment = Deployment(name=name, spec=request.spec, state=DEPLOYMENT_STATE_STARTING, release=release)
                deployment.started_at.FromDatetime(unit.now)
                deployment = self._resource.create(unit, deployment)
            else:
                deployment = self._again(unit, request, release)
            unit.on_commit(lambda: self._reconciler.wake(name))
            return deployment

        return CreateDeploymentResponse(deployment=self._units.run(create))

    def _released(self, spec: DeploymentSpec) -> str:
        """The name of an active release of the checkpoint; empty for an experiment. Raises Refused without one."""
        if spec.experimental:
            return ""
        for page in named("releases").pages(self._evaluation, fields=("name", "standing", "checkpoint")):
            for each in page:
                if each.standing == STANDING_ACTIVE and each.checkpoint == spec.checkpoint:
                    return str(each.name)
        raise Refused(
            "NO_RELEASE",
            f"{spec.checkpoint} has no active release: serve one of `tutti releases ls`, or try it with --experimental",
        )

    def _again(self, unit: Unit, request: CreateDeploymentRequest, release: str) -> Deployment:
        """The deployment that exists, asked for again. Raises AlreadyExists where it is of another checkpoint."""
        deployment = self._resource.lock(unit, request.name)
        if deployment.spec.checkpoint != request.spec.checkpoint:
            ours, theirs = content_digest(deployment.spec), content_digest(request.spec)
            raise AlreadyExists(request.name, ours=ours, theirs=theirs)
        if deployment.state in (*ENDED, DEPLOYMENT_STATE_STOPPING):
            deployment.state, deployment.reason, deployment.restarts = DEPLOYMENT_STATE_STARTING, "", 0
            deployment.context = 0
            deployment.started_at.FromDatetime(unit.now)
            deployment.ClearField("ended_at")
            deployment.ClearField("stale_since")
        elif (
            deployment.spec.replicas < request.spec.replicas
            or deployment.spec.filter != request.spec.filter
            or sizing.asked(deployment.spec) != sizing.asked(request.spec)
        ):
            deployment.state = DEPLOYMENT_STATE_STARTING
        if sizing.asked(deployment.spec) != sizing.asked(request.spec):
            deployment.context = 0
        deployment.spec.CopyFrom(request.spec)
        if deployment.release != release:
            deployment.ClearField("sampling")
        deployment.release = release
        return self._resource.put(unit, deployment)

    def StopDeployment(self, request: StopDeploymentRequest, call: Call) -> Deployment:
        name = check_name("deployments", request.name)

        def stop(unit: Unit) -> Deployment:
            deployment = self._resource.lock(unit, name)
            if deployment.state in (DEPLOYMENT_STATE_STARTING, DEPLOYMENT_STATE_READY):
                deployment.state = DEPLOYMENT_STATE_STOPPING
            unit.on_commit(lambda: self._reconciler.wake(name))
            return self._resource.put(unit, deployment)

        return self._units.run(stop)

    def ListReports(self, request: ListReportsRequest, call: Call) -> ListReportsResponse:
        limit = limit_of(request, default=REPORTS, most=MOST_REPORTS)
        found = self._units.run(
            lambda unit: self._reports.newest(unit, call.principal, deployment=request.deployment, limit=limit)
        )
        answer = ListReportsResponse()
        for each in found:
            made = answer.reports.add(
                answer=each.answer,
                number=each.number,
                deployment=each.deployment,
                decision=each.decision,
                words=each.words,
                user=each.user,
            )
            made.reported_at.FromDatetime(each.reported_at)
        return answer

    def VerifyAnswer(self, request: VerifyAnswerRequest, call: Call) -> VerifyAnswerResponse:
        verdict = self._answers.verify(check_name("answers", request.name), call.principal, call.deadline_seconds)
        return VerifyAnswerResponse(
            equal=verdict.equal, differs=verdict.differs, bytes=verdict.bytes, signature=verdict.signature
        )
