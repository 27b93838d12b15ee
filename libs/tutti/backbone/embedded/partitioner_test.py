from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafkas

from tutti.backbone.embedded.partitioner import KNOWN_KEYS, murmur2, partition_of


@given(st.binary(max_size=40))
def test_murmur2_equals_kafkas(data: bytes) -> None:
    assert murmur2(data) == kafkas(data) & 0xFFFFFFFF


@given(st.text(min_size=1), st.integers(1, 64))
def test_the_partition_is_that_of_kafkas_default_partitioner(key: str, partitions: int) -> None:
    assert partition_of(key, partitions) == (kafkas(key.encode()) & 0x7FFFFFFF) % partitions


def test_only_the_newest_keys_are_kept() -> None:
    for number in range(2 * KNOWN_KEYS):
        partition_of(f"jobs/{number}", 12)
    assert partition_of.cache_info().currsize <= KNOWN_KEYS <= 1_024
