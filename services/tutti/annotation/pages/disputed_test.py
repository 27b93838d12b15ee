"""Which pairs an owner should look at, and what stands beside them."""

from tutti.annotation.judging.pairs import Kind, Pair, Verdict
from tutti.annotation.judging.records import StoredJudgement
from tutti.annotation.judging.remarks import Remark
from tutti.annotation.judging.verdicts import Settled
from tutti.annotation.pages.disputed import PairTexts, Said, differing, marked, shown
from tutti.corpus.conversations.conversations import Message, Role

AXES = ("helpful", "true")


def said(pair: str, annotator: str, score: int | str, *, flipped: bool = False, **changes: str) -> StoredJudgement:
    given = {"kind": "ordinary", "said": "judged"} | changes
    scores = {"helpful": score, "true": 0}
    return StoredJudgement(annotator + pair, annotator, pair, given["kind"], flipped, scores, given["said"], "g", 1000)


def test_pairs_with_judgements_on_both_sides_are_named_the_widest_difference_first() -> None:
    kept = [
        *(said("near", each, score) for each, score in (("a", -1), ("b", 1))),
        *(said("wide", each, score) for each, score in (("a", 2), ("b", -2))),
        *(said("turned", each, 2, flipped=each == "b") for each in "ab"),
        *(said("agreed", each, score) for each, score in (("a", 2), ("b", 1))),
        *(said("undecided", each, score) for each, score in (("a", 2), ("b", 0), ("c", "both_bad"))),
        *(said("control", each, score, kind="swapped") for each, score in (("a", 2), ("b", -2))),
    ]
    assert differing(kept, AXES, 10) == dict.fromkeys(["turned", "wide", "near"], "annotators differ on helpful")
    assert list(differing(kept, AXES, 1)) == ["turned"]


def test_flagged_pairs_come_before_skipped_ones_and_those_before_comments() -> None:
    remarks = [
        Remark("a", "p1", "judged", "", "hm"),
        Remark("a", "p2", "skipped", "unclear", ""),
        Remark("a", "p3", "flagged", "harmful", ""),
        Remark("b", "p1", "flagged", "harmful", ""),
    ]
    assert marked(remarks, 10) == {"p3": "flagged", "p1": "flagged", "p2": "skipped"}
    assert list(marked(remarks, 1)) == ["p3"]


def test_a_pair_is_shown_with_all_that_was_said_of_it_in_its_own_order() -> None:
    prompt = (Message(Role.USER, "why?"),)
    pair = Pair("p1", 0, Kind.ORDINARY, prompt, ("first", "second"))
    kept = [said("p1", "a", 2, flipped=True), said("p1", "b", "both_bad"), said("p2", "a", 1)]
    remarks, decided = [Remark("b", "p1", "judged", "", "no")], {"p1": Settled(Verdict.KEPT, "it is fine")}
    (found,) = shown({"p1": "flagged", "gone": "flagged"}, {"p1": pair}, kept, remarks, decided)
    assert (found.texts, found.why) == (PairTexts([("user", "why?")], ("first", "second")), "flagged")
    assert (found.verdict, found.decision) == ("kept", "it is fine")
    assert found.said == [
        Said("a", "judged", [("helpful", "first much better"), ("true", "equal")], "", ""),
        Said("b", "judged", [("helpful", "both bad"), ("true", "equal")], "", "no"),
    ]
