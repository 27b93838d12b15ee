"""Texts: an Arrow array of strings, as measures and kernels take it."""

from __future__ import annotations

from tutti.native.arrays import np, npt, pa

LARGEST = 2**32 - 1  # bytes of one text


class UnreadableTexts(Exception):
    """The texts are of another type, or hold a null, bytes that are not UTF-8, or a text of over LARGEST bytes."""


def require_texts(texts: pa.Array) -> None:
    """Raise UnreadableTexts unless these are strings, none of them null, all of them UTF-8."""
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise UnreadableTexts(f"texts of type {texts.type}; expected string or large_string")
    if texts.null_count:
        raise UnreadableTexts(f"{texts.null_count} of {len(texts)} texts are null; expected none")
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise UnreadableTexts(f"{error}; decode them before they are measured") from error


def buffers(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of an array, uint8, and where each text begins and the last ends, int64 [texts + 1].

    Raises UnreadableTexts. The bytes are not copied: keep `texts` while they are used.
    """
    require_texts(texts)
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = texts.buffers()
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    bounds = np.frombuffer(offsets, width)[texts.offset : texts.offset + len(texts) + 1]
    if (size := int(np.diff(bounds).max())) > LARGEST:
        raise UnreadableTexts(
            f"a text of {size} bytes; expected at most {LARGEST}: split it, or reject it when it is read"
        )
    held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return held, np.ascontiguousarray(bounds, np.int64)
