"""The desk: what an annotator does at a campaign, for people and for simulated annotators alike.

Promises: nobody is given an ordinary pair before the qualification; a pair is given to an annotator once; a lease that
is asked for again is the same one; a judgement is accepted once or refused with a reason, and what is accepted is
committed; nothing that is answered says who wrote an answer or which pair is a control.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tutti.annotation.campaigns.collecting import ASSIGNING, UNDER_WAY
from tutti.annotation.judging import demonstrations, drawing, guidelines, messages, qualification
from tutti.annotation.judging.habits import speed
from tutti.annotation.judging.judgements import (
    Judgement,
    JudgementKind,
    Reason,
    RefusedJudgement,
    id_of,
    is_fast,
    read,
)
from tutti.annotation.judging.messages import Message
from tutti.annotation.judging.pairs import EQUAL, Kind, Pair
from tutti.annotation.judging.qualification import Answered, Displayed, displayed
from tutti.annotation.judging.records import (
    ACTIVE,
    CONTROLS,
    INVITED,
    JUDGED,
    PASSED,
    QUALIFYING,
    RETRACTED,
    SUSPENDED,
    Annotator,
    Assigned,
    StoredJudgement,
)
from tutti.annotation.judging.rows import Rows
from tutti.annotation.publishing import facts
from tutti.backbone.randomness import Randomness
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_DRAFT,
    CAMPAIGN_STATE_PAUSED,
    CROWD_SIMULATED,
    Campaign,
)
from tutti.corpus.conversations.conversations import END, Messages
from tutti.corpus.conversations.judgementset import BOTH_BAD
from tutti.judgements import habits

MOST_LEASED = 8
APART = 10
"""People see a pair and the same one with its sides swapped at least this number of places from each other, unless no
other pair is left."""
AGGREGATE, BLOCK = 5, 20
"""Annotators see their agreement with so many controls at once or more, never with a single one, and only after each so
many pairs, whatever these are."""
VIRTUAL = 1 << 52
"""The beginning of virtual time, in which the pairs of simulated annotators expire: later than any real time, in
microseconds."""
NOT_PASSED = "the qualification was not passed; the owner of the campaign can let you take it again"
LETTERS, CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789", 10


@dataclass(frozen=True)
class Shown:
    """A pair as an annotator sees it: the left answer, then the right one, and for each True if it was cut."""

    id: str
    prompt: Messages
    answers: tuple[str, str]
    cut: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class Lease:
    state: str
    pairs: Sequence[Shown] = ()


@dataclass(frozen=True)
class RefusedId:
    id: str
    reason: str
    words: str


@dataclass(frozen=True)
class Explained:
    """The right answer of a qualifying pair, after it was judged; `words` are those of the owner, or ""."""

    pair: str
    right: bool
    better: Displayed
    words: str


@dataclass(frozen=True)
class Receipt:
    """`known` are the accepted ids that were accepted before; `done` pairs of the annotator, and `answered` messages to
    the owner.
    """

    accepted: Sequence[str]
    refused: Sequence[RefusedId]
    explained: Sequence[Explained]
    done: int
    answered: int = 0
    known: Sequence[str] = ()


@dataclass(frozen=True)
class Standing:
    """The state of an annotator in a campaign. `agreement` is (controls, answered as expected), after blocks of pairs.

    `code` shows others that the annotator is done; it is drawn when there is nothing left to do. `retracted` counts the
    versions of the guideline whose judgements do not count. `weight` is that of the judgements in fits, and why; `fast`
    of them do not count, because they came sooner than anybody reads. `unread` is the speed in characters a second of
    an annotator that is too fast for a code; else 0.
    """

    state: str
    reason: str
    done: int
    target: int
    guideline: str
    text: str
    axes: Sequence[tuple[str, str]]
    read: str = ""
    agreement: tuple[int, int] | None = None
    qualification: Mapping[str, int] = field(default_factory=dict)
    warning: str = ""
    code: str = ""
    retracted: int = 0
    messages: Sequence[Message] = ()
    weight: tuple[float, str] = (1.0, "")
    fast: int = 0
    unread: float = 0.0


class Desk:
    def __init__(self, rows: Rows, lease_seconds: float, randomness: Randomness) -> None:
        self.rows, self._lease_seconds, self._randomness = rows, lease_seconds, randomness

    def standing(self, unit: Unit, campaign: Campaign, annotator: Annotator) -> Standing:
        text = self.rows.guideline(unit, campaign.name, campaign.guideline) or ""
        state, reason = self._state(unit, campaign, annotator)
        kept = list(self.rows.kept(unit, campaign.name, annotator=annotator.key))
        judged = [each for each in kept if each.kind != Kind.QUALIFYING]
        first = self.rows.kept(unit, campaign.name, annotator=annotator.key, first=True)
        done = len(judged)
        code, unread = self._code(unit, campaign, annotator, state, judged)
        told: dict[str, int] = {}
        if state == QUALIFYING:
            rule = campaign.spec.qualification
            last = self._qualified(unit, campaign, annotator)[-rule.pairs :]
            told = {"answered": len(last), "right": sum(last), "needed": rule.right, "of": rule.pairs}
        return Standing(
            state=state,
            reason=reason,
            done=done,
            target=target(campaign),
            guideline=campaign.guideline,
            text=text,
            axes=[(axis.name, axis.rule) for axis in campaign.spec.axes],
            read=annotator.guideline,
            agreement=agreement([each for each in first if each.kind != Kind.QUALIFYING], _axis(campaign)),
            qualification=told,
            warning=campaign.spec.warning,
            code=code,
            unread=unread,
            retracted=len(guidelines.retracted(self.rows.tables, unit, campaign.name)),
            messages=messages.sent(self.rows.tables, unit, campaign.name, annotator=annotator.key),
            weight=(annotator.weight, annotator.weight_reason),
            fast=sum(each.said == JudgementKind.JUDGED and is_fast(each.shown_ms) for each in judged),
        )

    def _code(
        self, unit: Unit, campaign: Campaign, annotator: Annotator, state: str, judged: Sequence[StoredJudgement]
    ) -> tuple[str, float]:
        """The completion code of an annotator who has judged the expected number of pairs, or all that a campaign had;
        "" and the speed if that was faster than reading.
        """
        if annotator.code or not judged or not (len(judged) >= target(campaign) or state == "closed"):
            return annotator.code, 0.0
        read = speed(judged, self.rows.lengths(unit, campaign.name))
        if read is not None and habits.unread(read):
            return "", read
        bits = self._randomness.bits(5 * CODE_LETTERS)
        code = "".join(LETTERS[bits >> 5 * place & 31] for place in range(CODE_LETTERS))
        self.rows.change_annotator(unit, annotator, code=code)
        return code, 0.0

    def accept_guideline(self, unit: Unit, campaign: Campaign, annotator: Annotator, version: str) -> bool:
        """The annotator has read this version; False unless it is the one in force."""
        if version != campaign.guideline:
            return False
        if annotator.guideline != version:
            self.rows.change_annotator(unit, annotator, guideline=version)
        return True

    def lease(
        self, unit: Unit, campaign: Campaign, annotator: Annotator, count: int, *, at: int | None = None
    ) -> Lease:
        """Give the annotator pairs until `count` are open, at most MOST_LEASED; the open ones come first.

        `at` is the virtual time of a simulated annotator, which passes when pairs of the campaign are settled; it is
        given none if that is over. The pairs of people are taken back after a while of real time, theirs never are.
        """
        if at is not None and at != self.rows.settled(unit, campaign.name):
            return Lease("late")
        if annotator.state == INVITED and campaign.state in ASSIGNING:
            annotator = self._begin(unit, campaign, annotator)
        state, _ = self._state(unit, campaign, annotator)
        if state not in (QUALIFYING, ACTIVE):
            return Lease(state)
        count = min(count, MOST_LEASED)
        found = [each.pair for each in self.rows.open(unit, annotator)]
        expires_at = micros(unit.now) + round(self._lease_seconds * 1_000_000) if at is None else VIRTUAL + at
        if found and at is None:
            self.rows.renew(unit, annotator, expires_at)
        following = self._following(unit, campaign, annotator, count - len(found), {each.number for each in found})
        for place, pair in enumerate(following, annotator.places):
            self.rows.assign(unit, annotator, pair, place, expires_at)
        if following:
            self.rows.change_annotator(unit, annotator, places=annotator.places + len(following))
        return Lease(state, [self._shown(campaign, annotator, each) for each in [*found, *following][:count]])

    def deliver(self, unit: Unit, campaign: Campaign, annotator: Annotator, sent: Sequence[object]) -> Receipt:
        """Accept or refuse each judgement by itself."""
        accepted, known, refused, explained = list[str](), list[str](), list[RefusedId](), list[Explained]()
        axes, fresh = [axis.name for axis in campaign.spec.axes], dict[str, str]()
        for each in sent:
            try:
                judgement = read(each, axes)
                told = None
                if self._is_known(unit, campaign, annotator, judgement):
                    known.append(judgement.id)
                else:
                    told = self._accept(unit, campaign, annotator, judgement)
                    fresh[judgement.id] = judgement.said
            except RefusedJudgement as refusal:
                refused.append(RefusedId(id_of(each), refusal.reason, refusal.words))
                continue
            accepted.append(judgement.id)
            if told is not None:
                explained.append(told)
                annotator = self._after_qualifying(unit, campaign, annotator)
        if fresh:
            unit.fact_of_rows(campaign, facts.accepted(campaign, fresh))
        done, answered = self.rows.answered(unit, annotator), messages.answered(self.rows.tables, unit, annotator)
        return Receipt(accepted, refused, explained, done, answered, known)

    def _begin(self, unit: Unit, campaign: Campaign, annotator: Annotator) -> Annotator:
        state = QUALIFYING if campaign.spec.qualification.pairs else ACTIVE
        self.rows.change_annotator(unit, annotator, state=state, guideline=campaign.guideline)
        found = self.rows.annotator(unit, campaign.name, key=annotator.key)
        assert found is not None
        return found

    def _state(self, unit: Unit, campaign: Campaign, annotator: Annotator) -> tuple[str, str]:
        """The state that an annotator is told, and why."""
        if annotator.state == RETRACTED:
            return "suspended", annotator.reason or "your judgements were taken out of this campaign"
        if annotator.state == SUSPENDED:
            return "suspended", annotator.reason
        if campaign.state == CAMPAIGN_STATE_DRAFT:
            return "no_pairs", "the pairs of this campaign are being made"
        if campaign.state == CAMPAIGN_STATE_PAUSED:
            return "paused", "the owner of the campaign has paused it"
        if campaign.state not in ASSIGNING:
            return "closed", "this campaign takes no more judgements"
        if annotator.guideline and annotator.guideline != campaign.guideline:
            return "guideline_changed", "the guideline has changed: read it before you go on"
        if annotator.state in (INVITED, QUALIFYING) and campaign.spec.qualification.pairs:
            return QUALIFYING, ""
        if self._has_pairs(unit, annotator):
            return ACTIVE, ""
        return "no_pairs", "every pair that you can judge was given to you or to others; more may follow"

    def _has_pairs(self, unit: Unit, annotator: Annotator) -> bool:
        return bool(self.rows.free(unit, annotator, [Kind.ORDINARY], 1) or self.rows.open(unit, annotator))

    def _following(
        self, unit: Unit, campaign: Campaign, annotator: Annotator, count: int, open: set[int]
    ) -> list[Pair]:
        """The next pairs of an annotator. Controls are given among ordinary pairs alone."""
        if count <= 0:
            return []
        if annotator.state == QUALIFYING:
            lacking = campaign.spec.qualification.pairs - len(open)
            return self.rows.free(unit, annotator, [Kind.QUALIFYING], max(0, min(count, lacking)))
        seed, share = campaign.spec.seed, campaign.spec.controls
        start = drawing.start(seed, annotator.key, campaign.pairs)
        apart = 0 if campaign.spec.crowd == CROWD_SIMULATED else APART
        recent = self.rows.recent(unit, annotator, annotator.places - apart) if apart else []
        places = {_original(each.pair): each.place for each in recent}
        ordinary = self.rows.free(unit, annotator, [Kind.ORDINARY], count + len(places), start=start)
        passed = self.rows.passed(unit, annotator)
        controls = self.rows.free(unit, annotator, CONTROLS, 2 * count + len(passed) + len(places), start=start)
        controls = [each for each in controls if each.prompt not in passed]  # a skipped prompt that returns is noticed
        chosen = list[Pair]()
        while ordinary and len(chosen) < count:
            place = annotator.places + len(chosen)
            near = {number for number, at in places.items() if place - at < apart}
            taken = open | {each.number for each in chosen}
            control = next((each for each in controls if each.base not in taken and _original(each) not in near), None)
            if control is not None and drawing.is_control(seed, share, annotator.key, place):
                controls.remove(control)
                chosen.append(control)
            else:
                chosen.append(next((each for each in ordinary if _original(each) not in near), ordinary[0]))
                ordinary.remove(chosen[-1])
            places[_original(chosen[-1])] = place
        return chosen

    def _is_known(self, unit: Unit, campaign: Campaign, annotator: Annotator, judgement: Judgement) -> bool:
        """True if the same judgement was accepted before. Raises RefusedJudgement if another one has its id."""
        known = self.rows.judgement(unit, judgement.id)
        if known is None:
            return False
        own = (known.campaign, known.annotator, known.digest)
        if own != (campaign.name, annotator.key, judgement.digest):
            raise RefusedJudgement(Reason.ID_REUSED, "this id belongs to another judgement: make a new one")
        return True

    def _accept(self, unit: Unit, campaign: Campaign, annotator: Annotator, judgement: Judgement) -> Explained | None:
        """Write a new judgement. Raises RefusedJudgement before anything is written."""
        assigned = self.rows.assigned(unit, annotator, judgement.pair)
        self._check(campaign, annotator, assigned, judgement)
        assert assigned is not None
        pair = assigned.pair
        flipped = self._flipped(campaign, annotator, pair)
        simulated = campaign.spec.crowd == CROWD_SIMULATED
        self.rows.add_judgement(unit, annotator, pair, judgement, flipped=flipped, simulated=simulated)
        demonstrations.keep(self.rows.tables, unit, annotator, pair.id, judgement)
        state = JUDGED if judgement.said is JudgementKind.JUDGED else PASSED
        self.rows.settle(unit, annotator, assigned, state, judgement.id)
        if pair.kind is not Kind.QUALIFYING:
            return None
        right = qualification.is_right(pair.better, judgement.scores.get(_axis(campaign)), flipped=flipped)
        return Explained(pair.id, right, displayed(pair.better, flipped=flipped), pair.explanation)

    def _check(self, campaign: Campaign, annotator: Annotator, assigned: Assigned | None, judgement: Judgement) -> None:
        """Raises RefusedJudgement."""
        if annotator.state == RETRACTED:
            raise RefusedJudgement(Reason.RETRACTED, "your judgements were taken out of this campaign")
        if annotator.state == SUSPENDED:
            raise RefusedJudgement(Reason.SUSPENDED, annotator.reason)
        if campaign.state not in UNDER_WAY:
            raise RefusedJudgement(Reason.CLOSED, "this campaign takes no more judgements")
        if assigned is None:
            raise RefusedJudgement(Reason.UNASSIGNED, "this pair was not given to you: ask for pairs")
        if not judgement.guideline == annotator.guideline == campaign.guideline:
            raise RefusedJudgement(Reason.OLD_GUIDELINE, "the guideline has changed: read it and judge the pair again")
        if judgement.supersedes and judgement.supersedes != assigned.judgement:
            raise RefusedJudgement(
                Reason.SUPERSEDED, "the judgement that it supersedes is not the newest one of this pair"
            )
        undone = bool(judgement.supersedes) and assigned.pair.kind is not Kind.QUALIFYING
        if assigned.judgement and not undone:
            raise RefusedJudgement(Reason.ALREADY_JUDGED, "you have judged this pair; name what the new one supersedes")

    def _after_qualifying(self, unit: Unit, campaign: Campaign, annotator: Annotator) -> Annotator:
        """The annotator after another qualifying pair: active, suspended, or as before."""
        rule = campaign.spec.qualification
        verdict = qualification.verdict(
            self._qualified(unit, campaign, annotator),
            pairs=rule.pairs,
            right_needed=rule.right,
            left=len(self.rows.free(unit, annotator, [Kind.QUALIFYING], 1)) + len(self.rows.open(unit, annotator)),
        )
        if verdict is not Answered.GOES_ON and annotator.state == QUALIFYING:
            state = ACTIVE if verdict is Answered.QUALIFIED else SUSPENDED
            reason = "" if state == ACTIVE else NOT_PASSED
            for each in self.rows.open(unit, annotator):
                self.rows.settle(unit, annotator, each, PASSED)
            self.rows.change_annotator(unit, annotator, state=state, reason=reason)
        found = self.rows.annotator(unit, campaign.name, key=annotator.key)
        assert found is not None
        return found

    def _qualified(self, unit: Unit, campaign: Campaign, annotator: Annotator) -> list[bool]:
        """For each qualifying pair, in order of arrival, True if it was answered right."""
        kept = list(self.rows.kept(unit, campaign.name, annotator=annotator.key, kinds=[Kind.QUALIFYING]))
        pairs = self.rows.pairs(unit, campaign.name, [each.pair for each in kept])
        axis = _axis(campaign)
        return [
            qualification.is_right(pairs[each.pair].better, each.scores.get(axis), flipped=each.flipped)
            for each in kept
        ]

    def _shown(self, campaign: Campaign, annotator: Annotator, pair: Pair) -> Shown:
        (first, second), (stop, other) = pair.answers, pair.stops
        shown = Shown(pair.id, pair.prompt, (first, second), (stop != END, other != END))
        if self._flipped(campaign, annotator, pair):
            shown = replace(shown, answers=(second, first), cut=shown.cut[::-1])
        return shown

    def _flipped(self, campaign: Campaign, annotator: Annotator, pair: Pair) -> bool:
        seed = campaign.spec.seed
        if pair.kind is Kind.SWAPPED:
            return not drawing.is_flipped(seed, annotator.key, drawing.pair_id(seed, pair.base))
        return drawing.is_flipped(seed, annotator.key, pair.id)


def _original(pair: Pair) -> int:
    """The number of the pair that a swapped one repeats, and of any other one its own."""
    return pair.base if pair.base >= 0 else pair.number


def target(campaign: Campaign) -> int:
    """The pairs that an annotator is expected to judge, controls included."""
    every = campaign.wanted / (1 - campaign.spec.controls)
    return max(1, round(every / max(1, campaign.annotators)))


def agreement(first: Sequence[StoredJudgement], axis: str) -> tuple[int, int] | None:
    """The number of judged controls of equal answers, and the number of those that were judged as about equal.

    `first` has the first judgement of each pair, in order of arrival. Only whole blocks of pairs count, and these only
    together with AGGREGATE new controls or more: so neither the moment of a change nor a second judgement tells which
    pair is a control. None before.
    """
    counted, new = list[object](), list[object]()
    for begin in range(0, len(first) - len(first) % BLOCK, BLOCK):
        block = first[begin : begin + BLOCK]
        new += [each.scores.get(axis) for each in block if each.said == JudgementKind.JUDGED and each.kind in EQUAL]
        if len(new) >= AGGREGATE:
            counted, new = [*counted, *new], []
    about_equal = sum(score == BOTH_BAD or (isinstance(score, int) and abs(score) <= 1) for score in counted)
    return (len(counted), about_equal) if counted else None


def _axis(campaign: Campaign) -> str:
    """The axis that counts for the qualification."""
    return str(campaign.spec.axes[0].name)
