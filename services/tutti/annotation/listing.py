"""The annotators of a campaign, with what is known of their judgements."""

from collections import Counter

from tutti.annotation.judgements import JudgementKind, is_fast
from tutti.annotation.pairs import Kind
from tutti.annotation.rows import Annotator, Rows
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import Annotator as WireAnnotator
from tutti.contracts.annotation.v1 import AnnotatorState


def wire(annotator: Annotator) -> WireAnnotator:
    return WireAnnotator(
        campaign=annotator.campaign,
        key=annotator.key,
        user=annotator.user,
        state=AnnotatorState.Value(f"ANNOTATOR_STATE_{annotator.state.upper()}"),
        reason=annotator.reason,
        completion_code=annotator.code,
    )


def listed(rows: Rows, unit: Unit, campaign: str) -> list[WireAnnotator]:
    """Every annotator, by key, with counts of judgements: judged, controls and skipped are all pairs but those of the
    qualification.
    """
    counts: dict[str, Counter[str]] = {}
    for each in rows.kept(unit, campaign):
        if each.kind == Kind.QUALIFYING:
            continue
        mine = counts.setdefault(each.annotator, Counter())
        if each.said != JudgementKind.JUDGED:
            mine["skipped"] += 1
        else:
            mine["judged" if each.kind == Kind.ORDINARY else "controls"] += 1
            mine["fast"] += is_fast(each.shown_ms)
    found = []
    for annotator in rows.annotators(unit, campaign):
        made, mine = wire(annotator), counts.get(annotator.key, Counter())
        made.judged, made.controls = mine["judged"], mine["controls"]
        made.fast, made.skipped = mine["fast"], mine["skipped"]
        found.append(made)
    return found
