"""Sets of several campaigns as one: nobody is mixed up, and a single set is left as it is."""

from tutti.annotation.publishing.fitting import fitted
from tutti.annotation.publishing.merging import merged, whose
from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.judgementset import JudgementLine, PairLine

AXIS = "helpful"


def judged(*numbers: int, scores: int = -1, who: str = "a000") -> tuple[list[PairLine], list[JudgementLine]]:
    """Pairs of these numbers, each judged once."""
    pairs = [
        PairLine(each, "ordinary", (Message(Role.USER, f"question {each}"),), (f"answer {each}", "other"))
        for each in numbers
    ]
    return pairs, [JudgementLine(each, who, "g", bool(each % 2), {AXIS: scores}) for each in numbers]


def test_a_single_set_is_left_as_it_is() -> None:
    alone = judged(3, 5)
    assert merged([alone]) == alone


def test_equal_numbers_and_keys_of_two_campaigns_stay_apart() -> None:
    pairs, said = merged([judged(3, 5), judged(3), judged(0, who="a001")])
    assert [each.number for each in pairs] == [3, 5, 9, 10]
    assert [each.pair for each in said] == [each.number for each in pairs]
    assert [whose(each.annotator) for each in said] == [("a000", 0), ("a000", 0), ("a000", 1), ("a001", 2)]


def test_both_rounds_decide() -> None:
    rounds = [judged(*range(6)), judged(*range(6), scores=1)]
    found = fitted(*merged(rounds), AXIS)
    assert [each.first > 0.5 for each in found.preferences] == [True] * 6 + [False] * 6
    assert [each.key for each in found.annotators] == ["a000", "a000@2"]
