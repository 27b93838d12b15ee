"""The calls that ingest answers."""

from collections.abc import Callable

from tutti.backbone import Blobs
from tutti.chassis.errors import DeadlineExceeded, InvalidField
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.work.work import Work
from tutti.contracts.ingest.v1 import (
    Crawl,
    CreateClassifierRequest,
    CreateClassifierResponse,
    CreateFilterRequest,
    CreateFilterResponse,
    CreateIngestRequest,
    CreateIngestResponse,
    CreateRetractionRequest,
    CreateRetractionResponse,
    DigestInputRequest,
    DigestInputResponse,
    Filter,
    FilterSpec,
    FindRetractedRequest,
    FindRetractedResponse,
    Ingest,
    IngestSpec,
    InputSample,
    Retraction,
    SampledRejections,
    WithdrawRetractionRequest,
)
from tutti.ingest.classifiers import ClassifierApi, rules_of
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.crawls import CrawlApi
from tutti.ingest.ingests import MOST_DETAIL, NAMED_FILES, told
from tutti.ingest.paths import Paths
from tutti.ingest.quality import choosing
from tutti.ingest.quality.rules import UnknownRule
from tutti.ingest.reading import sampled, shards
from tutti.ingest.reading.readers import InputRootError
from tutti.ingest.retractions import Retractions
from tutti.platform.pool import PoolCancelled, run_within


def choice_of(spec: FilterSpec, blobs: Blobs) -> choosing.Choice:
    """The choice of a spec; the rules of classifiers are read from these blobs. Raises InvalidField."""
    thresholds = {each.rule: each.value for each in spec.thresholds}
    try:
        return choosing.choice(spec.rule_sets, thresholds, spec.languages, rules_of(blobs, spec.classifiers))
    except choosing.UnknownRuleSet as error:
        raise InvalidField("spec.rule_sets", seen=", ".join(spec.rule_sets), expected=str(error)) from error
    except choosing.UnknownLanguage as error:
        raise InvalidField("spec.languages", seen=", ".join(spec.languages), expected=str(error)) from error
    except UnknownRule as error:
        raise InvalidField("spec.thresholds", seen=", ".join(thresholds), expected=str(error)) from error


def _sample(found: sampled.Sample) -> InputSample:
    return InputSample(
        documents=found.documents,
        rejections=[
            SampledRejections(reason=first.reason, records=count, path=first.path, detail=first.detail[:MOST_DETAIL])
            for count, first in found.rejections
        ],
        complete=found.complete,
        dropped=map(told, found.dropped[:NAMED_FILES]),
        unread_files=found.unread,
    )


class IngestApi(CrawlApi):
    def __init__(
        self,
        host: Host,
        crawls: Work[Crawl],
        frontier: Frontier,
        work: Work[Ingest],
        filters: Work[Filter],
        retractions: Retractions,
        paths: Paths,
        reading: Callable[[IngestSpec, Principal], shards.Reading],
        classifiers: ClassifierApi,
    ) -> None:
        super().__init__(host, crawls, frontier, paths)
        self._classifiers = classifiers
        self._work, self._filters, self._retractions, self._reading = work, filters, retractions, reading

    def CreateIngest(self, request: CreateIngestRequest, call: Call) -> CreateIngestResponse:
        self._reading(request.spec, call.principal)
        shown = IngestSpec()
        shown.CopyFrom(request.spec)
        shown.ClearField("input_path")
        made = self._work.create(
            request,
            shown=shown,
            keep=lambda unit: self._paths.keep(unit, request.name, request.spec.input_path),
        )
        return CreateIngestResponse(ingest=made)

    def CreateFilter(self, request: CreateFilterRequest, call: Call) -> CreateFilterResponse:
        required(request, "spec.manifest_key", "spec.content_digest")
        made = self._filters.create(request, check=lambda: choice_of(request.spec, self._host.blobs))
        return CreateFilterResponse(filter=made)

    def CreateRetraction(self, request: CreateRetractionRequest, call: Call) -> CreateRetractionResponse:
        return self._retractions.create(request, call)

    def WithdrawRetraction(self, request: WithdrawRetractionRequest, call: Call) -> Retraction:
        return self._retractions.withdraw(request)

    def FindRetracted(self, request: FindRetractedRequest, call: Call) -> FindRetractedResponse:
        return self._retractions.find(request, call)

    def CreateClassifier(self, request: CreateClassifierRequest, call: Call) -> CreateClassifierResponse:
        return self._classifiers.create(request, call)

    def DigestInput(self, request: DigestInputRequest, call: Call) -> DigestInputResponse:
        try:
            seen, sample = self._survey(request, call)
        except InputRootError as error:
            raise InvalidField(
                "input.path",
                seen=request.spec.input_path,
                expected=f"{error.expected} ({error.reason})",
            ) from error
        return DigestInputResponse(
            input_digest=seen.input_digest,
            files=seen.files,
            bytes=seen.bytes,
            logic_version=shards.LOGIC_VERSION,
            sample=_sample(sample) if sample else None,
        )

    def _survey(self, request: DigestInputRequest, call: Call) -> tuple[shards.Survey, sampled.Sample | None]:
        """Read the folder in another process, for as long as the caller waits. Raises DeadlineExceeded."""
        asked = self._reading(request.spec, call.principal), request.files, request.sample
        seconds = call.deadline_seconds
        try:
            return run_within(self._host.pool, self._host.clock, seconds, sampled.surveyed, *asked)
        except PoolCancelled as late:
            raise DeadlineExceeded(f"the pages were not read within {seconds:.0f} s; wait longer") from late
