"""The retractions that affect earlier results, as ingest knows them today."""

from dataclasses import replace

from tutti.chassis.service import Host
from tutti.contracts.ingest.v1 import FindRetractedRequest
from tutti.contracts.ingest.v1.stubs import IngestServiceStub
from tutti.pipeline.recipes.values import Result

SEEK_SECONDS = 60.0  # to look for retracted documents of a result, once; what was looked at by then is remembered


def with_retracted(host: Host, result: Result) -> Result:
    """The result of an ingest or a dedup, with the list of its documents that are retracted now. Raises Problem."""
    request = FindRetractedRequest(manifest_key=result.manifest_key, content_digest=result.content_digest)
    ingest = IngestServiceStub(host.channel("ingest"))
    return replace(result, retracted=ingest.FindRetracted(request, timeout=SEEK_SECONDS).retracted_key)
