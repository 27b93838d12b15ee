"""Byte pairs by the kernel (bpe.c): words of texts counted, merges learned from them, ids of texts.

Promises: what `tokenizers` gives for Llama 3's pattern, bit for bit and many times sooner; that library is the twin
where there is no compiler, and for every other pattern. Calls release the GIL.
"""

from __future__ import annotations

import ctypes
import functools
import secrets
import threading
import weakref
from pathlib import Path
from typing import TypeAlias

from tutti.corpus.texts import buffers
from tutti.native.arrays import np, npt, pa
from tutti.native.native import Kernel, kernel

# The split pattern of Llama 3: contractions, words, up to three digits, punctuation, space.
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LONGEST_WORD = 1024
"""Characters; a longer word is learned from as its parts of so many."""

SOURCE = Path(__file__).with_name("bpe.c")
CHARACTERS = Path(__file__).with_name("wordcharacters.txt")
CODES = 0x110000
KINDS = "LNS"
_PLACES = 1 << 16
_PLACE_BYTES = 64
_ABSENT = 0xFFFF_FFFF
_MERGE = [("pair", "<u8"), ("rank", "<u4"), ("id", "<u4")]

Merges: TypeAlias = "npt.NDArray[np.uint32]"
"""uint32 [merges, 3]: left, right, and the token that they become, in the order in which they were learned.

No token is learned twice: what is spelled alike is cut alike, wherever it stands between two tokens."""


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    found = kernel(SOURCE)
    if found.library is not None:
        _declare(found.library)
    return found


@functools.cache
def characters() -> bytes:
    """One byte for every code point: 1 for a letter, 2 for a number, 3 for space, as in wordcharacters.txt."""
    table = bytearray(CODES)
    for line in CHARACTERS.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            span, kind = line.split(" ")
            first, last = (int(code, 16) for code in span.split(".."))
            table[first : last + 1] = bytes([1 + KINDS.index(kind)]) * (last + 1 - first)
    return bytes(table)


@functools.cache
def spelling() -> tuple[str, ...]:
    """The character for each byte in a tokenizer.json: itself where it can be seen, else one from U+0100 on.

    Radford et al. 2019, the code of GPT-2.
    """
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = {byte: 0x100 + place for place, byte in enumerate(byte for byte in range(256) if byte not in seen)}
    return tuple(chr(others.get(byte, byte)) for byte in range(256))


@functools.cache
def byte_ids() -> npt.NDArray[np.uint32]:
    """The token of each byte, uint32 [256]: tokens are in the order of the characters that stand for them."""
    ids = np.empty(256, np.uint32)
    ids[np.argsort([ord(character) for character in spelling()])] = np.arange(256)
    return ids


class Encoder:
    """Ids of texts under merges; threads may share it."""

    def __init__(self, library: ctypes.CDLL, merges: Merges) -> None:
        size = 1 << max(8, (2 * len(merges)).bit_length())
        self._library = library
        self._table = np.zeros(size, _MERGE)
        self._table["rank"] = _ABSENT
        self._known = threading.local()
        ordered = np.ascontiguousarray(merges, np.uint32)
        library.bpe_table(ordered.ctypes.data, len(ordered), self._table.ctypes.data, size - 1)

    def encode(self, texts: pa.Array) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """The ids of all texts of a string array one behind the other, and how many each has.

        A word of n bytes takes about 60 n bytes while it is merged. Raises UnreadableTexts.
        """
        data, offsets = buffers(texts)
        ids = np.empty(int(offsets[-1] - offsets[0]), np.uint32)
        counts = np.empty(len(offsets) - 1, np.int64)
        if not hasattr(self._known, "places"):
            self._known.places = np.zeros(_PLACES * _PLACE_BYTES, np.uint8)
        failed = self._library.bpe_encode(
            data.ctypes.data, offsets.ctypes.data, len(counts), characters(), self._table.ctypes.data,
            len(self._table) - 1, byte_ids().ctypes.data, self._known.places.ctypes.data, _PLACES - 1, ids.ctypes.data,
            counts.ctypes.data,
        )  # fmt: skip
        if failed:
            raise MemoryError(f"{len(data)} bytes of text in {len(counts)} documents; give smaller batches")
        return ids[: int(counts.sum())], counts


class Words:
    """The words of texts and how often each came; not for several threads at once."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._words = library.bpe_words(secrets.randbits(64))
        if not self._words:
            raise MemoryError("no memory for words")
        weakref.finalize(self, library.bpe_forget, self._words)

    def __len__(self) -> int:
        return int(self._library.bpe_word_count(self._words))

    def add(self, texts: pa.Array) -> None:
        """Count the words of a string array. Raises UnreadableTexts."""
        data, offsets = buffers(texts)
        if self._library.bpe_count(self._words, data.ctypes.data, offsets.ctypes.data, len(offsets) - 1, characters()):
            raise MemoryError(f"no memory for more than {len(self)} words; train on less text")

    def learn(self, *, vocabulary: int, least: int) -> Merges:
        """Merges of the most frequent pair, of equally frequent ones the smaller, again and again.

        They end when there are `vocabulary` tokens, 256 bytes among them, or when no pair comes `least` times.
        """
        made = ctypes.c_void_p()
        count = self._library.bpe_learn(self._words, byte_ids().ctypes.data, vocabulary, least, ctypes.byref(made))
        if count < 0:
            raise MemoryError(f"no memory to learn from {len(self)} words; train on less text")
        try:
            flat = np.frombuffer(ctypes.string_at(made, 12 * count), np.uint32) if count else np.zeros(0, np.uint32)
        finally:
            self._library.bpe_free(made)
        return flat.reshape(-1, 3)


def _declare(library: ctypes.CDLL) -> None:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    for name, result, arguments in (
        ("bpe_table", None, (pointer, number, pointer, number)),
        (
            "bpe_encode",
            number,
            (pointer, pointer, number, pointer, pointer, number, pointer, pointer, number, pointer, pointer),
        ),
        ("bpe_words", pointer, (ctypes.c_uint64,)),
        ("bpe_forget", None, (pointer,)),
        ("bpe_word_count", number, (pointer,)),
        ("bpe_count", number, (pointer, pointer, pointer, number, pointer)),
        ("bpe_learn", number, (pointer, pointer, number, number, pointer)),
        ("bpe_free", None, (pointer,)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
