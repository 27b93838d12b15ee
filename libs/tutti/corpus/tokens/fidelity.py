"""The fidelity of a tokenizer: whether the ids of every text decode to that text. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from tutti.corpus.tokens.bytepairs import spelling

BYTEWISE = frozenset({"ByteLevel", "Split", "Digits"})


def is_lossless(file: Mapping[str, Any]) -> bool:
    """True if a `tokenizer.json` splits bytes, each of which has an id, and changes no text before."""
    words = (file.get("model") or {}).get("vocab") or {}
    parts = list(_parts(file.get("pre_tokenizer")))
    kinds, decoders = _kinds(parts), _kinds(_parts(file.get("decoder")))
    bytewise = "ByteLevel" in kinds and kinds <= BYTEWISE and decoders == {"ByteLevel"}
    changes = any(each.get("add_prefix_space") or each.get("behavior") == "Removed" for each in parts)
    return file.get("normalizer") is None and bytewise and not changes and all(each in words for each in spelling())


def _parts(part: Any) -> Iterator[Mapping[str, Any]]:
    """A pre-tokenizer or decoder, or those that it is made of."""
    part = part or {}
    yield from part.get("pretokenizers") or part.get("decoders") or [part]


def _kinds(parts: Any) -> set[str]:
    return {str(each.get("type")) for each in parts}
