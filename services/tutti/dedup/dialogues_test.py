"""Near-duplicates among conversations: what a comparison of all pairs finds, in any order, and none that are short."""

import random
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.conversations.conversations import Conversation, Message, Role
from tutti.dedup.dialogues import LEAST_SHINGLES, repeated
from tutti.dedup.near import THRESHOLD
from tutti.dedup.near_test import clusters, shingled
from tutti.judgements import letters

WORDS = [f"w{number}" for number in range(2000)]
LONG = WORDS[:100]
SYSTEMS = ("", "Be brief.", "Answer in French.")


def asked(words: Sequence[str] | str, *answers: str, system: str = "") -> Conversation:
    question = words if isinstance(words, str) else " ".join(words)
    roles = (Role.USER, Role.ASSISTANT) * (1 + len(answers))
    messages = [Message(role, text) for role, text in zip(roles, (question, *answers), strict=False)]
    return Conversation((*([Message(Role.SYSTEM, system)] if system else []), *messages))


def planted(seed: int) -> list[Conversation]:
    """Conversations of 30 to 120 words, some of which are changed copies of others, under a few system messages."""
    source = random.Random(seed)
    found = []
    for _ in range(20):
        words = source.choices(WORDS, k=source.randrange(30, 120))
        for _ in range(source.choice([1, 1, 2, 4])):
            cut = source.randrange(1, len(words))
            system = source.choices(SYSTEMS, [4, 1, 1])[0]
            found.append(asked(words[:cut], " ".join(words[cut:]), system=system))
            for _ in range(source.randrange(3)):
                words[source.randrange(len(words))] = source.choice(WORDS)
    return found


def compared(conversations: Sequence[Conversation]) -> dict[str, str]:
    """The smallest digest of the cluster of each near-duplicate, found by a comparison of all pairs."""
    texts: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for each in conversations:
        first = each.messages[0]
        system, rest = (first.content, each.messages[1:]) if first.role is Role.SYSTEM else ("", each.messages)
        texts[system, each.digest] = shingled(" ".join(message.content for message in rest))
    long = [(name, shingles) for name, shingles in texts.items() if len(shingles) >= LEAST_SHINGLES]
    alike = [
        (one[1], other[1])
        for (one, first), (other, second) in combinations(long, 2)
        if one[0] == other[0] and len(first & second) / len(first | second) >= THRESHOLD
    ]
    return clusters(alike)


@given(seed=st.integers(0, 10_000), order=st.randoms())
@settings(max_examples=6)
def test_near_duplicates_are_those_of_all_pairs_in_any_order(seed: int, order: random.Random) -> None:
    conversations = planted(seed)
    found = repeated(conversations)
    expected = compared(conversations)
    for each in found:
        assert each.similarity == 0 or each.similarity >= THRESHOLD
        assert each.of < each.digest
        assert expected[each.digest] == expected[each.of], "no pair below the threshold makes a cluster"
    duplicates = sum(digest != smallest for digest, smallest in expected.items())
    assert len(found) >= 0.8 * duplicates, "a band may miss a pair that is hardly similar enough"
    order.shuffle(conversations)
    assert repeated(conversations) == found


def test_one_changed_word_makes_a_near_duplicate_wherever_it_is_and_none_of_a_shorter_text() -> None:
    enough = LEAST_SHINGLES + 4
    for place in range(enough):
        for count in (enough, enough - 1):
            words = LONG[:count]
            changed = [*words[:place], "changed", *words[place + 1 :]]
            found = repeated([asked(words), asked(changed)])
            assert len(found) == (count == enough), (place, count)


def test_the_smallest_digest_represents_a_near_duplicate() -> None:
    one, other = sorted([asked(LONG).digest, asked([*LONG, "more"]).digest])
    [found] = repeated([asked([*LONG, "more"]), asked(LONG)])
    assert (found.digest, found.of, found.similarity) == (other, one, 96 / 97)


def test_conversations_with_other_system_messages_or_answers_are_no_near_duplicates() -> None:
    said, written = " ".join(WORDS[200:300]), " ".join(WORDS[300:400])
    assert repeated([asked(LONG), asked(LONG, system=SYSTEMS[1]), asked(LONG, system=SYSTEMS[2])]) == []
    assert repeated([asked(LONG, said), asked(LONG, written)]) == []
    assert len(repeated([asked([*LONG, "more"], system=SYSTEMS[1]), asked(LONG, system=SYSTEMS[1])])) == 1


def test_a_system_message_that_all_have_makes_nothing_alike() -> None:
    system = " ".join(WORDS[:500])
    assert repeated([asked("Why?", system=system), asked("When?", system=system)]) == []


def test_short_prompts_and_demonstrations_are_never_near_duplicates() -> None:
    rng = np.random.default_rng(0)
    prompts = sorted({letters.prompt(rng) for _ in range(300)})
    demonstrations = [asked(prompt, letters.demonstration(prompt, rng)) for prompt in prompts]
    sums = [asked("What is 2 + 2?"), asked("What is 2 - 2?"), asked("what is 2 2")]
    assert repeated([*map(asked, prompts), *demonstrations, *sums]) == []
    assert repeated([asked("ha " * 500), asked("Ha! " * 400)]) == []


def test_there_are_no_near_duplicates_of_nothing() -> None:
    assert repeated([]) == []
    assert repeated([asked(LONG)]) == []
