"""Building: the bytes of an index follow from the shards alone, in the memory given; what is damaged is named."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tutti.corpus.spans.building import LEAST_MEMORY_BYTES, IndexInfo, build
from tutti.corpus.spans.index import Index
from tutti.corpus.spans.index_test import EOS, name, shards
from tutti.corpus.tokens.sections import HEADER_BYTES
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard
from tutti.records.errors import CorpusError, CorruptShard, UnsupportedFormat


def varied() -> list[list[int]]:
    """Some 120,000 tokens with copies of pages and much boilerplate."""
    random = np.random.default_rng(5)
    pages = [random.integers(1, 280, size).tolist() for size in random.integers(1, 1500, 120)]
    line = list(range(30, 90))
    return pages + pages[:20] + [line + page[:40] for page in pages] + [[9] * 9000]


def test_the_bytes_are_the_same_whatever_the_memory(tmp_path: Path) -> None:
    paths = shards(tmp_path, varied(), context=64, sequences=100)
    infos: list[IndexInfo] = []
    for number, memory in enumerate((LEAST_MEMORY_BYTES, 3_000_001, 1 << 28)):
        infos.append(build(paths, tmp_path / str(number), memory_bytes=memory))
        assert (tmp_path / str(number)).read_bytes() == (tmp_path / "0").read_bytes()
    assert len(set(infos)) == 1
    assert infos[0].bytes == (tmp_path / "0").stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".tokens") == ["0", "1", "2"]


def test_memory_is_bounded(tmp_path: Path) -> None:
    random, limit = np.random.default_rng(3), LEAST_MEMORY_BYTES
    documents = [random.integers(1, 200, 2000).tolist() for _ in range(100)]
    paths = shards(tmp_path, [*documents, *documents[:20], [3] * 20_000], context=64, sequences=400)
    build(paths, tmp_path / "once", memory_bytes=limit)
    tracemalloc.start()
    try:
        build(paths, tmp_path / "index", memory_bytes=limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "index").stat().st_size > limit
    assert peak <= limit
    with pytest.raises(CorpusError, match="expected at least 1048576"):
        build(paths, tmp_path / "less", memory_bytes=limit - 1)


def test_every_flipped_byte_is_found_and_its_section_named(tmp_path: Path) -> None:
    build(shards(tmp_path, [[1, 2, 3, 4, 5], [6, 7, 8], [2, 3]]), tmp_path / "index")
    data, seen = (tmp_path / "index").read_bytes(), set()
    for at in range(len(data)):
        (tmp_path / "flipped").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises((CorruptShard, UnsupportedFormat), match="flipped") as caught:
            Index.open(tmp_path / "flipped").verify()
        if isinstance(caught.value, CorruptShard):
            seen.add(caught.value.section)
    assert seen >= {"header", "tokens", "suffixes", "starts", "doc_ids", "gap before suffixes"}
    for size in (0, HEADER_BYTES - 1, HEADER_BYTES, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:size])
        with pytest.raises(CorruptShard, match=str(size)):
            Index.open(tmp_path / "cut")
    (tmp_path / "new").write_bytes(data[:8] + b"\x02\0" + data[10:])
    with pytest.raises(UnsupportedFormat, match=r"format 2.*use a newer tutti"):
        Index.open(tmp_path / "new")


def test_damaged_missing_and_foreign_shards_are_refused(tmp_path: Path) -> None:
    paths = shards(tmp_path, [list(range(1, 100)), list(range(1, 50))], sequences=6)
    data = paths[1].read_bytes()
    for wrong in (paths[1:], [*paths, paths[0]], [paths[0], paths[2]], []):
        with pytest.raises(CorpusError):
            build(wrong, tmp_path / "index")
    with pytest.raises(CorpusError, match="is its last shard missing"):
        build(paths[:2], tmp_path / "index")
    paths[1].write_bytes(data[:600] + bytes([data[600] ^ 1]) + data[601:])
    with pytest.raises(CorruptShard, match=rf"{paths[1].name}: tokens is damaged"):
        build(paths, tmp_path / "index")
    paths[1].write_bytes(data[:-1])
    with pytest.raises(CorruptShard, match="file is damaged"):
        build(paths, tmp_path / "index")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("second", [1, 2])
def test_documents_without_an_end_of_text_between_them_are_refused(tmp_path: Path, second: int) -> None:
    run = TokenRun(
        tokens=np.array([1, 2, 3, 4, EOS]), tokens_used=5, starts=np.array([0, second]), doc_ids=[name(0), name(1)],
        context=4, vocabulary=9, eos=EOS, first_sample=0,
    )  # fmt: skip
    (tmp_path / "a.tokens").write_bytes(encode_token_shard(run)[0])
    with pytest.raises(CorpusError, match="does not end with the end-of-text token 0"):
        build([tmp_path / "a.tokens"], tmp_path / "index")
