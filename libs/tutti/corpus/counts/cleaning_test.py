"""Cleaning: the lines of texts and what C4 does with each, the same from the kernel and from Python."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.counts import statistics
from tutti.corpus.counts.cleaning import VERDICTS, Judged, by_kernel, by_python, judged
from tutti.corpus.counts.lines import Verdict
from tutti.corpus.counts.statistics_test import KERNEL, LINES, TEXTS
from tutti.corpus.texts import buffers


def both_ways(texts: Sequence[str]) -> list[Judged]:
    """What Python makes of texts, and what the kernel does where there is one."""
    data, offsets = buffers(pa.array(["before", *texts], pa.large_string())[1:])
    library = statistics.native().library
    return [by_python(data, offsets), *([by_kernel(library, data, offsets)] if library else [])]


@KERNEL
@settings(max_examples=200)
@given(texts=st.lists(st.one_of(TEXTS, st.lists(st.sampled_from(list(LINES)), max_size=6).map("\n".join)), max_size=4))
def test_kernel_and_python_judge_every_line_alike(texts: list[str]) -> None:
    ours, theirs = both_ways(texts)
    for name in ("bounds", "spans", "verdicts"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@settings(max_examples=60)
@given(text=TEXTS)
def test_lines_are_judged_as_they_are_counted(text: str) -> None:
    counted = statistics.statistics(pa.array([text])).to_pylist()[0]
    found = Counter(VERDICTS[each] for each in judged(pa.array([text])).verdicts)
    assert {each: counted[each.value] for each in Verdict} == {each: found[each] for each in Verdict}


@pytest.mark.parametrize("text", ["", "\n", " \n\u200b\n", "\u00e9 is not ended\n\nThis line ends as it should.\n \nx"])
def test_a_line_lies_where_it_stands_and_a_blank_one_is_none(text: str) -> None:
    for found in both_ways([text]):
        lines = [text.encode()[begin:end].decode() for begin, end in found.spans]
        assert lines == [line for line in text.split("\n") if line.strip(" \u200b")]
        assert [line for line, kept in zip(lines, found.kept, strict=True) if kept] == [
            line for line in lines if LINES.get(line) is Verdict.KEPT
        ]
