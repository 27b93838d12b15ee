"""The pages of campaign owners: all campaigns, and of one the overview, live, a preview, pairs to look at, messages.

Promises: a campaign of another tenant does not exist for a visitor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import func, select

from tutti.annotation.campaigns import listing
from tutti.annotation.campaigns.campaigns import Campaigns
from tutti.annotation.campaigns.estimates import Estimates
from tutti.annotation.judging import drawing, guidelines, messages, remarks, verdicts
from tutti.annotation.judging.pairs import Kind, Pair, Verdict
from tutti.annotation.judging.rows import Rows
from tutti.annotation.pages import differing, disputed
from tutti.annotation.pages.overview import Overview, overview
from tutti.annotation.pages.people import People
from tutti.annotation.tables import Tables
from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Host
from tutti.chassis.store.resources import Listed
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import Campaign
from tutti.web.pages import Get, Page, Post, Redirect, Visit

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
    """`pairs` to decide about, and those that were `settled`."""

    campaign: str
    pairs: Sequence[disputed.DisputedPair]
    settled: Sequence[disputed.DisputedPair]


@dataclass(frozen=True)
class DifferingView:
    """The newest comparisons that rest on the campaign, and what evaluation did not answer, in words."""

    campaign: str
    comparisons: Sequence[differing.ComparedPairs]
    missing: Sequence[str]


@dataclass(frozen=True)
class MessagesView:
    """Messages of annotators, those without an answer first."""

    campaign: str
    messages: Sequence[messages.Message]


class OwnerPages:
    def __init__(self, host: Host, tables: Tables, rows: Rows, campaigns: Campaigns, estimates: Estimates) -> None:
        self._units, self._campaigns, self._estimates = host.units, campaigns, estimates
        self._tables, self._rows, self._evaluation = tables, rows, differing.Evaluation(host)
        self._people = People(host)

    @property
    def routes(self) -> list[Get | Post]:
        return [
            Get("/annotation/{campaign}/overview", self.overview, OWNERS, version=self.version),
            Get("/annotation/{campaign}/preview", self.preview, OWNERS),
            Get("/annotation/{campaign}/disputed", self.disputed, OWNERS),
            Post("/annotation/{campaign}/disputed", self.settle, OWNERS),
            Get("/annotation/{campaign}/differing", self.differing, OWNERS),
            Get("/annotation/{campaign}/messages", self.messages, OWNERS),
            Post("/annotation/{campaign}/messages", self.answer, OWNERS),
        ]

    def owned(self, unit: Unit, visit: Visit) -> Listed[Campaign]:
        """The campaigns that the visitor owns with others, by name; none for annotators."""
        if not visit.principal.may(OWNERS):
            return Listed([], "", [])
        return self._tables.campaigns.readable(unit, visit.principal)

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
            decided = verdicts.settled(self._tables, unit, name)
            kept = list(self._rows.kept(unit, name))
            said = self._undecided(unit, campaign)
            chosen = disputed.differing([each for each in kept if each.pair not in decided], axes, DISPUTED)
            chosen |= disputed.marked([each for each in said if each.pair not in decided], DISPUTED)
            past = {id: "left out" if made.verdict is Verdict.LEFT_OUT else "counts" for id, made in decided.items()}
            pairs = self._rows.pairs(unit, name, [*chosen, *past])
            return DisputedView(
                name.removeprefix("campaigns/"),
                disputed.shown(chosen, pairs, kept, said, decided),
                disputed.shown(past, pairs, kept, said, decided),
            )

        view = self._units.run(look)
        return Page("disputed.html", f"Pairs of {view.campaign} to look at", view)

    def _undecided(self, unit: Unit, campaign: Campaign) -> list[remarks.Remark]:
        """The remarks on pairs without a verdict; one in the other order counts as the pair that it repeats."""
        said = remarks.remarks(self._tables, unit, campaign.name, REMARKS, undecided=True)
        pairs = self._rows.pairs(unit, campaign.name, {each.pair for each in said})
        seed = campaign.spec.seed
        base_of = {id: drawing.pair_id(seed, each.base) for id, each in pairs.items() if each.kind is Kind.SWAPPED}
        return [replace(each, pair=base_of.get(each.pair, each.pair)) for each in said]

    def settle(self, visit: Visit) -> Redirect:
        """Record the verdict on a pair."""
        sent = visit.form.get("verdict", "")
        made = verdicts.read(Verdict(sent) if sent in set(Verdict) else None, visit.form.get("reason", ""))

        def settle(unit: Unit) -> None:
            campaign = self._locked(unit, visit)
            pair = verdicts.about(self._rows, unit, campaign.name, visit.form.get("pair", ""))
            self._campaigns.settle(unit, campaign, pair, made)

        self._units.run(settle)
        return Redirect(f"/annotation/{visit.path['campaign']}/disputed")

    def differing(self, visit: Visit) -> Page:
        """Pairs on which a reward model and those who judged differ most."""
        name = self._units.run(lambda unit: self._found(unit, visit)).name
        compared, missing = self._evaluation.compared(name)
        comparisons = self._units.run(lambda unit: differing.shown(self._rows, unit, name, compared))
        view = DifferingView(name.removeprefix("campaigns/"), comparisons, missing)
        return Page("differing.html", f"Pairs of {view.campaign} on which a reward model differs", view)

    def messages(self, visit: Visit) -> Page:
        """The messages of annotators, and the answers."""

        def look(unit: Unit) -> MessagesView:
            campaign = self._found(unit, visit)
            sent = messages.sent(self._tables, unit, campaign.name)
            return MessagesView(
                campaign.name.removeprefix("campaigns/"), sorted(sent, key=lambda each: each.answer != "")
            )

        view = self._units.run(look)
        return Page("messages.html", f"Messages about {view.campaign}", view)

    def answer(self, visit: Visit) -> Redirect:
        """Answer a message."""

        def answer(unit: Unit) -> None:
            campaign = self._locked(unit, visit)
            made = messages.Answer(visit.form.get("text", ""), visit.principal.user)
            messages.answer(self._tables, unit, campaign.name, visit.form.get("id", ""), made)
            self._campaigns.note(unit, campaign)

        self._units.run(answer)
        return Redirect(f"/annotation/{visit.path['campaign']}/messages")

    def overview(self, visit: Visit) -> Page:
        def look(unit: Unit) -> Overview:
            campaign = self._found(unit, visit)
            return Overview(
                campaign,
                list(self._rows.kept(unit, campaign.name, counted=True)),
                listing.listed(self._rows, unit, campaign),
                last_hour=self._last_hour(unit, campaign),
                remarks=remarks.remarks(self._tables, unit, campaign.name, REMARKS),
                messages=messages.sent(self._tables, unit, campaign.name),
                guidelines=guidelines.versions(self._tables, unit, campaign),
                words=_mean_words(self._rows.first_pairs(unit, campaign.name, MEASURED)),
            )

        found = self._units.run(look)
        fit = self._estimates.add_to(found.annotators, found.campaign.name)
        names = self._people.names([each.user for each in found.annotators])
        view = overview(replace(found, fit=fit, names=names))
        return Page("overview.html", view.campaign, view)

    def version(self, visit: Visit) -> str:
        """The revision of the campaign, the version of its estimates, and the numbers of judgements and messages."""

        def look(unit: Unit) -> str:
            campaign = self._found(unit, visit)
            fits = self._estimates.version(unit, campaign.name)
            said, sent = (of.count(self._tables, unit, campaign.name) for of in (remarks, messages))
            return f"{campaign.revision}.{fits}.{said}.{sent}"

        return self._units.run(look)

    def _found(self, unit: Unit, visit: Visit) -> Campaign:
        """Raises NotFound."""
        return self._tables.campaigns.get_for(unit, f"campaigns/{visit.path['campaign']}"[:200], visit.principal)

    def _locked(self, unit: Unit, visit: Visit) -> Campaign:
        """Raises NotFound."""
        return self._tables.campaigns.lock(unit, self._found(unit, visit).name)

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
