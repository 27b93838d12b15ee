"""The overview of a campaign: agreement over displayed sides, pace, and estimates with intervals."""

import pytest

from tutti.annotation.judging.habits import scores_by_pair
from tutti.annotation.judging.records import StoredJudgement
from tutti.annotation.pages.overview import ALPHA_NEEDS, Agreement, Overview, overview
from tutti.contracts.annotation.v1 import (
    ANNOTATOR_STATE_ACTIVE,
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PAUSED,
    CROWD_PEOPLE,
    Annotator,
    Axis,
    Campaign,
    CampaignSpec,
    Estimate,
)
from tutti.judgements import LEAST_CONTROLS, LEAST_RESTYLED


def campaign(**changes: object) -> Campaign:
    spec = CampaignSpec(axes=[Axis(name="helpful"), Axis(name="true")], crowd=CROWD_PEOPLE)
    given = {"name": "campaigns/a", "spec": spec, "state": CAMPAIGN_STATE_OPEN, "judgements": 20, "wanted": 50}
    return Campaign(**{**given, **changes})  # type: ignore[arg-type]


def kept(
    number: int,
    annotator: str,
    score: int | str,
    *,
    flipped: bool = False,
    kind: str = "ordinary",
    shown_ms: int | None = None,
) -> StoredJudgement:
    scores = {"helpful": score, "true": 2}
    shown_ms = 1000 * number if shown_ms is None else shown_ms
    return StoredJudgement(
        f"{annotator}{number}", annotator, f"p{number}", kind, flipped, scores, "judged", "g", shown_ms
    )


def test_a_score_is_turned_to_the_order_of_the_pair_and_both_bad_does_not_count() -> None:
    found = [
        kept(1, "a", -2),
        kept(1, "b", 2, flipped=True),
        kept(1, "c", "both_bad"),
        kept(2, "a", 1, kind="filler"),
    ]
    assert scores_by_pair(found, "helpful") == {"p1": [-2.0, -2.0]}


def test_annotators_who_say_the_same_of_turned_pairs_agree_fully() -> None:
    every = [
        kept(number, name, score if name == "a" else -score, flipped=name == "b")
        for number, score in enumerate([-2, -1, 1, 2] * 3)
        for name in "ab"
    ]
    view = overview(Overview(campaign(), every, [], last_hour=10))
    helpful, true = view.agreements
    assert helpful == Agreement("helpful", 1.0, 12)
    assert (true.axis, true.compared) == ("true", 12)
    assert true.alpha == pytest.approx(-11 / 12)
    assert (helpful.low, helpful.high) == (None, None)
    some = [kept(number, key, score) for key in "ab" for number, score in enumerate([-2, -1, 1, 2] * 5)]
    (each, _) = overview(Overview(campaign(), [*some, kept(20, "a", 1), kept(20, "b", -1)], [])).agreements
    assert each.alpha is not None
    assert each.low is not None
    assert each.high is not None
    assert each.low < each.alpha < each.high
    few = overview(Overview(campaign(), every[: 2 * ALPHA_NEEDS - 2], []))
    assert few.agreements[0] == Agreement("helpful", None, ALPHA_NEEDS - 1)


@pytest.mark.parametrize(
    ("state", "pace", "hours"),
    [(CAMPAIGN_STATE_OPEN, 10, 3.0), (CAMPAIGN_STATE_OPEN, 0, None), (CAMPAIGN_STATE_PAUSED, 10, None)],
)
def test_the_time_that_is_left_follows_from_the_last_hour(state: int, pace: int, hours: float | None) -> None:
    assert overview(Overview(campaign(state=state), [], [], last_hour=pace)).hours == hours


def test_habits_are_told_in_words() -> None:
    careful = [kept(number, key, score) for key in "ade" for number, score in enumerate([-2, -1, 1, 2] * 25)]
    fading = [kept(number, "b", score if number < 50 else -score) for number, score in enumerate([-1, -2, 2, 1] * 25)]
    straight = [kept(number, "c", 1) for number in range(100)]
    hasty = [kept(number, "f", score, shown_ms=2500) for number, score in enumerate([-2, -1, 1, 2] * 25)]
    judged = [*careful, *fading, *straight, *hasty]
    view = overview(Overview(campaign(), judged, [Annotator(key=key) for key in "abcdef"]))
    told = {each.key: each.habits for each in view.annotators}
    assert [told[key] for key in "ade"] == [[], [], []]
    (fades,) = told["b"]
    assert [fades.count(each) for each in ("100.0% (", "to 7.1%", "n = 50")] == [1, 1, 2]
    assert told["c"] == ["right better 100 times in a row"]
    assert told["f"] == ["takes 2.5 s for a pair, others 49.5 s"]


def test_estimates_have_intervals_and_are_missing_before_a_fit() -> None:
    fitted = Annotator(
        key="a000",
        state=ANNOTATOR_STATE_ACTIVE,
        judged=3,
        sharpness=Estimate(value=1.0, error=0.5),
        format=Estimate(value=-0.5, error=0.5),
        weight=0.7,
    )
    view = overview(Overview(campaign(), [kept(number, "a000", 1) for number in (1, 2, 9)], [fitted]))
    (row,) = view.annotators
    assert (row.key, row.state, row.judged, row.seconds, row.position) == ("a000", "active", 3, 2.0, None)
    assert row.sharpness is not None
    assert (row.sharpness.value, row.sharpness.low, row.sharpness.high) == pytest.approx((1.0, 0.02, 1.98))
    assert row.format is not None
    assert (row.format.value, row.format.low, row.format.high) == pytest.approx((-0.5, -1.48, 0.48))
    assert row.weight == pytest.approx(0.7)


def test_biases_lack_controls_and_pairs_beside_judgements_are_counted() -> None:
    few = Annotator(key="a000", judged=7, controls=2, restyled=1, skipped=3, position=Estimate(value=1.0, error=0.5))
    enough = Annotator(key="a001", judged=7, controls=LEAST_CONTROLS, restyled=LEAST_RESTYLED)
    view = overview(Overview(campaign(), [], [few, enough]))
    assert [each.lacking for each in view.annotators] == [LEAST_CONTROLS - 2, 0]
    assert [(each.restyled, each.lacking_restyled) for each in view.annotators] == [
        (1, LEAST_RESTYLED - 1),
        (LEAST_RESTYLED, 0),
    ]
    assert (view.controls, view.skipped) == (2 + LEAST_CONTROLS, 3)
