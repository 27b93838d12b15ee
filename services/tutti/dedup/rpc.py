"""The calls that dedup answers."""

from tutti.chassis.call import Call
from tutti.chassis.errors import InvalidField
from tutti.chassis.required import required
from tutti.chassis.work import Work
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest
from tutti.contracts.dedup.v1 import CreateDedupRequest, CreateDedupResponse, Dedup, ListDedupsResponse


class DedupApi:
    def __init__(self, work: Work[Dedup]) -> None:
        self._work = work

    def CreateDedup(self, request: CreateDedupRequest, call: Call) -> CreateDedupResponse:
        required(request, "spec.manifest_key", "spec.content_digest")
        if not 0 <= request.spec.near <= 1:
            raise InvalidField("spec.near", seen=request.spec.near, expected="a similarity up to 1, or 0 for none")
        if not 0 <= request.spec.evaluation_share < 1:
            raise InvalidField("spec.evaluation_share", seen=request.spec.evaluation_share, expected="a share below 1")
        return CreateDedupResponse(dedup=self._work.create(request))

    def GetDedup(self, request: GetRequest, call: Call) -> Dedup:
        return self._work.get(request)

    def ListDedups(self, request: ListRequest, call: Call) -> ListDedupsResponse:
        return self._work.page(request, ListDedupsResponse)

    def CancelDedup(self, request: CancelRequest, call: Call) -> Dedup:
        return self._work.cancel(request)
