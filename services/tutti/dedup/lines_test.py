"""Lines that are repeated, or that C4 removes: cut by the file as by a plain computation, whatever the files."""

import random
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.counts.lines import Verdict, stripped, verdict
from tutti.corpus.documents import cuts
from tutti.corpus.documents.cuts import Cuts
from tutti.corpus.documents.documents import Document
from tutti.corpus.texts import buffers
from tutti.dedup import units
from tutti.dedup.clusters_test import document, shards
from tutti.dedup.lines import LineLimits, Lines, find
from tutti.dedup.repeats import commonest, repeated
from tutti.dedup.shards import Texts
from tutti.dedup.units import Unit, Units

NAVIGATION = "Home | About us | Sign in"


def plain(documents: Sequence[Document], wanted: LineLimits) -> dict[str, str]:
    """By id the text that stays: every unit in one dict, nothing in files."""
    between = r"(\n\s*\n)" if wanted.unit is Unit.PARAGRAPH else r"(\n+)"
    holders: dict[str, list[str]] = {}
    split = {each.doc_id: re.split(between, each.text) for each in documents}
    for doc_id, parts in split.items():
        for said in {" ".join(part.split()) for part in parts[::2]}:
            if len(said) >= wanted.least and any(character.isalnum() for character in said):
                holders.setdefault(said, []).append(doc_id)
    found = {}
    for doc_id, parts in split.items():
        stay = []
        for part, behind in zip(parts[::2], [*parts[1::2], ""], strict=True):
            held = sorted(holders.get(" ".join(part.split()), []))
            if len(held) <= wanted.most or doc_id in held[: wanted.keep]:
                stay += [part, behind]
        found[doc_id] = "".join(stay[:-1])
    return found


def left(found: Lines, documents: Sequence[Document], folder: Path) -> dict[str, str]:
    """By id the text that stays, of documents that do."""
    opened = Cuts(found.path, folder)
    gone = {*dict(found.short), *found.bare}
    stay = [each for each in documents if each.doc_id not in gone]
    texts = opened.applied([each.doc_id for each in stay], pa.array([each.text for each in stay], pa.large_string()))
    return {each.doc_id: text for each, text in zip(stay, texts.to_pylist(), strict=True)}


def corpus(seed: int, count: int, ends: Sequence[str] = ("",)) -> list[Document]:
    """Texts of lines and paragraphs, of which some come in many; of scripts of several kinds; each with an end."""
    source = random.Random(seed)
    common = [NAVIGATION, "版权所有 翻印必究", "كل الحقوق محفوظة", "}", "---", "a\u200bb", "x" * 30, "read   more"]
    made = []
    for number in range(count):
        lines = [
            source.choice(common) if source.random() < 0.4 else f"{number} says {source.randrange(3 * count)} of it"
            for _ in range(source.randrange(1, 9))
        ]
        text = "".join(line + source.choice(ends) + source.choice(("\n", "\n", "\n\n")) for line in lines).strip("\n")
        made.append(document(f"{seed}/{number}", text))
    return made


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize(("most", "keep", "least"), [(1, 0, 1), (1, 1, 1), (6, 0, 1), (6, 2, 12)])
def test_what_is_cut_is_what_a_plain_computation_cuts(
    tmp_path: Path, unit: Unit, most: int, keep: int, least: int
) -> None:
    documents = corpus(most + keep, 80)
    wanted = LineLimits(unit, most, keep, least, left=1)
    (tmp_path / "work").mkdir()
    found = find(shards(tmp_path, documents[:30], documents[30:]), wanted, tmp_path / "work", run_rows=64)
    expected = plain(documents, wanted)
    assert {doc_id for doc_id, text in expected.items() if not text.strip()} == {doc_id for doc_id, _ in found.short}
    stay = left(found, documents, tmp_path)
    assert stay == {doc_id: expected[doc_id] for doc_id in stay}
    changed = [each for each in documents if stay.get(each.doc_id, each.text) != each.text]
    assert (found.documents, found.bytes) == (
        len(changed),
        sum(len(each.text.encode()) - len(stay[each.doc_id].encode()) for each in changed),
    )


def kept(text: str) -> list[str]:
    """The lines that C4 keeps."""
    return [line for line in text.split("\n") if stripped(line) and verdict(line) is Verdict.KEPT]


@pytest.mark.parametrize("wanted", [None, LineLimits(Unit.LINE, 6, left=1), LineLimits(Unit.PARAGRAPH, 1, 1, left=1)])
def test_what_c4_removes_is_cut_beside_what_is_repeated(tmp_path: Path, wanted: LineLimits | None) -> None:
    documents = corpus(7, 80, ends=(".", ".", "", " is one of them.", " uses cookies as we do."))
    (tmp_path / "work").mkdir()
    own = shards(tmp_path, documents[:30], documents[30:])
    found = find(own, wanted, tmp_path / "work", clean=True, run_rows=64)
    before = {each.doc_id: each.text for each in documents}
    repeated = plain(documents, wanted) if wanted else before
    expected = {doc_id: kept(text) for doc_id, text in repeated.items()}
    assert set(found.bare) == {doc_id for doc_id, text in before.items() if not kept(text)}
    assert {doc_id for doc_id, lines in expected.items() if not lines} == {*dict(found.short), *found.bare}
    stay = left(found, documents, tmp_path)
    assert {doc_id: [line for line in text.split("\n") if line] for doc_id, text in stay.items()} == {
        doc_id: expected[doc_id] for doc_id in stay
    }
    lines = [line for doc_id in stay for line in before[doc_id].split("\n") if stripped(line)]
    assert found.cleaned == len(lines) - sum(len(kept(before[doc_id])) for doc_id in stay)
    assert found.documents == sum(text != before[doc_id] for doc_id, text in stay.items())


def test_a_document_goes_where_cleaning_leaves_nothing_or_repeats_leave_too_little(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    same, end, own = "This line stands in three of them.", "A short one is kept.", "This line is long enough. " * 3
    texts = {
        "little": f"{same}\n{end}",
        "nothing": f"{same}\nno end",
        "bare": "no end here\nnor here",
        "repeated": f"{same}\n{own}",
        "cleaned": f"{end}\n\nit has no end",
        "whole": "So short is what was not cut.",
    }
    named = {name: document(name, text) for name, text in texts.items()}
    ids = {each.doc_id: name for name, each in named.items()}
    found = find(shards(tmp_path, list(named.values())), LineLimits(most=2, left=60), tmp_path / "work", clean=True)
    assert {ids[doc_id]: count for doc_id, count in found.short} == {"little": len(end), "nothing": 0}
    assert [ids[doc_id] for doc_id in found.bare] == ["bare"]
    stay = {ids[doc_id]: text for doc_id, text in left(found, list(named.values()), tmp_path).items()}
    assert stay == {"cleaned": end, "whole": texts["whole"], "repeated": own}
    assert (found.documents, found.units, found.cleaned) == (2, 1, 1)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("files", [2, 8])
def test_the_answer_does_not_depend_on_files_order_workers_or_memory(tmp_path: Path, files: int, clean: bool) -> None:
    documents = corpus(5, 120, ends=("", " of it."))
    parts = [documents[place::files][::-1] for place in range(files)]
    parts.append(documents[5:40])  # again, in another file
    answers = set()
    for name, cut, rows, workers in (("one", [documents], 1 << 18, 1), ("many", parts[::-1], 50, 4)):
        (tmp_path / name / "work").mkdir(parents=True)
        own, work = shards(tmp_path / name, *cut), tmp_path / name / "work"
        found = find(own, LineLimits(most=2), work, clean=clean, workers=workers, run_rows=rows)
        counted = (found.documents, found.units, found.bytes, found.short, found.examples, found.cleaned, found.bare)
        answers.add((counted, found.path.read_bytes()))
    assert len(answers) == 1


def test_a_document_of_repeated_lines_alone_goes_and_is_counted_for_the_others(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    ours = [document(f"{number}", f"{NAVIGATION}\nThe text of page {number} alone.") for number in range(2)]
    nothing = document("nothing", f"{NAVIGATION}\n  Home |  About us | Sign in")
    found = find(shards(tmp_path, [*ours, nothing]), LineLimits(most=2, left=10), tmp_path / "work")
    assert found.short == ((nothing.doc_id, 0),)
    assert (found.documents, found.units) == (2, 2)
    assert left(found, ours, tmp_path) == {each.doc_id: each.text.split("\n")[1] for each in ours}
    (example,) = found.examples
    assert (example.text, example.documents) == (NAVIGATION, 3)


def test_what_is_left_out_before_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    ours = [document(f"{number}", f"{NAVIGATION}\nPage {number}.") for number in range(3)]
    own = Texts(shards(tmp_path, ours).shards, frozenset({ours[1].doc_id}))
    found = find(own, LineLimits(most=2, left=1), tmp_path / "work")
    assert (found.documents, found.units, found.short, found.examples) == (0, 0, (), ())
    assert pq.read_table(found.path).num_rows == 0  # type: ignore[no-untyped-call]
    assert left(found, ours, tmp_path) == {each.doc_id: each.text for each in ours}


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("版权所有", True),
        ("كل الحقوق", True),
        ("²", True),
        ("}", False),
        ("* * *", False),
        ("\u200b", False),  # of zero width
        ("\u200d\u00ad", False),
        ("😀", False),
    ],
)
def test_a_unit_has_a_letter_or_a_number_of_any_script(line: str, counts: bool) -> None:
    for made in both_ways([line]):
        assert made.counted.any() == counts


def both_ways(texts: Sequence[str], unit: Unit = Unit.LINE, least: int = 1) -> list[Units]:
    """What Python makes of texts, and what the kernel does where there is one."""
    data, offsets = buffers(pa.array(["before", *texts], pa.large_string())[1:])
    made = [units.by_python(data, offsets, unit, least)]
    library = units.native().library
    return [*made, units.by_kernel(library, data, offsets, unit, least)] if library else made


def groups(names: npt.NDArray[np.uint64]) -> list[int]:
    """Of each name the first place where it stands."""
    first: dict[bytes, int] = {}
    return [first.setdefault(name.tobytes(), place) for place, name in enumerate(names)]


def test_units_say_the_same_whatever_white_space_they_have() -> None:
    for made in both_ways(["  a\tb c\na b\u3000c\na b\u200b c", "a  b\u2003c "]):
        assert groups(made.names) == [0, 0, 2, 0]


def test_characters_of_all_scripts_are_taken_alike_by_the_kernel_and_by_python() -> None:
    codes = [code for code in (*range(0x3100), *range(0x3100, 0x110000, 97)) if not 0xD800 <= code < 0xE000]
    texts = ["\n".join(f"a{chr(code)}b\n{chr(code)}" for code in codes[at::8]) for at in range(8)]
    require_equal(*both_ways(texts))


@given(
    texts=st.lists(st.text("ab  \n\n\t\u3000\u00e9}\u4e2d\U0001f600", max_size=60), min_size=1, max_size=5),
    unit=st.sampled_from(Unit),
    least=st.integers(1, 4),
)
def test_the_kernel_finds_what_python_finds(texts: list[str], unit: Unit, least: int) -> None:
    require_equal(*both_ways(texts, unit, least))


def require_equal(made: Units, *others: Units) -> None:
    """The same units, and the same of them say the same, by either half of their names."""
    for other in others:
        for name in ("bounds", "spans", "counted"):
            np.testing.assert_array_equal(getattr(made, name), getattr(other, name))
        said = groups(made.names)
        assert said == groups(other.names[:, 0]) == groups(other.names[:, 1])


@given(
    lines=st.lists(st.sampled_from(["a", "bb", "", "", " \t", "\u00e9 c", "\u3000"]), max_size=12),
    unit=st.sampled_from(Unit),
    data=st.data(),
)
def test_what_stays_is_as_far_apart_as_it_was(lines: list[str], unit: Unit, data: st.DataObject) -> None:
    text = "\n".join(lines)
    made = both_ways(["c\nd", "", text, "e"], unit)[-1]
    ours = slice(*made.bounds[2:4])
    gone = np.zeros(len(made.spans), np.bool_)
    gone[ours] = data.draw(st.lists(st.booleans(), min_size=len(gone[ours]), max_size=len(gone[ours])))
    texts, ranges = units.cut(made, gone)
    assert set(texts.tolist()) <= {2}
    kept = cuts.without(text.encode(), ranges.tolist())
    stay = made.spans[ours][~gone[ours]].tolist()
    assert [kept[begin:end] for begin, end in both_ways([kept.decode()], unit)[-1].spans] == [
        text.encode()[begin:end] for begin, end in stay
    ]
    assert all(first < last for first, last in ranges)
    assert all(before[1] < behind[0] for before, behind in pairwise(ranges))
    assert int(units.characters(np.frombuffer(text.encode(), np.uint8), ranges).sum()) == len(text) - len(kept.decode())
    if not gone.any():
        assert kept == text.encode()


@given(
    rows=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 2)), max_size=60),
    cut=st.integers(1, 9),
    most=st.integers(0, 4),
    data=st.data(),
)
def test_repeats_are_found_whatever_the_cut(
    rows: set[tuple[int, int, int]], cut: int, most: int, data: st.DataObject
) -> None:
    keep = data.draw(st.integers(0, most))
    ordered = np.array([(key, doc << 32 | unit) for key, doc, unit in sorted(rows)], np.uint64).reshape(-1, 2)
    blocks = [ordered[at : at + cut] for at in range(0, len(ordered), cut)]
    holders: dict[int, list[int]] = {}
    for key, doc, _ in sorted(rows):
        if doc not in holders.setdefault(key, []):
            holders[key].append(doc)
    expected = [
        doc << 32 | unit
        for key, doc, unit in sorted(rows)
        if len(holders[key]) > most and doc not in holders[key][:keep]
    ]
    assert [place for some in repeated(blocks, most=most, keep=keep) for place in some.tolist()] == expected
    found = [(each.documents, each.place) for each in commonest(blocks, 3, most=most)]
    first = {key: min(doc << 32 | unit for each, doc, unit in rows if each == key) for key in holders}
    many = sorted((-len(docs), first[key]) for key, docs in holders.items() if len(docs) > most)
    assert found == [(-count, place) for count, place in many[:3]]
