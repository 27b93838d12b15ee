"""The calls that dedup answers."""

from tutti.chassis.call import Call
from tutti.chassis.errors import InvalidField
from tutti.chassis.required import required
from tutti.chassis.work import Work
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest
from tutti.contracts.dedup.v1 import CreateDedupRequest, CreateDedupResponse, Dedup, ListDedupsResponse
from tutti.dedup.onray import lacking
from tutti.dedup.settings import DedupSettings

LOCAL, RAY = "local", "ray"
ALONE = "a cluster compares a run's own documents, not earlier datasets or evaluation texts"


class DedupApi:
    def __init__(self, work: Work[Dedup], settings: DedupSettings) -> None:
        self._work, self._settings = work, settings

    def CreateDedup(self, request: CreateDedupRequest, call: Call) -> CreateDedupResponse:
        required(request, "spec.manifest_key", "spec.content_digest")
        if not 0 <= request.spec.near <= 1:
            raise InvalidField("spec.near", seen=request.spec.near, expected="a similarity up to 1, or 0 for none")
        if not 0 <= request.spec.evaluation_share < 1:
            raise InvalidField("spec.evaluation_share", seen=request.spec.evaluation_share, expected="a share below 1")
        if request.spec.engine not in ("", LOCAL, RAY):
            raise InvalidField("spec.engine", seen=request.spec.engine, expected=f"{LOCAL} or {RAY}")
        if request.spec.engine == RAY and (lacks := lacking(self._settings)):
            raise InvalidField("spec.engine", seen=RAY, expected=f"{LOCAL}, since {lacks}")
        if request.spec.engine == RAY and (request.spec.against or request.spec.HasField("evaluation")):
            raise InvalidField("spec.engine", seen=RAY, expected=f"{LOCAL}, since {ALONE}")
        return CreateDedupResponse(dedup=self._work.create(request))

    def GetDedup(self, request: GetRequest, call: Call) -> Dedup:
        return self._work.get(request)

    def ListDedups(self, request: ListRequest, call: Call) -> ListDedupsResponse:
        return self._work.page(request, ListDedupsResponse)

    def CancelDedup(self, request: CancelRequest, call: Call) -> Dedup:
        return self._work.cancel(request)
