"""Shards: what is written is read; any flip, truncation or swap is refused and named."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.documents.documents import Document, Extraction, MediaType, document_id
from tutti.corpus.documents.documentshard import decode_document_shard, encode_document_shard, read_document_shard
from tutti.corpus.tokens.loader import Loader
from tutti.corpus.tokens.sections import HEADER_BYTES
from tutti.corpus.tokens.tokenshard import TokenRun, TokenShard, encode_token_shard
from tutti.records.errors import CorpusError, CorruptShard, UnknownSample, UnsupportedFormat


def document(source: str, text: str) -> Document:
    return Document.make(
        source=source, text=text, title="A title", media_type=MediaType.HTML, charset="utf-8", replaced_characters=0,
        extraction=Extraction.MAIN, normalisation_version=1,
    )  # fmt: skip


def test_a_document_is_named_by_source_and_text_and_not_by_unicode_form() -> None:
    assert document_id(source="caf\u00e9.html", text="x") == document_id(source="cafe\u0301.html", text="x")
    assert document_id(source="a", text="bc") != document_id(source="ab", text="c")
    assert document("a", "same").text_digest == document("b", "same").text_digest


def test_a_document_shard_is_the_same_for_any_order_of_arrival() -> None:
    documents = [document(f"{k}.html", f"text {k} \u00e9\n") for k in range(50)]
    data, info = encode_document_shard(documents)
    again, same = encode_document_shard(reversed(documents))
    assert (data, info) == (again, same)
    read = decode_document_shard(data, expected_bytes_digest=info.bytes_digest)
    assert read == sorted(documents, key=lambda row: row.doc_id)
    assert (info.documents, info.first_doc_id, info.last_doc_id) == (50, read[0].doc_id, read[-1].doc_id)


def test_a_document_shard_with_a_damaged_byte_is_refused(tmp_path: Path) -> None:
    data, info = encode_document_shard([document("a", "text")])
    path = tmp_path / "shard.parquet"
    for at in range(0, len(data), 37):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(CorruptShard, match=r"shard\.parquet: file is damaged"):
            read_document_shard(path, expected_bytes_digest=info.bytes_digest)
    with pytest.raises(CorruptShard):
        decode_document_shard(data[:-1], expected_bytes_digest=info.bytes_digest)
    other, _ = encode_document_shard([document("b", "text")])
    with pytest.raises(CorruptShard):
        decode_document_shard(other, expected_bytes_digest=info.bytes_digest)


def test_an_empty_shard_and_a_document_that_comes_twice_are_refused() -> None:
    with pytest.raises(CorpusError, match="at least one"):
        encode_document_shard([])
    with pytest.raises(CorpusError, match="is there twice"):
        encode_document_shard([document("a", "t"), document("a", "t")])


def run_of(
    *, sequences: int, context: int, lengths: list[int], padding: int = 0, first: int = 0, v: int = 300
) -> TokenRun:
    total = sequences * context + 1
    starts = [start for start in np.cumsum([0, *lengths]).tolist() if start < total - padding]
    return TokenRun(
        tokens=(np.arange(total) * 7) % v,
        tokens_used=total - padding,
        starts=np.array(starts),
        doc_ids=[document_id(source=f"{first}/{k}", text="") for k in range(len(starts))],
        context=context,
        vocabulary=v,
        eos=0,
        first_sample=first,
    )


def packed_run(*, first: int = 0) -> TokenRun:
    """Three rows of nine places: a whole row and the rest of document 0 around document 1; document 2; padding, 0."""
    rows = [[0, 11, 12, 13, 14, 15, 16, 17, 18], [0, 21, 22, 0, 18, 19, 0, 0, 0], [0, 31, 0, 0, 0, 0, 0, 0, 0]]
    names = [document_id(source=f"{first}/{k}", text="") for k in range(3)]
    return TokenRun(
        tokens=np.array(rows).reshape(-1),
        tokens_used=9 + 7 + 3,
        starts=np.array([0, 9, 13, 18]),
        doc_ids=[names[0], names[1], names[0], names[2]],
        context=8,
        vocabulary=300,
        eos=0,
        first_sample=first,
        lengths=np.array([9, 7, 3]),
    )


def opened(tmp_path: Path, run: TokenRun, name: str = "a.tokens") -> TokenShard:
    path = tmp_path / name
    path.write_bytes(encode_token_shard(run)[0])
    return TokenShard(path)


def test_a_token_shard_gives_back_what_was_packed(tmp_path: Path) -> None:
    for vocabulary in (300, 70_000):
        run = run_of(sequences=5, context=8, lengths=[3, 17, 9, 30], v=vocabulary)
        shard = opened(tmp_path, run)
        shard.verify()
        assert shard.tokens.tolist() == run.tokens.tolist()
        assert shard.rows[2].tolist() == run.tokens[16:25].tolist()
        assert [shard.doc_id(k) for k in range(len(run.doc_ids))] == list(run.doc_ids)
        assert shard.header.token_bytes == (2 if vocabulary <= 65_536 else 4)


@given(
    context=st.integers(1, 9), sequences=st.integers(1, 9), first=st.integers(0, 50), padding=st.integers(0, 5),
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=30),
)  # fmt: skip
@settings(max_examples=80)
def test_the_index_of_documents_and_samples_equals_a_slow_scan(
    tmp_path_factory: pytest.TempPathFactory, context: int, sequences: int, first: int, padding: int, lengths: list[int]
) -> None:
    padding = min(padding, sequences * context - 1, context - 1)
    run = run_of(sequences=sequences, context=context, lengths=lengths, padding=padding, first=first)
    shard = opened(tmp_path_factory.mktemp("shard"), run)
    owner = np.searchsorted(run.starts, np.arange(run.tokens_used), side="right") - 1
    holders: dict[str, list[int]] = {doc_id: [] for doc_id in run.doc_ids}
    for row in range(sequences):
        seen = dict.fromkeys(run.doc_ids[k] for k in owner[row * context : row * context + context + 1])
        assert shard.documents_of(first + row) == list(seen)
        for doc_id in seen:
            holders[doc_id].append(first + row)
    for doc_id, samples in holders.items():
        assert list(shard.samples_of(doc_id)) == samples
    for nobody in (document_id(source="absent", text=""), "no id at all", ""):
        assert list(shard.samples_of(nobody)) == []


@pytest.mark.parametrize("packed", [False, True])
def test_every_flipped_byte_of_a_token_shard_is_found_and_its_section_named(tmp_path: Path, *, packed: bool) -> None:
    run = packed_run() if packed else run_of(sequences=5, context=8, lengths=[3, 17, 9, 30])
    data, info = encode_token_shard(run)
    path = tmp_path / "flipped.tokens"
    named = set()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises((CorruptShard, UnsupportedFormat)) as caught:
            TokenShard(path).verify()
        assert "flipped.tokens" in str(caught.value)
        if isinstance(caught.value, CorruptShard):
            named.add(caught.value.section)
    assert named >= {"header", "tokens", "starts", "doc_ids", "order", "gap before starts"} | (
        {"lengths"} if packed else set()
    )
    for size in (0, HEADER_BYTES - 1, HEADER_BYTES, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(CorruptShard, match=str(size)):
            TokenShard(path)
    assert info.bytes == len(data)


def test_a_token_shard_of_a_newer_major_says_what_to_use(tmp_path: Path) -> None:
    data, _ = encode_token_shard(run_of(sequences=1, context=4, lengths=[5]))
    path = tmp_path / "new.tokens"
    path.write_bytes(data[:8] + b"\x03\0" + data[10:])
    with pytest.raises(UnsupportedFormat, match=r"format 3.*use a newer tutti"):
        TokenShard(path)


def test_the_content_digest_names_tokens_documents_and_place() -> None:
    runs = [
        run_of(sequences=5, context=8, lengths=[3, 17, 9, 30]),
        run_of(sequences=5, context=8, lengths=[4, 16, 9, 30]),
        run_of(sequences=5, context=8, lengths=[3, 17, 9, 30], padding=1),
        run_of(sequences=5, context=8, lengths=[3, 17, 9, 30], first=5),
        packed_run(),
        packed_run(first=1),
    ]
    digests = [encode_token_shard(run)[1].content_digest for run in runs]
    assert len(set(digests)) == len(runs)
    assert encode_token_shard(runs[0])[1].content_digest == digests[0]


def test_an_impossible_run_is_refused() -> None:
    good = run_of(sequences=2, context=4, lengths=[5, 4])
    for change, message in (
        ({"tokens": good.tokens[:-1]}, "whole number"),
        ({"vocabulary": 3}, "outside the vocabulary"),
        ({"starts": np.array([1, 5])}, "the first 0"),
        ({"doc_ids": [good.doc_ids[0]] * 2}, "twice"),
    ):
        fields = {name: getattr(good, name) for name in good.__dataclass_fields__}
        with pytest.raises(CorpusError, match=message):
            encode_token_shard(TokenRun(**{**fields, **change}))


def test_a_packed_shard_knows_its_pieces_and_who_is_in_which_row(tmp_path: Path) -> None:
    run = packed_run(first=4)
    shard = opened(tmp_path, run)
    shard.verify()
    long, short, last = run.doc_ids[0], run.doc_ids[1], run.doc_ids[3]
    assert [shard.documents_of(sample) for sample in (4, 5, 6)] == [[long], [short, long], [last]]
    assert [list(shard.samples_of(each)) for each in (long, short, last)] == [[4, 5], [5], [6]]
    assert list(shard.samples_of(document_id(source="absent", text=""))) == []
    assert [shard.piece(k).tolist() for k in shard.places_of(long)] == [run.tokens[:9].tolist(), [18, 19, 0]]
    _, info = encode_token_shard(run)
    assert (info.documents, info.sequences, info.tokens) == (3, 3, 19)


def test_of_packed_rows_neither_padding_nor_what_leads_a_piece_is_a_target(tmp_path: Path) -> None:
    opened(tmp_path, packed_run())
    batch = Loader([tmp_path / "a.tokens"]).batch([2, 1, 0])
    assert batch.documents.tolist()[1] == [0, 0, 0, 0, 1, 1, 1, -1, -1]
    assert batch.positions.tolist()[1][:7] == [0, 1, 2, 3, 0, 1, 2]
    assert [np.flatnonzero(row).tolist() for row in batch.valid] == [[0, 1], [0, 1, 2, 4, 5], list(range(8))]
    targets = np.sort(batch.tokens[:, 1:][batch.valid]).tolist()
    assert targets == sorted([*range(11, 20), 0, 21, 22, 0, 31, 0])


def test_shards_of_a_stream_and_of_packed_rows_are_no_split(tmp_path: Path) -> None:
    opened(tmp_path, packed_run(), "0.tokens")
    opened(tmp_path, run_of(sequences=2, context=8, lengths=[5], first=3), "1.tokens")
    with pytest.raises(CorpusError, match="different datasets"):
        Loader([tmp_path / "0.tokens", tmp_path / "1.tokens"])


def test_impossible_packed_rows_are_refused() -> None:
    good = packed_run()
    for change, message in (
        ({"tokens": good.tokens[:-1]}, "3 rows of 9"),
        ({"lengths": np.array([9, 7, 1]), "tokens_used": 17}, "rows hold 1 to 9"),
        ({"tokens_used": 18}, "tokens_used"),
        ({"starts": np.array([0, 9, 16, 18])}, "none in its padding"),
        ({"starts": np.array([0, 10, 13, 18])}, "at the beginning of each row"),
    ):
        with pytest.raises(CorpusError, match=message):
            encode_token_shard(replace(good, **change))


def test_a_batch_knows_its_documents_padding_and_positions(tmp_path: Path) -> None:
    opened(tmp_path, run_of(sequences=2, context=4, lengths=[3, 2, 9], padding=2))
    batch = Loader([tmp_path / "a.tokens"]).batch([1, 0])
    assert batch.tokens.tolist() == [[28, 35, 42, 49, 56], [0, 7, 14, 21, 28]]
    assert batch.documents.tolist() == [[0, 1, 1, -1, -1], [0, 0, 0, 1, 1]]
    assert batch.valid.tolist() == [[True, True, False, False], [True, True, True, True]]
    assert batch.positions.tolist()[1] == [0, 1, 2, 0, 1]
    assert batch.positions.tolist()[0][:3] == [0, 0, 1]


@given(wanted=st.lists(st.integers(0, 11), min_size=1, max_size=20))
@settings(max_examples=40)
def test_a_batch_across_shards_equals_its_rows_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    for first, sequences in ((0, 5), (5, 4), (9, 3)):
        opened(folder, run_of(sequences=sequences, context=6, lengths=[4, 5, 1, 7, 8], first=first), f"{first}.tokens")
    loader = Loader(sorted(folder.iterdir(), reverse=True))
    batch = loader.batch(wanted)
    singles = [loader.batch([sample]) for sample in wanted]
    for field in ("tokens", "documents", "valid", "positions"):
        assert np.array_equal(getattr(batch, field), np.concatenate([getattr(one, field) for one in singles]))


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_the_leaves_of_a_batch_are_its_rows_in_order(tmp_path: Path, rows: int) -> None:
    opened(tmp_path, run_of(sequences=5, context=6, lengths=[4, 5, 1, 7, 8], padding=2))
    batch = Loader([tmp_path / "a.tokens"]).batch([4, 0, 3, 1, 2])
    leaves = batch.leaves(rows)
    assert [len(leaf.tokens) for leaf in leaves] == [min(rows, 5 - first) for first in range(0, 5, rows)]
    for field in ("tokens", "documents", "valid"):
        parts = [getattr(leaf, field) for leaf in leaves]
        assert np.array_equal(np.concatenate(parts), getattr(batch, field))
        assert all(np.shares_memory(part, getattr(batch, field)) for part in parts)


def test_the_loader_refuses_missing_shards_and_unknown_samples(tmp_path: Path) -> None:
    opened(tmp_path, run_of(sequences=2, context=4, lengths=[5], first=3))
    with pytest.raises(CorpusError, match="begins with sample 3, expected 0"):
        Loader([tmp_path / "a.tokens"])
    opened(tmp_path, run_of(sequences=2, context=4, lengths=[5]))
    for unknown in (2, -1):
        with pytest.raises(UnknownSample, match="0 to 1"):
            Loader([tmp_path / "a.tokens"]).batch([0, unknown])


def test_reading_tokens_imports_neither_pyarrow_nor_torch_nor_grpc() -> None:
    code = (
        "import sys, tutti.corpus.tokens.loader, tutti.corpus.tokens.ledger; "
        "print(*{'pyarrow', 'torch', 'grpc'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
