"""Drawing: everything of a campaign that looks random, as functions of the campaign's seed.

Promises: equal arguments give equal results on every machine; nothing here knows which model wrote an answer.
"""

from blake3 import blake3

from tutti.records.canonical import JsonValue, canonical_json

ID_BYTES = 8
_WORD = 1 << 64


def word(seed: int, *key: JsonValue) -> int:
    """Return 64 bits drawn for a key."""
    return int.from_bytes(blake3(canonical_json(["tutti.annotation", seed, *key])).digest(8), "big")


def below(limit: int, seed: int, *key: JsonValue) -> int:
    """Return an integer from 0 up to but without `limit`, drawn for a key."""
    return word(seed, *key) * limit // _WORD


def chance(seed: int, *key: JsonValue) -> float:
    """Return a number from 0 up to but without 1, drawn for a key."""
    return (word(seed, *key) >> 11) / float(1 << 53)


def shuffled(count: int, seed: int, *key: JsonValue) -> list[int]:
    """Return 0 … count - 1 in an order drawn for a key."""
    return sorted(range(count), key=lambda index: (word(seed, *key, index), index))


def pair_id(seed: int, number: int) -> str:
    """Return the id of the pair at a place of the campaign; it depends on the place alone."""
    return blake3(canonical_json(["tutti.annotation pair", seed, number])).hexdigest(ID_BYTES)


def is_flipped(seed: int, annotator: str, pair: str) -> bool:
    """Return whether an annotator sees the pair's second answer on the left."""
    return bool(word(seed, "order", annotator, pair) & 1)


def is_control(seed: int, share: float, annotator: str, place: int) -> bool:
    """Return whether an annotator's assignment at this place, from 0, is a control pair.

    Each block of 1 / share places has one, at a place drawn for the block.
    """
    if share <= 0:
        return False
    size = max(2, round(1 / share))
    block, within = divmod(place, size)
    return below(size, seed, "control", annotator, block) == within


def start(seed: int, annotator: str, count: int) -> int:
    """Return the place of the campaign where an annotator begins."""
    return below(count, seed, "start", annotator) if count else 0
