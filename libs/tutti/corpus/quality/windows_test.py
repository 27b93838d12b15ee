"""Windows cover a text, are short, and are known as soon as the text has come so far."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.quality.windows import next_end, sentences, windows

TEXTS = st.lists(st.sampled_from(["a", "word ", "end. ", '"yes!" ', "\n", "3.14", " ", "x" * 20, "é。"]), max_size=60)
MOST = st.integers(1, 60)


@given(TEXTS.map("".join), MOST)
def test_windows_are_whole_sentences_that_cover_the_text(text: str, most: int) -> None:
    bounds, found = sentences(text, most), list(windows(text, most))
    assert all(end - begin <= most and begin in bounds for begin, end in found)
    covered = {at for begin, end in found for at in range(begin, end)}
    assert covered == set(range(len(text)))
    for begin, end in found:
        earlier = [at for at in bounds if end - most <= at < begin]
        assert not earlier


@given(TEXTS.map("".join), MOST)
def test_a_sentence_ends_where_it_does_in_every_longer_text(text: str, most: int) -> None:
    bounds = sentences(text, most)
    for begin, end in pairwise(bounds):
        known = {next_end(text[:length], begin, most) for length in range(begin, len(text) + 1)}
        assert known <= {None, end}
