"""The visible text equals a naive reading of the whole completion: however tokens cut characters and stops."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tutti.chat.visible import Visible

SPELLED = [*(bytes([byte]) for byte in range(256)), b"ab", b"abc", b"\xc3\xa9b", b"", "aé€".encode()]
TOKENS = st.lists(st.sampled_from(range(len(SPELLED))) | st.sampled_from([97, 98, 99, 256, 257, 258, 260]), max_size=30)
STOPS = st.lists(st.text("abcé€\ufffd", min_size=1, max_size=4), max_size=4)


def naive(tokens: Sequence[int], stops: Sequence[str]) -> tuple[str, bool]:
    """Read the whole text, then look at each of its beginnings in turn."""
    whole = b"".join(SPELLED[token] for token in tokens).decode(errors="replace")
    for end in range(1, len(whole) + 1):
        ending = [stop for stop in stops if whole[:end].endswith(stop)]
        if ending:
            return whole[: end - max(map(len, ending))], True
    return whole, False


@given(TOKENS, STOPS)
def test_what_is_shown_is_the_text_up_to_the_first_stop_string(tokens: list[int], stops: list[str]) -> None:
    visible, shown = Visible(SPELLED, stops), ""
    text, stopped = naive(tokens, stops)
    for token in tokens:
        shown += visible.push(token)
        assert text.startswith(shown)
    shown += visible.finish()
    assert (shown, visible.stopped) == (text, stopped)


@given(TOKENS)
def test_without_stop_strings_only_parts_of_characters_are_held_back(tokens: list[int]) -> None:
    visible, shown = Visible(SPELLED), ""
    for count, token in enumerate(tokens, 1):
        shown += visible.push(token)
        whole = b"".join(SPELLED[each] for each in tokens[:count]).decode(errors="replace")
        assert len(whole) - len(shown) <= 3
