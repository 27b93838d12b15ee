import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from tutti.backbone.blobs import BlobsUnavailable
from tutti.backbone.database import DatabaseDamaged, DatabaseUnavailable
from tutti.chassis import errors
from tutti.chassis.errors import (
    CATALOGUE,
    AlreadyExists,
    FencedOff,
    Internal,
    InvalidField,
    NotFound,
    Problem,
    Refused,
    StaleEpoch,
    Unavailable,
    code_of,
    from_status,
    is_transient,
    problem_of,
    to_status,
)
from tutti.chassis.rpc.call import OTHER_NODE

PROBLEMS = [
    InvalidField("spec.steps", seen=-1, expected="at least 1"),
    NotFound("jobs/a"),
    AlreadyExists("jobs/a", ours="blake3:1", theirs="blake3:2"),
    Refused("NOT_A_REASON_OF_OURS", "no"),
    FencedOff("gone"),
    StaleEpoch("epoch 3 is over"),
    *(kind("words") for kind in (errors.PermissionDenied, errors.Unauthenticated, errors.TooLarge, errors.Cancelled)),
    *(kind("words") for kind in (Unavailable, errors.DeadlineExceeded, Internal, errors.CorruptRow, errors.StaleWrite)),
    errors.CorruptDatabase("words"),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_a_client_raises_what_the_server_raised(problem: Problem) -> None:
    found = from_status(Status.FromString(to_status(problem).SerializeToString()))
    assert (type(found), found.message, found.reason, found.metadata) == (
        type(problem),
        problem.message,
        problem.reason,
        problem.metadata,
    )


def test_a_wrong_field_is_named_in_bad_request() -> None:
    status = to_status(PROBLEMS[0])
    details = [detail.TypeName() for detail in status.details]
    assert details == ["google.rpc.ErrorInfo", "google.rpc.BadRequest"]
    request = BadRequest()
    assert status.details[1].Unpack(request)
    assert request.field_violations[0].field == "spec.steps"


def test_both_digests_of_a_conflict_arrive() -> None:
    found = from_status(to_status(PROBLEMS[2]))
    assert isinstance(found, AlreadyExists)
    assert (found.name, found.ours, found.theirs) == ("jobs/a", "blake3:1", "blake3:2")


def test_a_status_that_is_not_ours_becomes_the_class_of_its_code() -> None:
    foreign = Any()
    foreign.Pack(ErrorInfo(reason="QUOTA", domain="cloud"))
    assert isinstance(from_status(Status(code=14, message="down", details=[foreign])), Unavailable)
    assert isinstance(from_status(Status(code=2, message="?")), Internal)


def test_an_outage_is_transient_and_a_defect_tells_no_details() -> None:
    for outage in (DatabaseUnavailable("db"), BlobsUnavailable("s3"), Unavailable("x")):
        assert is_transient(outage)
        assert isinstance(problem_of(outage), Unavailable)
    defect = problem_of(KeyError("a secret"))
    assert isinstance(defect, Internal)
    assert "secret" not in defect.message
    assert not is_transient(defect)


def test_a_damaged_page_is_named_to_the_caller_and_is_no_damaged_row() -> None:
    problem = problem_of(DatabaseDamaged("schema dedup: invalid page in block 0"))
    found = from_status(to_status(problem))
    assert isinstance(found, errors.CorruptDatabase)
    assert not isinstance(found, errors.CorruptRow)
    assert found.message == "schema dedup: invalid page in block 0"
    assert not is_transient(found)


def test_every_reason_has_a_meaning() -> None:
    reasons = {
        kind.default_reason for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Problem)
    }
    assert reasons <= set(CATALOGUE)


def test_a_reason_has_the_code_of_its_class_or_the_one_that_it_was_declared_with() -> None:
    assert [code_of(reason) for reason in ("NOT_FOUND", "STALE_EPOCH", "TOO_LARGE")] == [
        "NOT_FOUND",
        "ABORTED",
        "RESOURCE_EXHAUSTED",
    ]
    assert code_of("RESULT_GONE") == Refused.code
    assert code_of(OTHER_NODE) == errors.PermissionDenied.code
    assert code_of("NO_SUCH_REASON") == ""
