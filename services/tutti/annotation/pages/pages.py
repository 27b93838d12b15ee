"""The pages of annotation, and the calls of their scripts.

Promises: an annotator sees the campaigns that he or she was invited to and no other; no answer names the writer of an
answer, or says which pair is a control; simulators call in campaigns of simulated crowds alone, and people in others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tutti.annotation.campaigns.campaigns import Campaigns
from tutti.annotation.campaigns.desk import MOST_LEASED, Desk, Lease, Receipt, Standing
from tutti.annotation.judging import messages, remarks
from tutti.annotation.judging.judgements import MOST
from tutti.annotation.judging.records import Annotator
from tutti.annotation.judging.simulated import user_of
from tutti.annotation.pages.ownerpages import OwnerPages
from tutti.annotation.publishing.weighing import WHOLE
from tutti.annotation.settings import AnnotationSettings
from tutti.annotation.tables import Tables
from tutti.chassis.errors import CorruptRow, InvalidField, NotFound, Refused, declare
from tutti.chassis.identity.auth import Role
from tutti.chassis.names import check_name
from tutti.chassis.service import Host
from tutti.chassis.store.limits import Limit
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import CROWD_SIMULATED, Campaign, CampaignState
from tutti.judgements.habits import READING
from tutti.web.pages import Call, Entry, Get, Page, Site, Visit

T = TypeVar("T")
ROLES = frozenset({Role.ANNOTATOR, Role.ENGINEER, Role.OPERATOR})
JUDGES = ROLES | {Role.SIMULATOR}
TOO_MANY, SIMULATED, PEOPLE, NOT_INVITED = "TOO_MANY_REQUESTS", "SIMULATED_CROWD", "NOT_SIMULATED", "NOT_INVITED"
JUDGEMENT_BYTES = 1 << 20
WITHDRAWN = "withdrawn by the annotator: the judgements do not count any more"
declare(
    {
        TOO_MANY: "too many requests for pairs or deliveries of judgements; the message says how long to wait",
        NOT_INVITED: "an owner opened the annotators' page of a campaign without being one of its annotators",
        SIMULATED: "the campaign has a simulated crowd or imported judgements: people cannot judge in it",
        PEOPLE: "the campaign has no simulated crowd: simulated annotators cannot judge in it",
    }
)


@dataclass(frozen=True)
class CampaignLink:
    campaign: str
    title: str
    state: str
    done: int
    target: int


@dataclass(frozen=True)
class OwnedLink:
    campaign: str
    state: str
    judgements: int
    wanted: int
    annotators: int


@dataclass(frozen=True)
class CampaignsView:
    """`campaigns` that the visitor judges in, and `owned` ones for engineers and operators; `damaged`: the reason for
    each that is left out.
    """

    campaigns: list[CampaignLink]
    owned: list[OwnedLink]
    damaged: list[str]


@dataclass(frozen=True)
class DeskView:
    """`campaign` is the id that the page's script uses in its calls; `user` judges there, under the key `annotator`."""

    campaign: str
    annotator: str
    user: str


class AnnotationPages:
    def __init__(
        self,
        host: Host,
        tables: Tables,
        desk: Desk,
        settings: AnnotationSettings,
        campaigns: Campaigns,
        owners: OwnerPages,
    ) -> None:
        self._units, self._tables, self._desk, self._owners = host.units, tables, desk, owners
        self._campaigns = campaigns
        self._leases = Limit(30, settings.leases_per_minute / 60)
        self._deliveries = Limit(60, settings.judgements_per_minute / 60)

    @property
    def site(self) -> Site:
        return Site(
            name="annotation",
            package="tutti.annotation.pages",
            routes=[
                Get("/annotation", self.campaigns, ROLES),
                Call("/annotation/api/leases", self.lease, JUDGES, method="POST"),
                Call("/annotation/api/guideline", self.accept_guideline, JUDGES, method="POST"),
                Call("/annotation/api/judgements", self.deliver, JUDGES, method="POST", max_bytes=JUDGEMENT_BYTES),
                Call("/annotation/api/messages", self.write, ROLES, method="POST"),
                Call("/annotation/api/withdraw", self.withdraw, ROLES, method="POST"),
                Call("/annotation/{campaign}/state.json", self.state, ROLES),
                Call("/annotation/{campaign}/own.json", self.own, ROLES),
                Get("/annotation/{campaign}", self.desk, ROLES),
                *self._owners.routes,
            ],
            menu=[Entry("Annotation", "/annotation", ROLES)],
            worker="worker.js",
        )

    def campaigns(self, visit: Visit) -> Page:
        """The campaigns that the visitor was invited to, and for owners all of their tenant."""

        def look(unit: Unit) -> CampaignsView:
            found, damaged = list[CampaignLink](), list[str]()
            for name in sorted(self._desk.rows.campaigns_of(unit, visit.principal.user)):
                try:
                    if not self._tables.campaigns.exists_for(unit, name, visit.principal):
                        continue  # somebody of another tenant was invited
                    campaign, annotator = self._found(unit, visit, name)
                except CorruptRow as problem:
                    damaged.append(problem.message)
                    continue
                standing = self._desk.standing(unit, campaign, annotator)
                short = name.removeprefix("campaigns/")
                found.append(CampaignLink(short, short, standing.state, standing.done, standing.target))
            owned = self._owners.owned(unit, visit)
            damaged += [each for each in owned.damaged if each not in damaged]
            return CampaignsView(found, [_owned(each) for each in owned.found], damaged)

        return Page("campaigns.html", "Annotation", self._units.run(look))

    def desk(self, visit: Visit) -> Page:
        name = f"campaigns/{visit.path['campaign']}"

        def look(unit: Unit) -> Annotator:
            try:
                return self._found(unit, visit, name)[1]
            except NotFound:
                if self._owners.owns(unit, visit, name):
                    words = "you are not an annotator of this campaign; as an owner, open Annotation, then the campaign"
                    raise Refused(NOT_INVITED, words) from None
                raise

        annotator = self._units.run(look)
        return Page("desk.html", "Compare answers", DeskView(visit.path["campaign"], annotator.key, annotator.user))

    def state(self, visit: Visit) -> object:
        name = f"campaigns/{visit.path['campaign']}"

        def look(unit: Unit) -> object:
            campaign, annotator = self._found(unit, visit, name)
            standing = self._desk.standing(unit, campaign, annotator)
            before = ""
            if standing.state == "guideline_changed":
                before = self._desk.rows.guideline(unit, name, standing.read) or ""
            return {"annotator": annotator.key, **_standing(standing, before)}

        return self._units.run(look)

    def own(self, visit: Visit) -> object:
        """All that is stored of the visitor in a campaign, without the texts of pairs."""
        name = f"campaigns/{visit.path['campaign']}"

        def look(unit: Unit) -> object:
            campaign, annotator = self._found(unit, visit, name)
            told = {"campaign": campaign.name, "annotator": annotator.key, "user": annotator.user}
            standing = {"state": annotator.state, "reason": annotator.reason, "completion_code": annotator.code}
            weight = {"weight": annotator.weight, "weight_reason": annotator.weight_reason}
            written = _messages(messages.sent(self._tables, unit, name, annotator=annotator.key))
            said = {"judgements": remarks.own(self._tables, unit, annotator), "messages": written}
            return {**told, **standing, **weight, **said}

        return self._units.run(look)

    def withdraw(self, visit: Visit) -> object:
        """Take the visitor's judgements out of a campaign, for good."""
        body = _object(visit.body, {"campaign"})

        def withdraw(unit: Unit, campaign: Campaign, annotator: Annotator) -> object:
            self._campaigns.retract(unit, campaign, annotator, WITHDRAWN)
            return {"withdrawn": True}

        return self._charged(visit, body, "leases", self._leases, withdraw, locked=True)

    def write(self, visit: Visit) -> object:
        """Store a message to the owner of a campaign."""
        body = _object(visit.body, {"campaign", "id", "words"})

        def write(unit: Unit, campaign: Campaign, annotator: Annotator) -> object:
            messages.keep(self._tables, unit, annotator, body.get("id"), body.get("words"))
            return {"messages": _messages(messages.sent(self._tables, unit, campaign.name, annotator=annotator.key))}

        return self._charged(visit, body, "judgements", self._deliveries, write)

    def lease(self, visit: Visit) -> object:
        simulates = Role.SIMULATOR in visit.principal.roles
        body = _object(visit.body, {"campaign", "count", *(["at"] if simulates else [])})
        count = body.get("count", MOST_LEASED)
        if type(count) is not int or not 1 <= count <= MOST_LEASED:
            raise InvalidField("count", seen=count, expected=f"1 … {MOST_LEASED}")
        at = _virtual_time(body) if simulates else None

        def lease(unit: Unit, campaign: Campaign, annotator: Annotator) -> object:
            return _lease(self._desk.lease(unit, campaign, annotator, count, at=at))

        return self._charged(visit, body, "leases", self._leases, lease)

    def accept_guideline(self, visit: Visit) -> object:
        body = _object(visit.body, {"campaign", "version"})
        version = body.get("version")
        if not isinstance(version, str):
            raise InvalidField("version", seen=version, expected="the version of a guideline")

        def accept(unit: Unit, campaign: Campaign, annotator: Annotator) -> object:
            return {"accepted": self._desk.accept_guideline(unit, campaign, annotator, version)}

        return self._charged(visit, body, "leases", self._leases, accept)

    def deliver(self, visit: Visit) -> object:
        body = _object(visit.body, {"campaign", "judgements"})
        sent = body.get("judgements")
        if not isinstance(sent, list) or not 1 <= len(sent) <= MOST:
            seen = len(sent) if isinstance(sent, list) else sent
            raise InvalidField("judgements", seen=seen, expected=f"a list of 1 … {MOST}")

        def deliver(unit: Unit, campaign: Campaign, annotator: Annotator) -> object:
            return _receipt(self._desk.deliver(unit, campaign, annotator, sent))

        return self._charged(visit, body, "judgements", self._deliveries, deliver)

    def _charged(
        self,
        visit: Visit,
        body: Mapping[str, object],
        what: str,
        limit: Limit,
        work: Callable[[Unit, Campaign, Annotator], T],
        *,
        locked: bool = False,
    ) -> T:
        """Run `work` for the visitor's place in a campaign, which is locked first if it is changed. People may do so
        only so often. Raises NotFound, Refused.
        """
        ident = body.get("campaign")
        if not isinstance(ident, str):
            raise InvalidField("campaign", seen=ident, expected="the id of a campaign")

        def run(unit: Unit) -> T:
            key = f"{what}/{visit.principal.user}"
            if not visit.principal.is_machine and (wait := self._tables.limits.charge(unit, key, limit)):
                raise Refused(TOO_MANY, f"too many requests: wait {wait:.1f} s", {"retry_after": f"{wait + 0.5:.0f}"})
            name = check_name("campaigns", f"campaigns/{ident.removeprefix('campaigns/')}", field="campaign")
            if locked:
                self._tables.campaigns.lock(unit, name)
            campaign, annotator = self._found(unit, visit, name)
            return work(unit, campaign, annotator)

        return self._units.run(run)

    def _found(self, unit: Unit, visit: Visit, name: str) -> tuple[Campaign, Annotator]:
        """Raises NotFound also where others were invited: that a campaign exists is nobody else's business."""
        campaign = self._tables.campaigns.find(unit, name)
        annotator = self._annotator(unit, visit, name) if campaign else None
        if campaign is None or annotator is None or not visit.principal.sees(campaign.tenant):
            raise NotFound(name[:200])
        simulated = campaign.spec.crowd == CROWD_SIMULATED
        if simulated and Role.SIMULATOR not in visit.principal.roles:
            raise Refused(SIMULATED, "the annotators of this campaign are simulated")
        if not simulated and Role.SIMULATOR in visit.principal.roles:
            raise Refused(PEOPLE, "no annotator of this campaign is simulated")
        return campaign, annotator

    def _annotator(self, unit: Unit, visit: Visit, name: str) -> Annotator | None:
        user = visit.principal.user
        if Role.SIMULATOR not in visit.principal.roles:
            return self._desk.rows.annotator(unit, name, user=user)
        key = user.removeprefix(user_of(name, ""))
        return self._desk.rows.annotator(unit, name, key=key) if key != user else None


def _owned(campaign: Campaign) -> OwnedLink:
    state = CampaignState.Name(campaign.state).removeprefix("CAMPAIGN_STATE_").lower()
    short = campaign.name.removeprefix("campaigns/")
    return OwnedLink(short, state, campaign.judgements, campaign.wanted, campaign.annotators)


def _standing(standing: Standing, before: str) -> dict[str, object]:
    guideline: dict[str, object] = {"version": standing.guideline, "text": standing.text}
    if standing.state == "guideline_changed":
        guideline |= {"before": {"version": standing.read, "text": before}}
    found: dict[str, object] = {
        "state": standing.state,
        "reason": standing.reason,
        "done": standing.done,
        "target": standing.target,
        "guideline": guideline,
        "axes": [{"name": name, "rule": rule} for name, rule in standing.axes],
        "retracted": standing.retracted,
        "messages": _messages(standing.messages),
    }
    if standing.qualification:
        found["qualification"] = dict(standing.qualification)
    found |= {key: words for key, words in (("warning", standing.warning), ("code", standing.code)) if words}
    weight, why = standing.weight
    if weight < WHOLE:
        found["weight"] = {"weight": weight, "why": why}
    if standing.unread:
        found["unread"] = {"speed": round(standing.unread), "most": round(READING)}
    if standing.fast:
        found["fast"] = standing.fast
    if standing.agreement is not None:
        found["agreement"] = {"of": standing.agreement[0], "agreed": standing.agreement[1]}
    return found


def _messages(sent: Sequence[messages.Message]) -> list[dict[str, str]]:
    return [{"id": each.id, "words": each.words, "answer": each.answer} for each in sent]


def _lease(lease: Lease) -> dict[str, object]:
    pairs = [
        {
            "id": each.id,
            "prompt": [message.to_json() for message in each.prompt],
            "answers": list(each.answers),
            "cut": list(each.cut),
        }
        for each in lease.pairs
    ]
    return {"pairs": pairs, "state": lease.state}


def _receipt(receipt: Receipt) -> dict[str, object]:
    found: dict[str, object] = {
        "accepted": list(receipt.accepted),
        "refused": [{"id": each.id, "reason": each.reason, "words": each.words} for each in receipt.refused],
        "done": receipt.done,
    }
    if receipt.known:
        found["known"] = list(receipt.known)
    if receipt.answered:
        found["answered"] = receipt.answered
    if receipt.explained:
        found["explained"] = [
            {"pair": each.pair, "right": each.right, "better": each.better, "words": each.words}
            for each in receipt.explained
        ]
    return found


def _virtual_time(body: Mapping[str, object]) -> int:
    """Raises InvalidField."""
    at = body.get("at")
    if type(at) is not int:
        raise InvalidField("at", seen=at, expected="the virtual time of the crowd")
    return at


def _object(body: object, keys: set[str]) -> Mapping[str, object]:
    """Raises InvalidField."""
    if not isinstance(body, dict):
        raise InvalidField("body", seen=type(body).__name__, expected=f"an object with {', '.join(sorted(keys))}")
    if unknown := sorted(str(key) for key in body.keys() - keys):
        raise InvalidField(unknown[0][:100], seen="a field", expected=f"only {', '.join(sorted(keys))}")
    return body
