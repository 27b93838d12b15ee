"""How long a deployment serves by the standing of its release."""

from datetime import UTC, datetime, timedelta

import pytest

from tutti.chat.releases import STALE, withdrawn
from tutti.contracts.chat.v1 import Deployment
from tutti.contracts.evaluation.v1 import STANDING_ACTIVE, STANDING_REVOKED, STANDING_STALE, Standing

NOW = datetime(2026, 11, 29, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("standing", "stale_for", "word"),
    [
        (STANDING_ACTIVE, None, ""),
        (STANDING_STALE, None, ""),
        (STANDING_STALE, STALE - SECOND, ""),
        (STANDING_STALE, STALE, "stale"),
        (STANDING_REVOKED, None, "revoked"),
        (STANDING_ACTIVE, STALE, ""),
    ],
)
def test_a_stale_release_serves_a_day_and_a_revoked_one_no_longer(
    standing: "Standing.ValueType", stale_for: timedelta | None, word: str
) -> None:
    deployment = Deployment(release="releases/a")
    if stale_for is not None:
        deployment.stale_since.FromDatetime(NOW - stale_for)
    reason = withdrawn(deployment, standing, NOW)
    assert bool(reason) == bool(word)
    assert word in reason
