"""The partition of a key: murmur2, exactly as Kafka's Java clients and kafka-python choose it.

Promises: the same key goes to the same partition whatever the adapter. The partitions of the newest KNOWN_KEYS keys are
kept: resources that changed lately change again soon, and others stay as they are.
"""

from functools import lru_cache

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
KNOWN_KEYS = 1_024


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2, 32 bits, with Kafka's seed 0x9747b28c."""
    length = len(data)
    h = (0x9747B28C ^ length) & _MASK
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if tail := data[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=KNOWN_KEYS)
def partition_of(key: str, partitions: int) -> int:
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions
