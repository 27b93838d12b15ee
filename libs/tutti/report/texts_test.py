"""Texts to compare tokenizers on: which are taken, how many of each language, and of which shards."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.client.unusable import Unusable
from tutti.contracts.tokenization.v1 import DatasetFile
from tutti.corpus.documents.samples import TRAIN, Sample
from tutti.corpus.rows import write_rows
from tutti.report.texts import CODE, UNDETERMINED, Group, Spoken, by_language, grouped, ordered, samples, within

TOLD = st.lists(st.tuples(st.sampled_from(["en", "de", "und"]), st.text(max_size=12)), max_size=30)
SCHEMA = pa.schema([pa.field("doc_id", pa.string()), pa.field("language", pa.string())])


def test_samples_are_files_and_folders_of_text(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "b.txt").write_text("b")
    (tmp_path / "deep" / "er" / "a.txt").write_text("ä")
    (tmp_path / "deep" / "c.png").write_bytes(b"\x89PNG\xff")
    (tmp_path / "deep" / "empty").write_text("")
    assert samples([tmp_path / "deep", tmp_path / "deep" / "b.txt"]) == [
        Group(str(tmp_path / "deep"), ("b", "ä")),
        Group(str(tmp_path / "deep" / "b.txt"), ("b",)),
    ]
    (tmp_path / "long").write_text("xä and more")
    assert samples([tmp_path / "long"], 2) == [Group(str(tmp_path / "long"), ("x",))]
    (code,) = samples([], 100)
    assert code.name == CODE
    with pytest.raises(Unusable, match="has no text in UTF-8"):
        samples([tmp_path / "deep" / "c.png"])


@given(TOLD)
def test_the_groups_are_all_of_the_sample_where_there_is_room(told: list[tuple[str, str]]) -> None:
    found, _ = grouped(told, {"none such": 1}, 1 << 20)
    assert found == {name: [text for at, text in told if at == name and text] for name in dict(told) if found.get(name)}
    whole = sum(len(text.encode()) for _, text in told)
    assert sum(Group(name, tuple(some)).bytes for name, some in found.items()) == whole


@given(TOLD, st.integers(1, 20))
def test_of_each_language_there_is_the_beginning_of_its_texts(told: list[tuple[str, str]], most: int) -> None:
    found, _ = grouped(told, {"none such": 1}, most)
    for name in dict(told):
        whole, kept = "".join(text for at, text in told if at == name), "".join(found.get(name, ()))
        assert whole.startswith(kept)
        rest = whole[len(kept) : len(kept) + 1]
        assert len(kept.encode()) <= most < len(f"{kept}{rest}".encode()) or not rest


@given(TOLD, st.dictionaries(st.sampled_from(["en", "de", "und"]), st.integers(1, 9), min_size=1), st.integers(9, 20))
def test_no_more_is_read_than_until_there_is_enough_of_all_that_is_wanted(
    told: list[tuple[str, str]], wanted: dict[str, int], most: int
) -> None:
    read = list[tuple[str, str]]()

    def reading() -> Iterator[tuple[str, str]]:
        for each in told:
            read.append(each)
            yield each

    def enough(some: list[tuple[str, str]]) -> bool:
        sizes = Counter[str]()
        for name, text in some:
            sizes[name] += len(text.encode())
        return all(sizes[name] >= size for name, size in wanted.items())

    _, ended = grouped(reading(), wanted, most)
    assert ended == (bool(told) and enough(read))
    assert ended or len(read) == len(told)
    assert not enough(read[:-1])


def test_a_language_with_little_text_tells_nothing() -> None:
    much, little = Group("en", ("x" * 1000,)), Group("fr", ("é" * 499,))
    found = Spoken((much, little), told=True, partly=False)
    assert (found.enough, found.few) == ((much,), (little,))


def test_shards_are_looked_at_in_an_order_of_no_meaning_each_with_its_own_measures() -> None:
    shards = [
        DatasetFile(key=f"shard {at}", holds="documents", bytes=at, bytes_digest=f"{7 * at % 5}") for at in range(5)
    ]
    measures = [DatasetFile(key=f"measures {at}", holds="measures") for at in range(5)]
    left_out = DatasetFile(key="decisions", holds="decisions")
    found, beside = ordered([*shards, left_out, *measures])
    assert [each.bytes_digest for each in found] == ["0", "1", "2", "3", "4"]
    assert [each.key.split()[1] for each in found] == [each.key.split()[1] for each in beside]
    assert ordered([*shards, *measures[:3]]) == (found, measures[:3])
    assert [each.bytes for each in within(shards, 3)] == [0, 1, 2]
    assert within(found[3:], 1) == found[3:4]


def test_what_was_told_of_a_document_is_looked_up_when_it_is_read(tmp_path: Path) -> None:
    opened = list[str]()

    def measures() -> Iterator[Path]:
        for name, told in (("first", {"a": "en", "b": "de"}), ("second", {"c": "fr"}), ("third", {"d": "nl"})):
            rows = pa.record_batch([list(told), list(told.values())], schema=SCHEMA)
            write_rows(SCHEMA, [rows], tmp_path / name)
            opened.append(name)
            yield tmp_path / name

    def documents(*names: str) -> Iterator[Sample]:
        return (Sample(TRAIN, name, "", "", "text/plain", f"text of {name}") for name in names)

    files = measures()
    assert list(by_language(documents("b", "a"), files)) == [("de", "text of b"), ("en", "text of a")]
    assert opened == ["first"]
    assert [language for language, _ in by_language(documents("c", "none", "d"), files)] == ["fr", UNDETERMINED, "nl"]
