"""The annotators of a campaign, with what is known of their judgements."""

from collections import Counter
from itertools import groupby

from tutti.annotation.judging.habits import habits, speed
from tutti.annotation.judging.judgements import JudgementKind, is_fast
from tutti.annotation.judging.pairs import Kind
from tutti.annotation.judging.records import RETRACTED, Annotator
from tutti.annotation.judging.rows import Rows
from tutti.annotation.publishing import weighing
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import Annotator as WireAnnotator
from tutti.contracts.annotation.v1 import AnnotatorState, Campaign
from tutti.judgements.habits import worked_seconds


def wire(annotator: Annotator) -> WireAnnotator:
    return WireAnnotator(
        campaign=annotator.campaign,
        key=annotator.key,
        user=annotator.user,
        state=AnnotatorState.Value(f"ANNOTATOR_STATE_{annotator.state.upper()}"),
        reason=annotator.reason,
        completion_code=annotator.code,
        set_weight=annotator.weight,
        weight_reason=annotator.weight_reason,
    )


def listed(rows: Rows, unit: Unit, campaign: Campaign) -> list[WireAnnotator]:
    """Every annotator, by key, with counts of judgements: judged, controls and skipped are all pairs but those of the
    qualification. A weight is proposed for those whose habits suggest one.
    """
    counts: dict[str, Counter[str]] = {}
    kept, annotators = list(rows.kept(unit, campaign.name)), rows.annotators(unit, campaign.name)
    for each in kept:
        if each.kind == Kind.QUALIFYING:
            continue
        mine = counts.setdefault(each.annotator, Counter())
        if each.said != JudgementKind.JUDGED:
            mine["skipped"] += 1
        else:
            mine["judged" if each.kind == Kind.ORDINARY else "controls"] += 1
            mine["fast"] += is_fast(each.shown_ms)
            mine["restyled"] += each.kind == Kind.FORMATTED
    counting = {each.key for each in annotators if each.state != RETRACTED}
    by_annotator = {key: list(each) for key, each in groupby(kept, key=lambda each: each.annotator)}
    lengths = rows.lengths(unit, campaign.name) if any(each.user for each in annotators) else {}  # people alone read
    told = habits((each for each in kept if each.annotator in counting), campaign.spec.axes[0].name)
    found = []
    for annotator in annotators:
        made, mine = wire(annotator), counts.get(annotator.key, Counter())
        made.judged, made.controls, made.restyled = mine["judged"], mine["controls"], mine["restyled"]
        made.fast, made.skipped = mine["fast"], mine["skipped"]
        run = told[annotator.key].run if annotator.key in told else None
        proposed = weighing.proposal(made.judged + made.controls, made.fast, run)
        if annotator.key in counting and proposed is not None:
            made.proposed_weight, made.proposal = proposed.value, proposed.reason
        if annotator.user:
            said = by_annotator.get(annotator.key, [])
            made.hours = worked_seconds([each.received_at for each in said]) / 3600
            if (read := speed(said, lengths)) is not None:
                made.characters_a_second = read
        found.append(made)
    return found
