"""The status page: a viewer of another tenant is shown runs without the words of their campaigns, in whatever order."""

from pathlib import Path

import pytest

from tests.web.hosted import Hosted, hosted
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.chassis.identity.principal import Method, Principal
from tutti.chassis.runtime.loops import drain
from tutti.contracts.common.v1 import STATE_RUNNING
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.pipeline.pages.statuspage import StatusPage
from tutti.web.pages import Visit

OWN = Principal("users/ada", frozenset({Role.ENGINEER}), "tenants/default", Method.SESSION)
OTHER = Principal("users/eve", frozenset({Role.ENGINEER}), "tenants/other", Method.SESSION)
PRIVATE = "12 of 40 judgements by people"


def shown(page: StatusPage, who: Principal) -> str:
    with caused_by(Cause(principal=who)):
        return str(page.status(Visit(who)).view)


@pytest.mark.parametrize("viewers", [(OWN, OTHER), (OTHER, OWN)])
def test_what_one_tenant_was_shown_is_not_shown_to_another(viewers: tuple[Principal, ...], tmp_path: Path) -> None:
    with hosted(tmp_path) as served:
        found: Hosted = served
        # The driver would end the run, which has no recipe.
        assert not drain([thread for each in found.host.services for thread in each.threads], 30)
        stage = Stage(name="judged", kind="campaign", state=STATE_RUNNING, resource="campaigns/a", reason=PRIVATE)
        found.plant("pipeline", Run(name="runs/a", state=STATE_RUNNING, stages=[stage]))
        page = StatusPage(found.running("pipeline").host)
        told = {who.tenant: shown(page, who) for who in viewers}
    assert all("runs/a" in text for text in told.values())
    assert PRIVATE in told[OWN.tenant]
    assert PRIVATE not in told[OTHER.tenant]
