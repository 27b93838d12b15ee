"""The pages of campaign owners: all campaigns, and the overview of one, live.

Promises: read-only; a campaign of another tenant does not exist for a visitor.
"""

from sqlalchemy import func, select

from tutti.annotation import listing, preferring
from tutti.annotation.overview import overview
from tutti.annotation.rows import Rows, StoredJudgement
from tutti.annotation.tables import Tables
from tutti.chassis.errors import NotFound
from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Host
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.work import Work
from tutti.contracts.annotation.v1 import Annotator, Campaign, Preferences
from tutti.contracts.common.v1 import STATE_DONE
from tutti.web.pages import Get, Page, Visit

OWNERS = frozenset({Role.ENGINEER, Role.OPERATOR})
HOUR = 3_600_000_000


class OwnerPages:
    def __init__(self, host: Host, tables: Tables, rows: Rows, preferences: Work[Preferences]) -> None:
        self._units, self._blobs = host.units, host.blobs
        self._tables, self._rows, self._preferences = tables, rows, preferences

    @property
    def routes(self) -> list[Get]:
        return [Get("/annotation/{campaign}/overview", self.overview, OWNERS, version=self.version)]

    def owned(self, unit: Unit, visit: Visit) -> list[Campaign]:
        """The campaigns that the visitor owns with others, by name; none for annotators."""
        if not visit.principal.may(OWNERS):
            return []
        return [each for each in self._tables.campaigns.select(unit) if each.tenant == visit.principal.tenant]

    def overview(self, visit: Visit) -> Page:
        def look(unit: Unit) -> tuple[Campaign, list[StoredJudgement], list[Annotator], int, list[Preferences]]:
            campaign = self._found(unit, visit)
            kept = list(self._rows.kept(unit, campaign.name))
            fits = [
                each
                for each in self._preferences.resource.select(unit, state=STATE_DONE)
                if preferring.fits(each, campaign.name)
            ]
            return (
                campaign,
                kept,
                listing.listed(self._rows, unit, campaign.name),
                self._last_hour(unit, campaign),
                fits,
            )

        campaign, kept, annotators, last_hour, fits = self._units.run(look)
        if fits:
            newest = max(fits, key=lambda each: (each.ended_at.ToNanoseconds(), each.name))
            estimates = preferring.estimates(self._blobs, newest, campaign.name)
            for each in annotators:
                if (found := estimates.get(each.key)) is not None:
                    each.MergeFrom(found)
        view = overview(campaign, kept, annotators, last_hour=last_hour)
        return Page("overview.html", view.campaign, view)

    def version(self, visit: Visit) -> str:
        """The campaign's revision, which counts its judgements too, and the number of its fits."""

        def look(unit: Unit) -> str:
            campaign = self._found(unit, visit)
            fits = self._preferences.resource.select(unit, state=STATE_DONE)
            return f"{campaign.revision}.{len(fits)}"

        return self._units.run(look)

    def _found(self, unit: Unit, visit: Visit) -> Campaign:
        """Raises NotFound."""
        name = f"campaigns/{visit.path['campaign']}"
        campaign = self._tables.campaigns.find(unit, name)
        if campaign is None or campaign.tenant != visit.principal.tenant:
            raise NotFound(name[:200])
        return campaign

    def _last_hour(self, unit: Unit, campaign: Campaign) -> int:
        """The judgements of ordinary pairs that arrived in the last hour."""
        table = self._tables.judgements
        since = micros(unit.now) - HOUR
        newest = (table.c.campaign == campaign.name, table.c.received_at >= since, table.c.kind == "ordinary")
        return int(unit.tx.execute(select(func.count()).select_from(table).where(*newest)).scalar_one())
