"""Making a dataset: the same from any files in any order by any number of threads, and equal to a slow computation."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, processors

from tutti.corpus.documents.documents import Document, Extraction, MediaType
from tutti.corpus.documents.documentshard import encode_document_shard
from tutti.corpus.tokens.dataset import Packing
from tutti.corpus.tokens.families_test import FAMILIES
from tutti.corpus.tokens.marks import Marks
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.corpus.tokens.tokenshard import TokenShard
from tutti.records.canonical import keyed_bytes
from tutti.tokenization import baselines
from tutti.tokenization.bpe import train_bpe
from tutti.tokenization.documents import Documents, as_names
from tutti.tokenization.making import Making, make, sample
from tutti.tokenization.spool import Spool, buckets

WORDS = [keyed_bytes("word", bytes([k])).hex()[: 2 + k % 9] for k in range(120)]


def document(number: int, end: str = "") -> Document:
    noise = keyed_bytes("text", number.to_bytes(4, "little")) * (1 + number % 7)
    text = " ".join(WORDS[byte % len(WORDS)] for byte in noise) + "\n\u00e9\u4e2d" * (number % 3) + end
    return Document.make(
        source=f"page-{number}",
        text=text,
        title="",
        media_type=MediaType.PLAIN,
        charset="utf-8",
        replaced_characters=0,
        extraction=Extraction.VERBATIM,
        normalisation_version=1,
    )


DOCUMENTS = [document(number) for number in range(300)]
DROPPED = frozenset(each.doc_id for each in DOCUMENTS[::10])


def written(folder: Path, parts: Sequence[Sequence[Document]]) -> tuple[Path, ...]:
    """A document shard a part."""
    folder.mkdir()
    for number, part in enumerate(parts):
        (folder / f"{number}.parquet").write_bytes(encode_document_shard(part)[0])
    return tuple(folder / f"{number}.parquet" for number in range(len(parts)))


def making(shards: tuple[Path, ...], scratch: Path) -> Making:
    scratch.mkdir()
    return Making(
        shards=shards,
        dropped=DROPPED,
        vocabulary=500,
        pattern="",
        context=16,
        validation_fraction=0.1,
        seed=7,
        shard_sequences=100,
        scratch=scratch,
    )


@pytest.mark.parametrize("packing", Packing)
def test_files_order_and_threads_change_nothing(tmp_path: Path, packing: Packing) -> None:
    once = make(replace(making(written(tmp_path / "one", [DOCUMENTS]), tmp_path / "first"), packing=packing))
    assert len(once.train.shards) > 2
    assert (once.train.documents, once.validation.documents) != (0, 0)
    for files, workers in ((2, 2), (8, 4)):
        parts = [DOCUMENTS[place::files][::-1] for place in range(files)]
        parts.append(DOCUMENTS[5:60])  # again, in another file
        other = making(written(tmp_path / f"{files} files", parts[::-1]), tmp_path / f"{files}")
        again = make(replace(other, workers=workers, packing=packing))
        assert (again.artefact, again.train, again.validation) == (once.artefact, once.train, once.validation)
        assert again.baselines == once.baselines


def test_a_tokenizer_that_is_given_encodes_and_none_is_trained(tmp_path: Path) -> None:
    asked = making(written(tmp_path / "files", [DOCUMENTS]), tmp_path / "first")
    (tmp_path / "second").mkdir()
    given = train_bpe((each.text for each in DOCUMENTS[:9]), vocabulary=300)
    own, taken = make(asked), make(replace(asked, scratch=tmp_path / "second", tokenizer=given))
    assert (taken.artefact, taken.vocabulary, taken.eos) == (given.artefact, 300, 299) != (own.artefact, 500, 499)
    assert taken.train.documents == own.train.documents
    assert taken.train.targets > own.train.targets


def test_a_dataset_is_what_a_slow_computation_makes(tmp_path: Path) -> None:
    asked = making(written(tmp_path / "files", [DOCUMENTS]), tmp_path / "scratch")
    made = make(asked)
    kept = {each.doc_id: each.text for each in DOCUMENTS if each.doc_id not in DROPPED}
    tokenizer = train_bpe((kept[doc_id] for doc_id in sorted(kept)), vocabulary=500)
    assert made.artefact == tokenizer.artefact

    def drawn(kind: str, doc_id: str) -> tuple[int, str]:
        return int.from_bytes(keyed_bytes(kind, b"seed 7", doc_id.encode())[:8], "little"), doc_id

    held_out = {doc_id for doc_id in kept if drawn("validation split", doc_id)[0] < int(0.1 * 2**64)}
    for split, name in ((made.train, "train"), (made.validation, "validation")):
        order = [doc_id for doc_id in kept if (doc_id in held_out) == (name == "validation")]
        order.sort(key=lambda doc_id: drawn("packing order", doc_id))
        stream = [tokenizer.eos]
        for doc_id in order:
            stream += [*tokenizer.encode(kept[doc_id]).tolist(), tokenizer.eos]
        shards = [TokenShard(asked.scratch / f"{name}-{number}.bin") for number in range(len(split.shards))]
        for shard in shards:
            shard.verify()
        found = [shards[0].tokens[:1], *(shard.tokens[1 : shard.header.tokens_used] for shard in shards)]
        assert np.concatenate(found).tolist() == stream
        assert list(dict.fromkeys(shard.doc_id(k) for shard in shards for k in range(len(shard.starts)))) == order
        assert split.text_bytes == sum(len(kept[doc_id].encode()) for doc_id in order)
        assert (split.documents, split.targets) == (len(order), len(stream) - 1)


def of_others(family: str) -> BytePairTokenizer:
    """A tokenizer of a family that puts <s> before every text, ends it with </s>, and has an added token."""
    library = FAMILIES[family]()
    library.add_special_tokens(["<s>", "</s>"])
    library.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    numbers = library.get_vocab()
    begin, end = numbers["<s>"], numbers["</s>"]
    library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    return BytePairTokenizer.of_others(library.to_str().encode(), Marks((end,), begin=begin))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("packing", Packing)
def test_a_tokenizer_of_others_begins_each_document_and_gives_the_ids_of_its_library(
    family: str, packing: Packing, tmp_path: Path
) -> None:
    documents = [*DOCUMENTS[:30], document(31, " <tool_call> and </s> are text, cafe\u0301 too")]
    asked, tokenizer = making(written(tmp_path / "files", [documents]), tmp_path / "scratch"), of_others(family)
    made = make(replace(asked, tokenizer=tokenizer, packing=packing, context=1 << 14))
    assert (made.artefact, made.vocabulary, made.eos) == (tokenizer.artefact, tokenizer.vocabulary, tokenizer.eos)
    assert (made.foreign, made.lossless) == (True, family in ("llama 3", "mistral, tekken"))
    library = Tokenizer.from_str(json.dumps({**json.loads(tokenizer.file), "added_tokens": [], "post_processor": None}))
    kept = {each.doc_id: each.text for each in documents if each.doc_id not in DROPPED}
    expected = {doc_id: [*tokenizer.opening, *library.encode(text).ids, tokenizer.eos] for doc_id, text in kept.items()}
    assert len(tokenizer.opening) == 1
    for split, name in ((made.train, "train"), (made.validation, "validation")):
        shard = TokenShard(asked.scratch / f"{name}-0.bin")
        found = {}
        for at in range(shard.header.documents):
            begin = int(shard.starts[at]) + (packing is Packing.BEST_FIT or at == 0)
            ids = shard.tokens[begin:].tolist()
            found[shard.doc_id(at)] = ids[: ids.index(tokenizer.eos) + 1]
        assert found == {doc_id: expected[doc_id] for doc_id in found}
        assert split.targets == sum(map(len, found.values()))
        assert split.text_bytes == sum(len(kept[doc_id].encode()) for doc_id in found)


def test_bits_a_byte_of_ids_that_change_texts_are_over_the_bytes_of_the_texts(tmp_path: Path) -> None:
    asked = making(written(tmp_path / "files", [DOCUMENTS]), tmp_path / "scratch")
    made = make(replace(asked, tokenizer=of_others("qwen")))
    seen, some = (
        np.concatenate([shard.tokens[at > 0 : shard.header.tokens_used] for at, shard in enumerate(shards)])
        for shards in (
            [TokenShard(asked.scratch / f"{name}-{number}.bin") for number in range(len(split.shards))]
            for name, split in (("train", made.train), ("validation", made.validation))
        )
    )
    streams = baselines.Streams(seen, some, vocabulary=made.vocabulary, asked_bytes=made.validation.text_bytes)
    assert made.baselines.unigram == baselines.unigram_bits_per_byte(streams)


def test_packing_changes_rows_and_nothing_else(tmp_path: Path) -> None:
    asked = making(written(tmp_path / "files", [DOCUMENTS]), tmp_path / "stream")
    stream = make(asked)
    (tmp_path / "rows").mkdir()
    fitted = make(replace(asked, scratch=tmp_path / "rows", packing=Packing.BEST_FIT))
    assert (fitted.artefact, fitted.baselines) == (stream.artefact, stream.baselines)
    for one, other in ((stream.train, fitted.train), (stream.validation, fitted.validation)):
        assert (one.documents, one.targets, one.text_bytes) == (other.documents, other.targets, other.text_bytes)
        assert one.shards != other.shards
        assert one.sequences <= other.sequences < 1.3 * one.sequences


def test_a_tokenizer_of_much_text_is_trained_on_documents_drawn_by_their_ids(tmp_path: Path) -> None:
    files = written(tmp_path / "files", [DOCUMENTS])
    documents = Documents(files, DROPPED)
    whole = int(documents.sizes.sum())
    assert sample(documents, "seed 7", whole) is None
    wanted = sample(documents, "seed 7", whole // 3)
    assert wanted is not None
    drawn = documents.sizes[wanted]
    assert whole // 3 <= drawn.sum() < whole // 3 + drawn.max()
    fewer = sample(documents, "seed 7", whole // 6)
    assert fewer is not None
    assert not np.any(fewer & ~wanted)
    texts = [text for each in documents.read(wanted) for text in each.texts.to_pylist()]
    assert len(texts) == wanted.sum()
    made = make(replace(making(files, tmp_path / "scratch"), training_bytes=whole // 3))
    assert made.artefact == train_bpe(texts, vocabulary=500).artefact


def test_baselines_of_much_text_are_those_of_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = making(written(tmp_path / "files", [DOCUMENTS]), tmp_path / "scratch")
    whole = make(asked)
    for name, size in (
        ("SEEN_TOKENS", 1000),
        ("ASKED_TOKENS", 100),
        ("MAX_PRIMING_BYTES", 500),
        ("MAX_ASKED_BYTES", 50),
    ):
        monkeypatch.setattr(baselines, name, size)
    again = make(replace(asked, scratch=tmp_path / "files"))
    assert again.train == whole.train
    assert again.baselines != whole.baselines
    tokenizer = BytePairTokenizer(whole.artefact)
    shards = [TokenShard(asked.scratch / f"{name}-0.bin") for name in ("train", "validation")]
    seen, some = (shard.tokens[:size].astype(np.int64) for shard, size in zip(shards, (1000, 100), strict=True))
    text = tokenizer.decode([token for token in some.tolist() if token != tokenizer.eos])
    streams = baselines.Streams(seen, some, vocabulary=500, asked_bytes=len(text.encode()))
    assert again.baselines.unigram == pytest.approx(baselines.unigram_bits_per_byte(streams), abs=0.02)


def test_a_document_is_there_once_under_the_number_of_its_id(tmp_path: Path) -> None:
    files = written(tmp_path / "files", [DOCUMENTS[:50], DOCUMENTS[40:90]])
    documents = Documents(files, DROPPED)
    kept = {each.doc_id: each.text for each in DOCUMENTS[:90] if each.doc_id not in DROPPED}
    assert as_names(documents.ids) == sorted(kept)
    read = [
        (as_names(documents.ids[[number]])[0], text)
        for each in documents.read()
        for number, text in zip(each.documents.tolist(), each.texts.to_pylist(), strict=True)
    ]
    assert sorted(read) == sorted(kept.items())
    assert documents.sizes.tolist() == [len(kept[doc_id].encode()) for doc_id in sorted(kept)]


def test_texts_are_counted_by_the_language_that_was_told_of_each(tmp_path: Path) -> None:
    told = {each.doc_id: ("en", "de", "fr")[number % 3] for number, each in enumerate(DOCUMENTS) if number % 4}
    names = [*told, document(999).doc_id]  # of which nothing was kept
    halves = names[::2], names[1::2]
    for number, half in enumerate(halves):
        rows = pa.table({"doc_id": half, "language": [told.get(each, "xx") for each in half]})
        pq.write_table(rows, tmp_path / f"{number}.measures")  # type: ignore[no-untyped-call]
    asked = making(written(tmp_path / "files", [DOCUMENTS]), tmp_path / "scratch")
    assert make(asked).languages == ()
    measures = tuple(tmp_path / f"{number}.measures" for number in range(2))
    (tmp_path / "again").mkdir()
    made = make(replace(asked, scratch=tmp_path / "again", measures=measures))
    tokenizer = BytePairTokenizer(made.artefact)
    expected: dict[str, list[int]] = {}
    for each in DOCUMENTS:
        if each.doc_id not in DROPPED:
            sums = expected.setdefault(told.get(each.doc_id, "und"), [0, 0, 0])
            sums[:] = sums[0] + 1, sums[1] + len(each.text.encode()), sums[2] + len(tokenizer.encode(each.text))
    assert {each.code: [each.documents, each.text_bytes, each.tokens] for each in made.languages} == expected
    sizes = [each.text_bytes for each in made.languages]
    assert sizes == sorted(sizes, reverse=True)


@given(lengths=st.lists(st.integers(0, 30), min_size=1, max_size=60), data=st.data())
@settings(max_examples=50)
def test_what_was_put_is_read_in_any_order_of_buckets(
    lengths: list[int], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    order = np.array(data.draw(st.permutations(range(len(lengths)))))
    coming = np.array(data.draw(st.permutations(range(len(lengths)))))
    sizes = np.array(lengths)
    held, bucket = data.draw(st.integers(1, 200)), data.draw(st.integers(1, 200))
    spool = Spool(
        tmp_path_factory.mktemp("spool") / "spool",
        buckets(order, sizes, bucket_bytes=bucket),
        np.dtype("<u2"),
        held_bytes=held,
    )
    for part in np.array_split(coming, data.draw(st.integers(1, len(lengths)))):
        ids = np.concatenate([np.full(lengths[each], each, np.uint32) for each in part] or [np.zeros(0, np.uint32)])
        spool.put(part, ids, sizes[part])
    spool.flush()
    read = [found.tolist() for found in spool.read(order)]
    assert read == [[each] * lengths[each] for each in order.tolist()]
    assert spool.lengths.tolist() == lengths
