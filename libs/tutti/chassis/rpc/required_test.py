"""What a request must hold, and must not."""

import pytest

from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.required import check_values, required
from tutti.contracts.annotation.v1 import CampaignSpec, CreateCampaignRequest
from tutti.contracts.lineage.v1 import DIRECTION_UP, TraceRequest


def test_an_enum_that_is_not_set_is_missing_and_its_values_are_named() -> None:
    required(TraceRequest(name="jobs/x", direction=DIRECTION_UP), "name", "direction")
    with pytest.raises(InvalidField, match="direction: expected DIRECTION_UP or DIRECTION_DOWN; set direction"):
        required(TraceRequest(name="jobs/x"), "name", "direction")
    with pytest.raises(InvalidField, match=r"spec\.crowd: expected CROWD_PEOPLE or"):
        required(CreateCampaignRequest(spec=CampaignSpec()), "spec.crowd")


def test_a_number_that_an_enum_does_not_have_is_refused() -> None:
    check_values(TraceRequest(name="jobs/x", direction=DIRECTION_UP))
    unknown = TraceRequest.FromString(b"\x10\x07")
    with pytest.raises(InvalidField, match="direction: expected DIRECTION_UP or DIRECTION_DOWN, got 7"):
        check_values(unknown)
