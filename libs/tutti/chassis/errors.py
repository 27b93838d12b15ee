"""Problems: what a method, a client or a task may raise, and how each travels as a gRPC status.

Promises: every Problem has a code and an UPPER_SNAKE reason of the catalogue; a client raises the class that the server
raised; what is transient says so.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from tutti.backbone.blobs import BlobsUnavailable, StoreFull
from tutti.backbone.database import Contention, DatabaseDamaged, DatabaseUnavailable, StorageFull
from tutti.backbone.eventlog import LogUnavailable

DOMAIN = "tutti"


class Problem(Exception):
    """`code` is the name of a gRPC status code."""

    code: ClassVar[str] = "INTERNAL"
    default_reason: ClassVar[str] = "INTERNAL"
    transient: ClassVar[bool] = False

    def __init__(self, message: str, *, reason: str = "", metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.metadata: dict[str, str] = dict(metadata or {})


class InvalidField(Problem):
    code = "INVALID_ARGUMENT"
    default_reason = "INVALID_FIELD"

    def __init__(self, field: str, *, seen: object, expected: str) -> None:
        super().__init__(
            f"{field}: expected {expected}, got {_short(seen)}",
            metadata={"field": field, "seen": _short(seen), "expected": expected},
        )
        self.field = field


class NotFound(Problem):
    code = "NOT_FOUND"
    default_reason = "NOT_FOUND"

    def __init__(self, name: str, *, nearest: Sequence[str] = ()) -> None:
        """`nearest`: similar names that exist."""
        near = f"; the nearest {'is' if len(nearest) == 1 else 'are'} {', '.join(nearest)}" if nearest else ""
        super().__init__(f"{name} does not exist{near}", metadata={"name": name})
        self.name = name


class AlreadyExists(Problem):
    """`ours` and `theirs` are the digests of the recorded and of the offered body."""

    code = "ALREADY_EXISTS"
    default_reason = "ALREADY_EXISTS"

    def __init__(self, name: str, *, ours: str, theirs: str) -> None:
        super().__init__(
            f"{name} exists with another body: recorded {ours}, offered {theirs}; "
            f"choose another name and request_id, or send the same body",
            metadata={"name": name, "ours": ours, "theirs": theirs},
        )
        self.name, self.ours, self.theirs = name, ours, theirs


class Refused(Problem):
    """The state of the system forbids it."""

    code = "FAILED_PRECONDITION"
    default_reason = "REFUSED"

    def __init__(self, reason: str, message: str, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message, reason=reason, metadata=metadata)


class StaleEpoch(Problem):
    code = "ABORTED"
    default_reason = "STALE_EPOCH"


class FencedOff(StaleEpoch):
    """A lease or a claim was lost to another holder; nothing of this transaction was written."""

    default_reason = "FENCED_OFF"


class PermissionDenied(Problem):
    code = "PERMISSION_DENIED"
    default_reason = "PERMISSION_DENIED"


class Unauthenticated(Problem):
    code = "UNAUTHENTICATED"
    default_reason = "UNAUTHENTICATED"


class TooLarge(Problem):
    code = "RESOURCE_EXHAUSTED"
    default_reason = "TOO_LARGE"


class Cancelled(Problem):
    code = "CANCELLED"
    default_reason = "CANCELLED"


class Unimplemented(Problem):
    code = "UNIMPLEMENTED"
    default_reason = "UNIMPLEMENTED"


class Unavailable(Problem):
    code = "UNAVAILABLE"
    default_reason = "UNAVAILABLE"
    transient = True


class DeadlineExceeded(Problem):
    code = "DEADLINE_EXCEEDED"
    default_reason = "DEADLINE_EXCEEDED"
    transient = True


class Internal(Problem):
    """A defect of ours."""


class CorruptRow(Problem):
    """A row no longer has the digest that it was written with."""

    code = "DATA_LOSS"
    default_reason = "CORRUPT_ROW"


class CorruptDatabase(Problem):
    """A database cannot read what it stored: a page of it is damaged."""

    code = "DATA_LOSS"
    default_reason = "CORRUPT_DATABASE"


class EmitRefused(Internal):
    """An event that its unit may not emit: a defect of the service."""

    default_reason = "EMIT_REFUSED"


class StaleWrite(Internal):
    """A put of a resource that this unit has not locked, or of an older copy: a defect of the service."""

    default_reason = "STALE_WRITE"


# reason -> what it means; a service adds its own reasons for `Refused` with `declare`.
CATALOGUE: dict[str, str] = {
    "INTERNAL": "a defect in Tutti; the log of the service has the traceback with the same trace id",
    "INVALID_FIELD": "a field of the request is wrong; BadRequest names it",
    "NOT_FOUND": "no resource has this name",
    "ALREADY_EXISTS": "the name or the request_id was used with another body; the message has both digests",
    "REFUSED": "the state of the resource forbids it",
    "STALE_EPOCH": "a newer epoch was opened; stop what belongs to the old one",
    "FENCED_OFF": "a lease was lost to another holder; nothing was written",
    "PERMISSION_DENIED": "the caller's role may not call this method",
    "UNAUTHENTICATED": "the token is missing or wrong",
    "TOO_LARGE": "the message is larger than accepted; send data by blob",
    "CANCELLED": "the work was cancelled",
    "UNIMPLEMENTED": "no service at this address has this method",
    "UNAVAILABLE": "the service or a store that it needs cannot be reached; try again",
    "DEADLINE_EXCEEDED": "no answer in time; the call may have had its effect, so repeat it with the same request_id",
    "CORRUPT_DATABASE": "a page of a database was damaged; restore it from a backup",
    "CORRUPT_ROW": "a stored row was damaged; restore it from a backup",
    "NOT_DONE": "the result does not exist: its work waits, runs, failed or was cancelled",
    "RESULT_GONE": "a stored result is missing or damaged; make it again",
    "EMIT_REFUSED": "a service emitted an event that it must not emit (a defect)",
    "STALE_WRITE": "a service wrote a resource that it had not locked (a defect)",
    "STILL_POISON": "the handler could not process the event again; its dead letter says why",
}


def declare(reasons: Mapping[str, str], *, code: str = Refused.code) -> None:
    """Add a service's own reasons to the catalogue, with their gRPC code.

    Raises ValueError for a reason with another meaning.
    """
    for reason, meaning in reasons.items():
        if CATALOGUE.setdefault(reason, meaning) != meaning:
            raise ValueError(f"the reason {reason} means {CATALOGUE[reason]!r} already, not {meaning!r}")
        _CODES.setdefault(reason, code)


def class_of(reason: str) -> type[Problem]:
    """Return the class that a client raises for a reason of the catalogue."""
    return _class(code_of(reason), reason)


def code_of(reason: str) -> str:
    """Return the gRPC code of a reason; empty for one that is not in the catalogue."""
    return _CODES.get(reason, Refused.code) if reason in CATALOGUE else ""


_CLASSES: tuple[type[Problem], ...] = (
    InvalidField,
    NotFound,
    AlreadyExists,
    Refused,
    FencedOff,
    StaleEpoch,
    PermissionDenied,
    Unauthenticated,
    TooLarge,
    Cancelled,
    Unimplemented,
    Unavailable,
    DeadlineExceeded,
    CorruptRow,
    CorruptDatabase,
    EmitRefused,
    StaleWrite,
    Internal,
)


def _class(code: str, reason: str) -> type[Problem]:
    """The class of a reason, else the general one of a gRPC code."""
    found = [each for each in _CLASSES if each.code == code]
    special = next((each for each in found if each.default_reason == reason), None)
    return special or next((each for each in found if each not in (FencedOff, EmitRefused, StaleWrite)), Internal)


_CODES: dict[str, str] = {each.default_reason: each.code for each in _CLASSES}


_TRANSIENT = (BlobsUnavailable, StoreFull, Contention, DatabaseUnavailable, StorageFull, LogUnavailable)


def is_transient(error: BaseException) -> bool:
    """True if the same call may succeed later: a store or service could not be reached, or was full."""
    return isinstance(error, _TRANSIENT) or (isinstance(error, Problem) and error.transient)


def problem_of(error: Exception) -> Problem:
    """The problem to report for an error: itself, Unavailable when it is transient, CorruptDatabase when a page is
    damaged, else Internal without details.
    """
    if isinstance(error, Problem):
        return error
    if is_transient(error):
        return Unavailable(str(error))
    if isinstance(error, DatabaseDamaged):
        return CorruptDatabase(str(error))
    return Internal(f"{type(error).__name__} in the service; its log has the traceback")


def to_status(problem: Problem) -> Status:
    """The gRPC status with ErrorInfo, and BadRequest for a field."""
    status = Status(code=code_pb2.Code.Value(problem.code), message=problem.message)
    _attach(status, ErrorInfo(reason=problem.reason, domain=DOMAIN, metadata=problem.metadata))
    if isinstance(problem, InvalidField):
        violation = BadRequest.FieldViolation(field=problem.field, description=problem.message)
        _attach(status, BadRequest(field_violations=[violation]))
    return status


def from_status(status: Status) -> Problem:
    """The problem that a status stands for; one that is not ours becomes the class of its code."""
    info = ErrorInfo()
    for detail in status.details:
        detail.Unpack(info)  # leaves it empty when the detail is another
    code = code_pb2.Code.Name(status.code) if status.code in code_pb2.Code.values() else "UNKNOWN"
    found = _class(code, info.reason)
    problem = found.__new__(found)
    Problem.__init__(problem, status.message, reason=info.reason, metadata=info.metadata)
    for attribute in ("field", "name", "ours", "theirs"):
        if attribute in _ATTRIBUTES.get(found, ()):
            setattr(problem, attribute, info.metadata.get(attribute, ""))
    return problem


_ATTRIBUTES: dict[type[Problem], tuple[str, ...]] = {
    InvalidField: ("field",),
    NotFound: ("name",),
    AlreadyExists: ("name", "ours", "theirs"),
}


def _attach(status: Status, detail: ErrorInfo | BadRequest) -> None:
    packed = AnyMessage()
    packed.Pack(detail)
    status.details.append(packed)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
