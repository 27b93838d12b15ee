"""Tables of confusion on texts that nothing was learnt from: languages, and a classifier of quality."""

import pydoc
from collections import Counter

from benchmarks.classifiers import prose_and_listings
from benchmarks.confusion import confusion
from benchmarks.harm import carried
from benchmarks.languages import sentences, told

MODULES = ("argparse", "asyncio", "decimal", "email.message", "http.client", "logging", "pathlib", "typing", "unittest")


def test_a_table_has_a_row_for_each_true_label_and_a_column_for_each_told_one() -> None:
    whole, first, other = confusion("x", [("a", "a"), ("a", "b"), ("a", "c"), ("a", "b"), ("b", "b")])
    assert (whole.ours, whole.note) == (40, "2 of 5")
    assert (first.what, first.ours, first.note) == ("  x, a: right", 25, "told a 1, b 2, c 1")
    assert (other.ours, other.note) == (100, "told b 1")


def test_thirty_languages_are_told_by_a_sentence() -> None:
    table = Counter(told(sentences()))
    assert len({true for true, _ in table}) == 30
    assert table.total() == 180
    assert sum(count for (true, answer), count in table.items() if true == answer) >= 0.98 * 180
    assert all(table[true, true] >= 5 for true, _ in table)


def test_texts_of_harm_are_told_in_their_three_languages() -> None:
    table = Counter(told((each.language, each.text) for each in carried()))
    assert {true for true, _ in table} == {"en", "de", "es"}
    wrong = sum(count for (true, answer), count in table.items() if true != answer)
    assert wrong <= 0.01 * table.total()


def test_prose_is_told_from_listings_that_were_held_out() -> None:
    read = [pydoc.plain(pydoc.render_doc(name)) for name in MODULES]
    lesson = prose_and_listings(read)
    table = Counter[tuple[str, str]]()
    for row in lesson.held:
        for name, count in row.told:
            table[row.label, name] += count
    prose, listings = (table[label, "prose"] + table[label, "listing"] for label in ("prose", "listing"))
    assert min(prose, listings) >= 100
    assert table["listing", "listing"] >= 0.8 * listings
    assert table["prose", "listing"] <= 0.02 * prose
