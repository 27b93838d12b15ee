"""The calls that dedup answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.backbone.blobs import BadKey, check_key
from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.runtime.cluster import require_engine
from tutti.chassis.service import Host
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work import linefiles, staging
from tutti.chassis.work.work import Work
from tutti.contracts.dedup.v1 import (
    CreateDedupRequest,
    CreateDedupResponse,
    Dedup,
    FindContaminatedRequest,
    FindContaminatedResponse,
    Lines,
)
from tutti.corpus.conversations import Conversation, from_lines
from tutti.corpus.manifest import Kind
from tutti.dedup.settings import DedupSettings
from tutti.native.deferred import deferred
from tutti.records.errors import CorpusError

if TYPE_CHECKING:
    from tutti.dedup import contamination, heldout, near, onray, units
    from tutti.dedup import lines as cut
else:  # with them come numpy and pyarrow
    contamination, heldout, near, onray, units, cut = (
        deferred(f"tutti.dedup.{name}") for name in ("contamination", "heldout", "near", "onray", "units", "lines")
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
        least, similarity = near.LEAST, request.spec.near
        if similarity != 0 and not least <= similarity <= 1:
            expected = f"0 for none, or a similarity from {least} to 1: of what is less alike, too few are found"
            raise InvalidField("spec.near", seen=similarity, expected=expected)
        if not 0 <= request.spec.evaluation_share < 1:
            raise InvalidField("spec.evaluation_share", seen=request.spec.evaluation_share, expected="a share below 1")
        require_engine(request.spec.engine, lambda: onray.lacking(self._settings))
        if request.spec.clean not in ("", C4):
            raise InvalidField("spec.clean", seen=request.spec.clean, expected=f"{C4}, or nothing")
        if request.spec.HasField("lines"):
            wanted(request.spec.lines)
        return CreateDedupResponse(dedup=self._work.create(request))

    def FindContaminated(self, request: FindContaminatedRequest, call: Call) -> FindContaminatedResponse:
        required(request, "blob", "held_out.manifest_key", "held_out.content_digest")
        blobs, held_out = self._host.blobs, request.held_out
        for field, key in (("blob", request.blob), ("held_out.manifest_key", held_out.manifest_key)):
            try:
                check_key(key)
            except BadKey as error:
                raise InvalidField(field, seen=key, expected="the key of a blob") from error
        try:
            manifest = staging.manifest(blobs, held_out.manifest_key, held_out.content_digest, Kind.CONVERSATIONS)
            others = [
                each for each in linefiles.read(blobs, manifest, Conversation) if held_out.part in ("", each.part)
            ]
            asked = list(from_lines(Conversation, staging.small(blobs, request.blob)))
            found = self._host.pool.run(heldout.contaminated, asked, others)
        except (WorkFailed, CorpusError, contamination.TooManyTexts) as error:
            raise Refused(UNREADABLE, str(error)) from error
        return FindContaminatedResponse(digests=found)
