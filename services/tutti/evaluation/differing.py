"""Pairs of a comparison on which the reward model and those who judged differ most, with their texts."""

from tutti.chassis.errors import Refused, declare
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work.work import Work, require_done
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.evaluation.v1 import (
    Comparison,
    DifferingPair,
    ReadComparisonRequest,
    ReadComparisonResponse,
)
from tutti.corpus.conversations.conversations import as_lines, prompt_digest
from tutti.evaluation.comparing import Differing, Pair, paired
from tutti.evaluation.comparison import MOST_DIFFERING, answers_of
from tutti.records.errors import InvalidManifest
from tutti.records.fields import Fields
from tutti.records.manifest import Kind
from tutti.staging import fetching

SHOWN = 10

declare({"NO_REWARD_MODEL": "the comparison has no reward model, so nothing can differ from its judgements"})


class DifferingPairs:
    """Serves ReadComparison."""

    def __init__(self, host: Host, work: Work[Comparison]) -> None:
        self._blobs, self._work = host.blobs, work

    def ReadComparison(self, request: ReadComparisonRequest, call: Call) -> ReadComparisonResponse:
        known = self._work.get(GetRequest(name=request.name), call.principal)
        require_done(known)
        if not known.spec.HasField("reward"):
            raise Refused("NO_REWARD_MODEL", f"{known.name} has no reward model; give the stage one as `reward`")
        result, spec = known.result, known.spec
        try:
            manifest = fetching.manifest(self._blobs, result.manifest_key, result.content_digest, Kind.COMPARISON)
            fields = Fields(manifest.body, path="body", error=InvalidManifest)
            pairs = paired(answers_of(self._blobs, spec.baseline), answers_of(self._blobs, spec.candidate))
        except WorkFailed as error:
            raise Refused("RESULT_GONE", f"{known.name}: {error.reason.partition(';')[0]}; compare again") from error
        if "differing" not in manifest.body:
            raise Refused("RESULT_GONE", f"{known.name} was made by an earlier version; compare again")
        by_key = {(prompt_digest(each.prompt), each.number): each for each in pairs}
        found = [Differing.read(each) for each in fields.objects("differing")]
        shown = found[: min(request.count or SHOWN, MOST_DIFFERING)]
        return ReadComparisonResponse(pairs=[_shown(by_key[each.prompt, each.number], each) for each in shown])


def _shown(pair: Pair, told: Differing) -> DifferingPair:
    return DifferingPair(
        prompt=as_lines(pair.prompt),
        baseline=pair.baseline.text,
        candidate=pair.candidate.text,
        promised=told.promised,
        judged=told.judged,
        judgements=told.judgements,
    )
