"""The verdict of the doctor."""

from tutti.chassis.rpc.verdict import examined
from tutti.contracts.admin.v1 import DoctorResponse

WELL = DoctorResponse.Finding(service="ingest", check="health", ok=True)
BAD = [DoctorResponse.Finding(service="scheduler", check=check, message="no agent") for check in ("queue", "nodes")]


def test_the_first_finding_that_needs_attention_is_the_verdict() -> None:
    assert (examined([WELL]).ok, examined([WELL]).verdict) == (True, "all is well: 1 checks")
    found = examined([WELL, *BAD])
    assert (found.ok, list(found.findings)) == (False, [WELL, *BAD])
    assert found.verdict == "2 of 3 checks need attention, the first one: scheduler: queue: no agent"
    assert examined([WELL, BAD[1]]).verdict == "1 of 2 checks needs attention: scheduler: nodes: no agent"
