"""The base of the calls of annotation: one change of a campaign in one transaction, and the reasons of refusals."""

from collections.abc import Callable
from typing import TypeVar

from tutti.annotation.campaigns.campaigns import Campaigns
from tutti.annotation.campaigns.estimates import Estimates
from tutti.annotation.judging.rows import Rows
from tutti.annotation.tables import Tables
from tutti.chassis.errors import Refused, declare
from tutti.chassis.names import check_name
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.work import Work
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_CANCELLED,
    CAMPAIGN_STATE_CLOSED,
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_PUBLISHED,
    Campaign,
    CampaignState,
    Demonstrations,
    Preferences,
)

NOT_OPEN, SIMULATED = "NOT_OPEN", "SIMULATED_CROWD"
KEY_TAKEN, NAME_TAKEN = "KEY_TAKEN", "NAME_TAKEN"
IN_FORCE, RETRACTED = "GUIDELINE_IN_FORCE", "GUIDELINE_RETRACTED"
GONE = "PREFERENCES_GONE"
declare(
    {
        NOT_OPEN: "the state of the campaign does not allow the call; the message names the state",
        SIMULATED: "the campaign has a simulated crowd or imported judgements: people cannot judge in it",
        GONE: "the stored lines of preferences or demonstrations are missing or damaged; run the recipe again",
        KEY_TAKEN: "the key belongs to another annotator of the campaign",
        NAME_TAKEN: "a campaign that the caller may not see has the name",
        IN_FORCE: "annotators judge by this version of the guideline now: replace it before it is retracted",
        RETRACTED: "this version of the guideline was retracted: a campaign cannot return to it",
    }
)
T = TypeVar("T")
ENDED = (CAMPAIGN_STATE_CLOSED, CAMPAIGN_STATE_PUBLISHED, CAMPAIGN_STATE_FAILED, CAMPAIGN_STATE_CANCELLED)


class Calls:
    """A base of the calls of annotation."""

    def __init__(
        self,
        host: Host,
        tables: Tables,
        rows: Rows,
        campaigns: Campaigns,
        preferences: Work[Preferences],
        published: Work[Demonstrations],
        estimates: Estimates,
    ) -> None:
        self._units, self._blobs = host.units, host.blobs
        self._tables, self._rows, self._campaigns = tables, rows, campaigns
        self._preferences, self._published, self._estimates = preferences, published, estimates

    def _changed(self, name: str, call: Call, change: Callable[[Unit, Campaign], T]) -> T:
        """Run `change` on a campaign of the caller's tenant, locked. Raises NotFound."""
        check_name("campaigns", name)

        def run(unit: Unit) -> T:
            self._tables.campaigns.get_for(unit, name, call.principal)
            return change(unit, self._tables.campaigns.lock(unit, name))

        return self._units.run(run)


def not_open(campaign: Campaign, done: str) -> Refused:
    """Return the error for a campaign whose state does not allow it to be `done`, such as "joined"."""
    state = CampaignState.Name(campaign.state).removeprefix("CAMPAIGN_STATE_").lower()
    return Refused(NOT_OPEN, f"{campaign.name} is {state}: it cannot be {done}")
