"""Choosing documents by rules over what was measured of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tutti.corpus.documents import decisions
from tutti.corpus.documents.documents import Document
from tutti.corpus.rows import read_rows, write_rows
from tutti.ingest.quality import measures
from tutti.ingest.quality.choosing import RULE_SETS, UnknownLanguage, UnknownRuleSet, choice, choose
from tutti.ingest.quality.rules import UnknownRule
from tutti.ingest.reading.batches import chosen
from tutti.ingest.reading.containers import Text
from tutti.ingest.reading.extraction import extract

ENGLISH = "The people of the town have to be happy with the river that flows through it. " * 5
GERMAN = "Das ist ein Satz, der auf Deutsch geschrieben wurde, damit man ihn erkennt. " * 5
TEXTS = {
    "english": ENGLISH,
    "german": GERMAN,
    "short": "Few words of English are here.",
    "mail": "Write to a@b.org now and tell the people of the town.",
}


def documents(texts: dict[str, str] = TEXTS) -> list[Document]:
    found = [extract(Text(name, text, "")) for name, text in texts.items()]
    return sorted((each for each in found if isinstance(each, Document)), key=lambda each: each.doc_id)


def files(folder: Path, *cut: Sequence[Document]) -> list[Path]:
    paths = [folder / f"measures-{place}.parquet" for place in range(len(cut))]
    for path, part in zip(paths, cut, strict=True):
        measures.write(chosen([measures.measured([measures.inspect(each, ()) for each in part])]), path)
    return paths


def rejected(path: Path) -> dict[str, str]:
    """The rule by the source of each document that goes."""
    names = {each.doc_id: each.source for each in documents()}
    rows = decisions.decode(path.read_bytes()).to_pylist()
    assert [row["doc_id"] for row in rows] == sorted(row["doc_id"] for row in rows)
    return {names[row["doc_id"]]: row["rule"] for row in rows}


def test_without_rules_everything_stays(tmp_path: Path) -> None:
    made = choose(files(tmp_path, documents()), choice([], {}, []), tmp_path / "decisions")
    assert (made.documents, made.rejected, made.rules) == (4, 0, ())
    assert rejected(made.path) == {}


def test_the_first_rule_that_rejects_is_kept_with_what_it_saw(tmp_path: Path) -> None:
    made = choose(
        files(tmp_path, documents()), choice(["no_pii", "gopher_quality"], {}, ["en"]), tmp_path / "decisions"
    )
    assert rejected(made.path) == {"german": "language", "short": "gopher_least_words", "mail": "gopher_least_words"}
    assert made.rules == (("gopher_least_words", 2), ("language", 1))
    assert made.documents == 1
    rows = {row["rule"]: row for row in decisions.decode(made.path.read_bytes()).to_pylist()}
    assert (rows["language"]["language"], rows["language"]["value"], rows["language"]["threshold"]) == (
        "de",
        None,
        None,
    )
    assert rows["gopher_least_words"]["value"] < 50
    assert rows["gopher_least_words"]["threshold"] == 50


def test_what_is_retracted_goes_where_no_rule_rejects_it_anyhow(tmp_path: Path) -> None:
    found, names = files(tmp_path, documents()), {each.source: each.doc_id for each in documents()}
    plain = choice(["no_pii"], {}, [])
    gone = replace(plain, retracted=frozenset({names["german"], names["mail"], "f" * 64}))
    made = choose(found, gone, tmp_path / "decisions")
    assert rejected(made.path) == {"german": "retracted", "mail": "no_pii_emails"}
    (row,) = [row for row in decisions.decode(made.path.read_bytes()).to_pylist() if row["rule"] == "retracted"]
    assert (row["value"], row["threshold"], row["language"]) == (None, None, "de")
    same = replace(plain, retracted=frozenset({names["mail"]}))
    choose(found, plain, tmp_path / "plain")
    assert choose(found, same, tmp_path / "same").path.read_bytes() == (tmp_path / "plain").read_bytes()


def test_a_threshold_is_changed_without_a_text(tmp_path: Path) -> None:
    found = files(tmp_path, documents())
    wanted = choice(["gopher_quality"], {"gopher_least_words": 8, "gopher_stop_words": 0}, [])
    assert rejected(choose(found, wanted, tmp_path / "decisions").path) == {"short": "gopher_least_words"}
    assert rejected(choose(found, choice(["no_pii"], {}, []), tmp_path / "again").path) == {"mail": "no_pii_emails"}


def test_how_documents_were_cut_and_in_which_order_rules_were_named_has_no_say(tmp_path: Path) -> None:
    every = documents()
    written = set()
    for name, cut in (("one", [every]), ("many", [[each] for each in reversed(every)])):
        (tmp_path / name).mkdir()
        for sets in (["c4", "gopher_quality"], ["gopher_quality", "c4"]):
            made = choose(files(tmp_path / name, *cut), choice(sets, {}, ["en"]), tmp_path / name / "decisions")
            written.add(made.path.read_bytes())
    assert len(written) == 1


def test_every_set_decides_on_what_is_measured(tmp_path: Path) -> None:
    made = choose(files(tmp_path, documents()), choice(RULE_SETS, {}, []), tmp_path / "decisions")
    assert made.documents + made.rejected == 4
    write_rows(measures.schema(), [], tmp_path / "none")
    assert choose([tmp_path / "none"], choice(RULE_SETS, {}, ["en"]), tmp_path / "d").documents == 0


def test_what_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(UnknownRuleSet, match=r"gopher_quality.*not 'gofer'"):
        choice(["gofer"], {}, [])
    with pytest.raises(UnknownLanguage, match=r"such as en; not 'English', '\[en\]'"):
        choice([], {}, ["de", "English", "[en]"])
    with pytest.raises(UnknownRule, match=r"'c4_words'; expected one of c4_curly_brackets"):
        choice(["c4"], {"c4_words": 1}, [])
    with pytest.raises(UnknownRule, match=r"'c4_words'; expected none where no rules are asked for"):
        choice([], {"c4_words": 1}, [])
    with pytest.raises(UnknownRule, match="gopher_quality among the rules, the set that has 'gopher_least_words'"):
        choice(["c4"], {"gopher_least_words": 1}, [])


def test_measures_have_a_row_a_document_with_all_that_rules_ask(tmp_path: Path) -> None:
    every = documents({str(number): f"text number {number}" for number in range(600)})
    measures.write(chosen([measures.measured([measures.inspect(each, ()) for each in every])]), tmp_path / "measures")
    table = read_rows(measures.schema(), tmp_path / "measures", "measures")
    assert table["doc_id"].to_pylist() == [each.doc_id for each in every]
    asked = {rule.column for rules in RULE_SETS.values() for rule in rules}
    assert asked <= set(table.column_names)
