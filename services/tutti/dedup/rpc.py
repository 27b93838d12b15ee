"""The calls that dedup answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.backbone.blobs import BadKey, check_key
from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work.work import Work
from tutti.contracts.dedup.v1 import (
    CreateDedupRequest,
    CreateDedupResponse,
    Dedup,
    FindContaminatedRequest,
    FindContaminatedResponse,
    FindNearDuplicatesRequest,
    FindNearDuplicatesResponse,
    Lines,
    NearDuplicate,
)
from tutti.corpus.conversations.conversations import Conversation, from_lines
from tutti.corpus.documents.duplicates import LEAST_SIMILARITY, THRESHOLDS, is_threshold
from tutti.dedup.settings import DedupSettings
from tutti.native.deferred import deferred
from tutti.platform.cluster import require_engine
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind
from tutti.staging import fetching, linefiles

if TYPE_CHECKING:
    from tutti.dedup import contamination, dialogues, heldout, onray, units
    from tutti.dedup import lines as cut
else:  # with them come numpy and pyarrow
    contamination, dialogues, heldout, onray, units, cut = (
        deferred(f"tutti.dedup.{name}") for name in ("contamination", "dialogues", "heldout", "onray", "units", "lines")
    )

C4, UNREADABLE = "c4", "CONVERSATIONS_UNREADABLE"
declare({UNREADABLE: "conversations, or those that are held out, are missing or damaged, or too large to compare"})


def wanted(lines: Lines) -> cut.LineLimits:
    """The limits for cutting. Raises InvalidField."""
    if lines.unit not in list(units.Unit):
        raise InvalidField("spec.lines.unit", seen=lines.unit or "nothing", expected=f"one of {', '.join(units.Unit)}")
    for field in ("most", "least_characters", "left"):
        if not getattr(lines, field):
            raise InvalidField(f"spec.lines.{field}", seen=0, expected="at least 1")
    if lines.keep > lines.most:
        raise InvalidField("spec.lines.keep", seen=lines.keep, expected=f"at most spec.lines.most ({lines.most})")
    return cut.LineLimits(units.Unit(lines.unit), lines.most, lines.keep, lines.least_characters, lines.left)


class DedupApi:
    def __init__(self, host: Host, work: Work[Dedup], settings: DedupSettings) -> None:
        self._host, self._work, self._settings = host, work, settings

    def CreateDedup(self, request: CreateDedupRequest, call: Call) -> CreateDedupResponse:
        required(request, "spec.manifest_key", "spec.content_digest")
        if not is_threshold(request.spec.near):
            raise InvalidField("spec.near", seen=request.spec.near, expected=THRESHOLDS)
        if not 0 <= request.spec.evaluation_share < 1:
            raise InvalidField("spec.evaluation_share", seen=request.spec.evaluation_share, expected="a share below 1")
        if request.spec.clean not in ("", C4):
            raise InvalidField("spec.clean", seen=request.spec.clean, expected=f"{C4}, or nothing")
        if request.spec.HasField("lines"):
            wanted(request.spec.lines)
        engine = request.spec.engine
        made = self._work.create(request, check=lambda: require_engine(engine, lambda: onray.lacking(self._settings)))
        return CreateDedupResponse(dedup=made)

    def FindContaminated(self, request: FindContaminatedRequest, call: Call) -> FindContaminatedResponse:
        required(request, "blob", "held_out.manifest_key", "held_out.content_digest")
        blobs, held_out = self._host.blobs, request.held_out
        _require_key("blob", request.blob)
        _require_key("held_out.manifest_key", held_out.manifest_key)
        try:
            manifest = fetching.manifest(blobs, held_out.manifest_key, held_out.content_digest, Kind.CONVERSATIONS)
            others = [
                each for each in linefiles.read(blobs, manifest, Conversation) if held_out.part in ("", each.part)
            ]
            asked = list(from_lines(Conversation, fetching.small(blobs, request.blob)))
            found = self._host.pool.run(heldout.contaminated, asked, others)
        except (WorkFailed, CorpusError, contamination.TooManyTexts) as error:
            raise Refused(UNREADABLE, str(error)) from error
        return FindContaminatedResponse(digests=found)

    def FindNearDuplicates(self, request: FindNearDuplicatesRequest, call: Call) -> FindNearDuplicatesResponse:
        required(request, "blob")
        _require_key("blob", request.blob)
        if not request.near or not is_threshold(request.near):
            raise InvalidField("near", seen=request.near, expected=f"a similarity from {LEAST_SIMILARITY} to 1")
        try:
            conversations = list(from_lines(Conversation, fetching.small(self._host.blobs, request.blob)))
        except (WorkFailed, CorpusError) as error:
            raise Refused(UNREADABLE, str(error)) from error
        found = self._host.pool.run(dialogues.repeated, conversations, request.near)
        return FindNearDuplicatesResponse(
            duplicates=[NearDuplicate(digest=each.digest, of=each.of, similarity=each.similarity) for each in found]
        )


def _require_key(field: str, key: str) -> None:
    try:
        check_key(key)
    except BadKey as error:
        raise InvalidField(field, seen=key, expected="the key of a blob") from error
