"""The calls that dedup answers."""

from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.runtime.cluster import require_engine
from tutti.chassis.work.work import Work
from tutti.contracts.dedup.v1 import CreateDedupRequest, CreateDedupResponse, Dedup, Lines
from tutti.dedup.lines import LineLimits
from tutti.dedup.near import LEAST
from tutti.dedup.onray import lacking
from tutti.dedup.settings import DedupSettings
from tutti.dedup.units import Unit

C4 = "c4"


def wanted(lines: Lines) -> LineLimits:
    """The limits for cutting. Raises InvalidField."""
    if lines.unit not in list(Unit):
        raise InvalidField("spec.lines.unit", seen=lines.unit or "nothing", expected=f"one of {', '.join(Unit)}")
    for field in ("most", "least_characters", "left"):
        if not getattr(lines, field):
            raise InvalidField(f"spec.lines.{field}", seen=0, expected="at least 1")
    if lines.keep > lines.most:
        raise InvalidField("spec.lines.keep", seen=lines.keep, expected=f"at most spec.lines.most ({lines.most})")
    return LineLimits(Unit(lines.unit), lines.most, lines.keep, lines.least_characters, lines.left)


class DedupApi:
    def __init__(self, work: Work[Dedup], settings: DedupSettings) -> None:
        self._work, self._settings = work, settings

    def CreateDedup(self, request: CreateDedupRequest, call: Call) -> CreateDedupResponse:
        required(request, "spec.manifest_key", "spec.content_digest")
        near = request.spec.near
        if near != 0 and not LEAST <= near <= 1:
            expected = f"0 for none, or a similarity from {LEAST} to 1: of what is less alike, too few are found"
            raise InvalidField("spec.near", seen=near, expected=expected)
        if not 0 <= request.spec.evaluation_share < 1:
            raise InvalidField("spec.evaluation_share", seen=request.spec.evaluation_share, expected="a share below 1")
        require_engine(request.spec.engine, lambda: lacking(self._settings))
        if request.spec.clean not in ("", C4):
            raise InvalidField("spec.clean", seen=request.spec.clean, expected=f"{C4}, or nothing")
        if request.spec.HasField("lines"):
            wanted(request.spec.lines)
        return CreateDedupResponse(dedup=self._work.create(request))
