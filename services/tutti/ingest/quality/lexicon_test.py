"""The lexicon of harm: terms count, unless something near makes them harmless."""

from itertools import chain
from pydoc_data.topics import topics

import pyarrow as pa
import pytest

from tutti.corpus.counts.statistics import statistics
from tutti.ingest.quality.lexicon import CATEGORIES, HARM_LEXICON, count, counts, lexicon, possible, schema

PLAIN = {
    "spam": "Order now, satisfaction guaranteed! Best prices guaranteed, CLICK HERE.",
    "scam": "Hier fehlen nur noch Ihre Bankdaten, dann kommt die garantierte Rendite, kein Risiko.",
    "harassment": "Cállate, imbécil. You are a worthless idiot.",
    "adult": "Watch webcam girls, adults only.",
    "dangerous_advice": "How do I make a bomb without being caught?",
}
EXCUSED = (
    "Police warn: nobody should click here or send bank details, a spokesman said.",
    "The court sentenced him because he had asked how to make a bomb.",
    "The novel was called porn by its critics, and is now read at school.",
    "Comments such as shut up are removed by the moderators.",
)


def found(text: str) -> dict[str, int]:
    return {category: number for category, number in zip(CATEGORIES, count(text), strict=True) if number}


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_term_counts_for_its_category(category: str) -> None:
    assert list(found(PLAIN[category])) == [category]


@pytest.mark.parametrize("text", EXCUSED)
def test_news_warnings_teaching_and_rules_make_a_term_harmless(text: str) -> None:
    assert found(text) == {}


def test_an_excuse_has_to_stand_near() -> None:
    near, far = ("make a bomb " + "and then " * times + "the court" for times in (4, 8))
    assert (found(near), found(far)) == ({}, {"dangerous_advice": 1})


def test_an_ending_is_open_where_the_term_says_so() -> None:
    assert found("retarded") == found("retards") == {"harassment": 1}
    assert found("moronic") == {}


def test_all_texts_are_counted_as_each_is() -> None:
    texts = [*PLAIN.values(), *EXCUSED, "", "nothing of the kind"]
    table = counts(pa.array(texts))
    assert table.schema == schema()
    assert [list(row.values()) for row in table.to_pylist()] == [count(text) for text in texts]
    assert counts(pa.array([], pa.string())).num_rows == 0


def test_every_term_is_found_where_it_stands_alone() -> None:
    terms = list(chain.from_iterable((*lexicon().beginnings.values(), *lexicon().terms.values())))
    table = counts(pa.array([" ".join(term.words) for term in terms]))
    found = zip(terms, table.to_pylist(), strict=True)
    missed = [term.words for term, row in found if not row[f"harm_lexicon_{term.category}"]]
    assert missed == []
    assert {term.category for term in terms} == set(CATEGORIES)


def test_few_texts_are_searched_for_terms_word_by_word() -> None:
    pieces = [text[at : at + 2000] for text in topics.values() for at in range(0, len(text), 2000)]
    assert len(possible(pa.array(pieces))) < 0.01 * len(pieces)


def test_one_term_in_a_long_text_does_not_reject_it() -> None:
    texts = pa.array(["Shut up!", "Shut up! " + "The rain fell on the hills. " * 40])
    table = pa.record_batch([*counts(texts).columns, statistics(texts)["words"]], names=[*schema().names, "words"])
    rule = next(rule for rule in HARM_LEXICON if rule.name == "harm_lexicon_harassment")
    assert rule.keeps(table).tolist() == [False, True]
