from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.store.clipping import clipped


@given(st.text(), st.integers(3, 40))
def test_a_text_is_kept_or_its_beginning_is(text: str, size: int) -> None:
    kept = clipped(text, size)
    assert len(kept.encode()) <= size
    assert kept == text or (kept.endswith("…") and text.startswith(kept[:-1]) and len(text.encode()) > size)
