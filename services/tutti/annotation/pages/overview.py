"""A campaign as its owner sees it: progress, pace, agreement, and how reliable each annotator is. Pure.

Promises: the key of an annotator in the campaign is always shown, the name where it is known; no text of a pair is in
it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tutti.annotation.campaigns.collecting import ASSIGNING
from tutti.annotation.judging.habits import habits, scores_by_pair
from tutti.annotation.judging.judgements import UNKNOWN_MS, JudgementKind
from tutti.annotation.judging.messages import Message
from tutti.annotation.judging.records import StoredJudgement
from tutti.annotation.judging.remarks import Remark
from tutti.annotation.publishing.weighing import WHOLE
from tutti.contracts.annotation.v1 import (
    CROWD_IMPORTED,
    CROWD_SIMULATED,
    Annotator,
    AnnotatorState,
    Campaign,
    CampaignState,
    FitSource,
    Guideline,
)
from tutti.judgements import LEAST_CONTROLS, LEAST_RESTYLED
from tutti.judgements.agreement import alpha, bounds
from tutti.judgements.habits import unread

ALPHA_NEEDS = 10
"""Pairs with at least two judgements, below which an agreement says nothing."""
NEAR_NINETY_FIVE = 1.96
WORDS_A_SECOND, CHOICE_SECONDS = 4.0, 6.0
"""Silent reading of English, 238 words a minute (Brysbaert 2019), and the time to choose and press a key."""


def forecast_hours(judgements: float, words: float) -> float:
    """Estimate the hours of one person to judge `judgements` pairs of `words` words, prompt and answers together."""
    return judgements * (words / WORDS_A_SECOND + CHOICE_SECONDS) / 3600


@dataclass(frozen=True)
class Estimated:
    """A fitted number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class AnnotatorRow:
    """`name` is empty where it is not known. `seconds` is the median time of a judgement. The estimates are of the fit
    of the view, None for an annotator who is not in it, and `weight` is the one that it used. There is no estimate of
    `format` where no two answers differ in it. `lacking` control pairs would identify the biases, and
    `lacking_restyled` ones in two formats, of which `restyled` were judged, that for format. `habits` are reasons in
    words to look at what the annotator does. `set_weight` is what the owner set, because of `weight_reason`; `proposed`
    is another weight that habits suggest, because of `proposal`, None if they suggest none.
    """

    key: str
    name: str
    state: str
    reason: str
    judged: int
    controls: int
    skipped: int
    fast: int
    seconds: float | None
    sharpness: Estimated | None
    position: Estimated | None
    length: Estimated | None
    format: Estimated | None
    weight: float | None
    restyled: int
    lacking: int
    lacking_restyled: int
    habits: Sequence[str]
    set_weight: float
    weight_reason: str
    proposed: float | None
    proposal: str


@dataclass(frozen=True)
class FitNote:
    """The fit that the estimates come from: that of `preferences`, or a live one, if empty, which is not published.
    `unidentified` says what its judgements cannot determine.
    """

    preferences: str
    judgements: int
    fitted_at: str
    unidentified: Sequence[str]


@dataclass(frozen=True)
class Agreement:
    """Krippendorff's alpha on an axis over `compared` pairs with at least two judgements; None where those are few.

    `low` and `high` bound its 95 % interval; None where it is unknown.
    """

    axis: str
    alpha: float | None
    compared: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class GuidelineRow:
    """A version of the guideline; `retracted` is why its judgements do not count, empty if they do."""

    version: str
    title: str
    current: bool
    judgements: int
    retracted: str


@dataclass(frozen=True)
class OverviewView:
    """`pace` counts the judgements of the last hour, `hours` is what is left at this pace, None where nobody judges.

    `controls` and `skipped` pairs were answered too, and do not count as judgements.
    `forecast` is the hours of one person for all judgements and controls, from the length of the texts; None before
    there are pairs. `left_out` pairs cannot be compared, `settled_out` were left out by an owner.
    `fit` is None before anything was fitted.
    """

    campaign: str
    state: str
    reason: str
    simulated: bool
    imported: bool
    judgements: int
    controls: int
    skipped: int
    wanted: int
    pairs: int
    left_out: int
    round: int
    started_at: str
    ended_at: str
    pace: int
    hours: float | None
    agreements: Sequence[Agreement]
    forecast: float | None
    annotators: Sequence[AnnotatorRow]
    remarks: Sequence[Remark]
    settled_out: int = 0
    messages: int = 0
    unanswered: int = 0
    guidelines: Sequence[GuidelineRow] = ()
    fit: FitNote | None = None


@dataclass(frozen=True)
class Overview:
    """A campaign and what is known of it: the judgements that count, the number of those of the last
    hour, the mean number of words to read for a pair, None before there are pairs, and where the estimates of its
    annotators come from, None if there are none. `names` are display names by user.
    """

    campaign: Campaign
    kept: Sequence[StoredJudgement]
    annotators: Sequence[Annotator]
    last_hour: int = 0
    remarks: Sequence[Remark] = ()
    words: float | None = None
    messages: Sequence[Message] = ()
    guidelines: Sequence[Guideline] = ()
    fit: FitSource | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def overview(known: Overview) -> OverviewView:
    """The view of what is known."""
    campaign, kept = known.campaign, known.kept
    axis = campaign.spec.axes[0].name
    left = max(0, campaign.wanted - campaign.judgements)
    is_open = campaign.state in ASSIGNING
    found, times = habits(kept, axis), dict[str, list[int]]()
    for each in kept:
        if each.said == JudgementKind.JUDGED and each.shown_ms != UNKNOWN_MS:
            times.setdefault(each.annotator, []).append(each.shown_ms)
    return OverviewView(
        campaign=campaign.name.removeprefix("campaigns/"),
        state=CampaignState.Name(campaign.state).removeprefix("CAMPAIGN_STATE_").lower(),
        reason=campaign.reason,
        simulated=campaign.spec.crowd == CROWD_SIMULATED,
        imported=campaign.spec.crowd == CROWD_IMPORTED,
        judgements=campaign.judgements,
        controls=sum(each.controls for each in known.annotators),
        skipped=sum(each.skipped for each in known.annotators),
        wanted=campaign.wanted,
        pairs=campaign.pairs,
        left_out=campaign.left_out,
        round=campaign.round,
        started_at=_moment(campaign, "started_at"),
        ended_at=_moment(campaign, "ended_at"),
        pace=known.last_hour,
        hours=left / known.last_hour if is_open and known.last_hour else None,
        agreements=[_agreement(kept, each.name) for each in campaign.spec.axes],
        forecast=_forecast(campaign, known.words),
        remarks=known.remarks,
        settled_out=campaign.settled_out,
        messages=len(known.messages),
        unanswered=sum(not each.answer for each in known.messages),
        guidelines=[
            GuidelineRow(each.version, each.title, each.current, each.judgements, each.retracted)
            for each in known.guidelines
        ],
        fit=_fit(known.fit) if known.fit else None,
        annotators=[
            _row(
                each,
                known.names.get(each.user, ""),
                times.get(each.key, []),
                [*(found[each.key].words if each.key in found else []), *_unread(each)],
            )
            for each in known.annotators
        ],
    )


def _unread(annotator: Annotator) -> list[str]:
    words = unread(annotator.characters_a_second if annotator.HasField("characters_a_second") else None)
    return [words] if words else []


def _fit(source: FitSource) -> FitNote:
    return FitNote(source.preferences, source.judgements, _moment(source, "fitted_at"), list(source.unidentified))


def _agreement(kept: Sequence[StoredJudgement], axis: str) -> Agreement:
    scores = scores_by_pair(kept, axis)
    compared = sum(len(each) >= 2 for each in scores.values())
    if compared < ALPHA_NEEDS:
        return Agreement(axis, None, compared)
    low, high = bounds(scores.values()) or (None, None)
    return Agreement(axis, alpha(scores.values()), compared, low, high)


def _forecast(campaign: Campaign, words: float | None) -> float | None:
    judgements = campaign.wanted / (1 - campaign.spec.controls)
    return None if words is None else forecast_hours(judgements, words)


def _row(annotator: Annotator, name: str, times: list[int], found: Sequence[str]) -> AnnotatorRow:
    def estimated(name: str) -> Estimated | None:
        if not annotator.HasField(name):  # type: ignore[arg-type]
            return None
        found = getattr(annotator, name)
        margin = NEAR_NINETY_FIVE * found.error
        return Estimated(found.value, found.value - margin, found.value + margin)

    return AnnotatorRow(
        key=annotator.key,
        name=name,
        state=AnnotatorState.Name(annotator.state).removeprefix("ANNOTATOR_STATE_").lower(),
        reason=annotator.reason,
        judged=annotator.judged,
        controls=annotator.controls,
        skipped=annotator.skipped,
        fast=annotator.fast,
        seconds=sorted(times)[len(times) // 2] / 1000 if times else None,
        sharpness=estimated("sharpness"),
        position=estimated("position"),
        length=estimated("length"),
        format=estimated("format"),
        weight=annotator.weight if annotator.HasField("weight") else None,
        restyled=annotator.restyled,
        lacking=max(0, LEAST_CONTROLS - annotator.controls),
        lacking_restyled=max(0, LEAST_RESTYLED - annotator.restyled),
        habits=found,
        set_weight=annotator.set_weight if annotator.HasField("set_weight") else WHOLE,
        weight_reason=annotator.weight_reason,
        proposed=annotator.proposed_weight if annotator.HasField("proposed_weight") else None,
        proposal=annotator.proposal,
    )


def _moment(message: Campaign | FitSource, name: str) -> str:
    if not message.HasField(name):  # type: ignore[arg-type]
        return ""
    found: datetime = getattr(message, name).ToDatetime()
    return f"{found.isoformat()}Z"
