"""The pages of campaign owners: all campaigns, the overview of one, live, a preview of it, and pairs to look at.

Promises: read-only; a campaign of another tenant does not exist for a visitor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from tutti.annotation import disputed, listing, preferring, remarks
from tutti.annotation.overview import Overview, overview
from tutti.annotation.pairs import Pair
from tutti.annotation.rows import Rows
from tutti.annotation.tables import Tables
from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Host
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.work import Work
from tutti.contracts.annotation.v1 import Campaign, Preferences
from tutti.contracts.common.v1 import STATE_DONE
from tutti.web.pages import Get, Page, Visit

OWNERS = frozenset({Role.ENGINEER, Role.OPERATOR})
HOUR = 3_600_000_000
PREVIEWED, MEASURED, REMARKS, DISPUTED = 5, 100, 100, 20


@dataclass(frozen=True)
class PreviewView:
    """`axes` as (name, question), `qualification` as (pairs that count, right answers that are needed)."""

    campaign: str
    guideline: str
    warning: str
    axes: Sequence[tuple[str, str]]
    qualification: tuple[int, int]
    pairs: Sequence[disputed.PairTexts]


@dataclass(frozen=True)
class DisputedView:
    campaign: str
    pairs: Sequence[disputed.DisputedPair]


class OwnerPages:
    def __init__(self, host: Host, tables: Tables, rows: Rows, preferences: Work[Preferences]) -> None:
        self._units, self._blobs = host.units, host.blobs
        self._tables, self._rows, self._preferences = tables, rows, preferences

    @property
    def routes(self) -> list[Get]:
        return [
            Get("/annotation/{campaign}/overview", self.overview, OWNERS, version=self.version),
            Get("/annotation/{campaign}/preview", self.preview, OWNERS),
            Get("/annotation/{campaign}/disputed", self.disputed, OWNERS),
        ]

    def owned(self, unit: Unit, visit: Visit) -> list[Campaign]:
        """The campaigns that the visitor owns with others, by name; none for annotators."""
        if not visit.principal.may(OWNERS):
            return []
        campaigns = self._tables.campaigns
        return [each for each in campaigns.select(unit) if campaigns.shows(unit, each, visit.principal)]

    def owns(self, unit: Unit, visit: Visit, name: str) -> bool:
        """True for one of the campaigns that `owned` returns."""
        return visit.principal.may(OWNERS) and self._tables.campaigns.exists_for(unit, name, visit.principal)

    def preview(self, visit: Visit) -> Page:
        """The guideline, the questions and the first pairs, as annotators will read them; nothing can be judged."""

        def look(unit: Unit) -> PreviewView:
            campaign = self._found(unit, visit)
            pairs = self._rows.first_pairs(unit, campaign.name, PREVIEWED)
            return PreviewView(
                campaign=campaign.name.removeprefix("campaigns/"),
                guideline=self._rows.guideline(unit, campaign.name, campaign.guideline) or "",
                warning=campaign.spec.warning,
                axes=[(axis.name, axis.rule) for axis in campaign.spec.axes],
                qualification=(campaign.spec.qualification.pairs, campaign.spec.qualification.right),
                pairs=[disputed.texts_of(pair) for pair in pairs],
            )

        view = self._units.run(look)
        return Page("preview.html", f"Preview of {view.campaign}", view)

    def disputed(self, visit: Visit) -> Page:
        """Pairs that annotators flagged, skipped or commented on, and those on which they differ most."""

        def look(unit: Unit) -> DisputedView:
            campaign = self._found(unit, visit)
            name, axes = campaign.name, [axis.name for axis in campaign.spec.axes]
            kept = list(self._rows.kept(unit, name))
            said = remarks.remarks(self._tables, unit, name, REMARKS)
            chosen = disputed.differing(kept, axes, DISPUTED) | disputed.marked(said, DISPUTED)
            pairs = self._rows.pairs(unit, name, chosen)
            return DisputedView(name.removeprefix("campaigns/"), disputed.shown(chosen, pairs, kept, said))

        view = self._units.run(look)
        return Page("disputed.html", f"Pairs of {view.campaign} to look at", view)

    def overview(self, visit: Visit) -> Page:
        def look(unit: Unit) -> tuple[Overview, list[Preferences]]:
            campaign = self._found(unit, visit)
            fits = [
                each
                for each in self._preferences.resource.select(unit, state=STATE_DONE)
                if preferring.fits(each, campaign.name)
            ]
            return Overview(
                campaign,
                list(self._rows.kept(unit, campaign.name)),
                listing.listed(self._rows, unit, campaign.name),
                last_hour=self._last_hour(unit, campaign),
                remarks=remarks.remarks(self._tables, unit, campaign.name, REMARKS),
                words=_mean_words(self._rows.first_pairs(unit, campaign.name, MEASURED)),
            ), fits

        found, fits = self._units.run(look)
        if fits:
            newest = max(fits, key=lambda each: (each.ended_at.ToNanoseconds(), each.name))
            estimates = preferring.estimates(self._blobs, newest, found.campaign.name)
            for each in found.annotators:
                if (estimate := estimates.get(each.key)) is not None:
                    each.MergeFrom(estimate)
        view = overview(found)
        return Page("overview.html", view.campaign, view)

    def version(self, visit: Visit) -> str:
        """The campaign's revision, the number of its fits, and that of its judgements, skips and flags."""

        def look(unit: Unit) -> str:
            campaign = self._found(unit, visit)
            fits = self._preferences.resource.select(unit, state=STATE_DONE)
            return f"{campaign.revision}.{len(fits)}.{remarks.count(self._tables, unit, campaign.name)}"

        return self._units.run(look)

    def _found(self, unit: Unit, visit: Visit) -> Campaign:
        """Raises NotFound."""
        return self._tables.campaigns.get_for(unit, f"campaigns/{visit.path['campaign']}"[:200], visit.principal)

    def _last_hour(self, unit: Unit, campaign: Campaign) -> int:
        """The judgements of ordinary pairs that arrived in the last hour."""
        table = self._tables.judgements
        since = micros(unit.now) - HOUR
        newest = (table.c.campaign == campaign.name, table.c.received_at >= since, table.c.kind == "ordinary")
        return int(unit.tx.execute(select(func.count()).select_from(table).where(*newest)).scalar_one())


def _mean_words(pairs: Sequence[Pair]) -> float | None:
    """Words to read for a pair, its prompt and both answers."""
    if not pairs:
        return None
    texts = [text for pair in pairs for text in (*(each.content for each in pair.prompt), *pair.answers)]
    return sum(len(text.split()) for text in texts) / len(pairs)
