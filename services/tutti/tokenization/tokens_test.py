"""From documents to sequences: the tokenizer keeps every text, packing keeps every token, baselines are true."""

import json
import lzma
import math
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.chassis.errors import InvalidField
from tutti.contracts.tokenization.v1 import TokenizationSpec
from tutti.corpus.tokens.tokenizer import EOS, BytePairTokenizer, TokenizerError
from tutti.corpus.tokens.tokenshard import TokenShard, token_dtype
from tutti.records.canonical import file_digest, keyed_bytes
from tutti.tokenization.baselines import Streams, kneser_ney_bits_per_byte, unigram_bits_per_byte, xz_bits_per_byte
from tutti.tokenization.bpe import PatternError, train_bpe
from tutti.tokenization.documents import as_ids, as_names
from tutti.tokenization.packing import Layout, PackingError, concatenated, split_documents
from tutti.tokenization.rpc import check
from tutti.tokenization.writing import Target, write_shards

TEXTS = [f"def function_{k}(value): return value + {k}  # caf\u00e9 \u4e2d\u6587\n" * 3 for k in range(40)]
TOKENIZER = train_bpe(TEXTS, vocabulary=300)


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
@settings(max_examples=200)
def test_any_text_survives_encoding_and_decoding(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).tolist()) == text


@given(parts=st.lists(st.sampled_from([EOS, "<|", "|>", "endoftext", " ", "x", "<|endoftext|"]), max_size=8))
def test_no_text_produces_the_end_of_a_text(parts: list[str]) -> None:
    ids = TOKENIZER.encode("".join(parts))
    assert TOKENIZER.eos not in ids
    assert TOKENIZER.decode(ids.tolist()) == "".join(parts)


def test_a_tokenizer_from_another_process_reads_the_same() -> None:
    again = pickle.loads(pickle.dumps(TOKENIZER))  # noqa: S301 - our own bytes
    for text in (f"a{EOS}b", TEXTS[0]):
        assert again.encode(text).tolist() == TOKENIZER.encode(text).tolist()


def test_the_vocabulary_is_bytes_merges_and_the_end() -> None:
    assert (TOKENIZER.vocabulary, TOKENIZER.eos) == (300, 299)
    assert TOKENIZER.decode([TOKENIZER.eos]) == EOS
    bytes_only = train_bpe(["abc"], vocabulary=257)
    assert (bytes_only.vocabulary, len(bytes_only.encode("caf\u00e9"))) == (257, 5)
    assert train_bpe(["abc"], vocabulary=5000).vocabulary < 5000
    with pytest.raises(TokenizerError, match="at least 257"):
        train_bpe(["abc"], vocabulary=256)


def test_encoding_many_texts_equals_encoding_each() -> None:
    texts = [*TEXTS * 4, "", EOS]
    assert [ids.tolist() for ids in TOKENIZER.encode_all(texts)] == [TOKENIZER.encode(text).tolist() for text in texts]


def test_the_tokenizer_does_not_depend_on_the_number_of_threads() -> None:
    code = (
        "from tutti.tokenization.bpe import train_bpe\n"
        "print(train_bpe([f'def function_{k}(value): return value + {k}  # caf\\u00e9 \\u4e2d\\u6587\\n' * 3"
        " for k in range(40)], vocabulary=300).version)"
    )
    for threads in ("1", "3"):
        environment = {**os.environ, "RAYON_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
        assert done.stdout.strip() == TOKENIZER.version


def test_a_tokenizer_comes_back_from_its_artefact_and_a_damaged_one_does_not() -> None:
    again = BytePairTokenizer.load(TOKENIZER.artefact, expected_version=TOKENIZER.version)
    assert again.encode(TEXTS[3]).tolist() == TOKENIZER.encode(TEXTS[3]).tolist()
    pretty = json.dumps(json.loads(TOKENIZER.artefact), indent=2).encode()
    assert BytePairTokenizer.load(pretty, expected_version=TOKENIZER.version).version == TOKENIZER.version
    for data in (TOKENIZER.artefact.replace(b"function", b"fuction", 1), b"{", b"{}", b"\xff"):
        with pytest.raises(TokenizerError, match="fetch it again"):
            BytePairTokenizer.load(data, expected_version=TOKENIZER.version)


def ids_of(count: int) -> list[str]:
    return [keyed_bytes("test", str(k).encode()).hex() for k in range(count)]


def split_of(ids: list[str], *, fraction: float, key: str) -> tuple[list[str], list[str]]:
    """Train and validation, as names."""
    ordered = np.sort(as_ids(ids))
    split = split_documents(ordered, validation_fraction=fraction, key=key)
    return as_names(ordered[split.train]), as_names(ordered[split.validation])


def test_the_split_is_by_document_and_another_document_moves_none() -> None:
    ids = ids_of(1001)
    train, validation = split_of(ids[:1000], fraction=0.1, key="k")
    train_after, validation_after = split_of(ids, fraction=0.1, key="k")
    assert 60 < len(validation) < 140
    assert sorted(train + validation) == sorted(ids[:1000])
    assert [d for d in train_after if d != ids[1000]] == train
    assert [d for d in validation_after if d != ids[1000]] == validation
    assert split_of(ids, fraction=0.1, key="other") != (train_after, validation_after)


@given(count=st.integers(2, 30), fraction=st.sampled_from([1e-9, 0.5, 1 - 1e-9]))
@settings(max_examples=30)
def test_either_split_has_a_document(count: int, fraction: float) -> None:
    assert all(split_of(ids_of(count), fraction=fraction, key="k"))


def test_an_impossible_split_is_refused() -> None:
    with pytest.raises(PackingError, match="at least 2"):
        split_of(ids_of(1), fraction=0.1, key="k")
    with pytest.raises(PackingError, match="between 0 and 1"):
        split_of(ids_of(5), fraction=0.0, key="k")
    with pytest.raises(PackingError, match="no document"):
        concatenated(np.zeros(0, np.int64), np.zeros(0, np.int64), context=4)


EOS_ID = 9
TOKENS = st.lists(st.lists(st.integers(0, 8), max_size=12), min_size=1, max_size=12)


def written(documents: list[list[int]], layout: Layout, folder: Path, *, per_shard: int) -> list[TokenShard]:
    """Token shards of documents in the order of a layout."""
    arrays = (np.array(documents[number], np.uint32) for number in layout.documents)
    target = Target(folder, "test", vocabulary=10, eos=EOS_ID, sequences_per_shard=per_shard)
    made = list(write_shards(layout, as_ids(ids_of(len(documents))), arrays, target))
    assert all(file_digest(path) == info.bytes_digest for path, info in made)
    return [TokenShard(path) for path, _ in made]


@given(documents=TOKENS, context=st.integers(1, 9), per_shard=st.integers(1, 5))
@settings(max_examples=100)
def test_packing_and_cutting_lose_and_add_nothing(documents: list[list[int]], context: int, per_shard: int) -> None:
    lengths = np.array([len(tokens) for tokens in documents])
    layout = concatenated(np.arange(len(documents)), lengths, context=context)
    stream = sum(([*tokens, EOS_ID] for tokens in documents), [EOS_ID])
    assert layout.targets == len(stream) - 1 == sum(len(tokens) + 1 for tokens in documents)
    assert layout.tokens - layout.tokens_used < context
    targets: list[int] = []
    owners: dict[int, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for shard in written(documents, layout, Path(folder), per_shard=per_shard):
            shard.verify()
            begin, used = shard.first_sample * context, shard.header.tokens_used
            targets += shard.tokens[1:used].tolist()
            for k in range(used):
                doc_id = shard.doc_id(int(np.searchsorted(shard.starts, k, side="right")) - 1)
                assert owners.setdefault(begin + k, doc_id) == doc_id
    assert targets == stream[1:]
    assert Counter(owners.values()) == {
        doc_id: len(tokens) + 1 + (k == 0)
        for k, (doc_id, tokens) in enumerate(zip(ids_of(len(documents)), documents, strict=True))
    }


@given(train=TOKENS, validation=TOKENS)
@settings(max_examples=40)
def test_the_baselines_equal_a_slow_computation(train: list[list[int]], validation: list[list[int]]) -> None:
    seen, asked = (sum(([*tokens, EOS_ID] for tokens in split), [EOS_ID]) for split in (train, validation))
    streams = Streams(np.array(seen), np.array(asked), vocabulary=10, asked_bytes=7)
    counts, pairs = Counter(seen[1:]), Counter(pairwise(seen))
    total = sum(counts.values())
    unigram = -sum(math.log2((counts[token] + 1) / (total + 10)) for token in asked[1:])
    assert unigram_bits_per_byte(streams) == pytest.approx(unigram / 7, abs=1e-4)

    def probability(before: int, after: int) -> float:
        preceders = {token: sum(1 for _, b in pairs if b == token) for token in range(10)}
        backoff = max(preceders[after] - 0.75, 0) + 0.75 * sum(1 for n in preceders.values() if n) / 10
        history = sum(n for (a, _), n in pairs.items() if a == before)
        if not history:
            return backoff / len(pairs)
        followers = sum(1 for a, _ in pairs if a == before)
        return (max(pairs[before, after] - 0.75, 0) + 0.75 * followers * backoff / len(pairs)) / history

    for before in set(asked):
        assert sum(probability(before, after) for after in range(10)) == pytest.approx(1)
    bits = -sum(math.log2(probability(a, b)) for a, b in pairwise(asked))
    assert kneser_ney_bits_per_byte(streams) == pytest.approx(bits / 7, abs=1e-4)


@pytest.mark.parametrize("vocabulary", [10, 1 << 16, (1 << 16) + 1])
def test_the_baselines_do_not_depend_on_which_ids_tokens_have(vocabulary: int) -> None:
    random, dtype = np.random.default_rng(1), token_dtype(vocabulary)
    seen, asked = random.integers(0, 10, 500), random.integers(0, 10, 500)
    small = Streams(seen.astype(dtype), asked.astype(dtype), vocabulary, asked_bytes=700)
    last = vocabulary - 1
    large = Streams((last - seen).astype(dtype), (last - asked).astype(dtype), vocabulary, asked_bytes=700)
    assert unigram_bits_per_byte(small) == unigram_bits_per_byte(large)
    assert kneser_ney_bits_per_byte(small) == kneser_ney_bits_per_byte(large)


def test_xz_is_primed_by_the_training_text() -> None:
    text = [keyed_bytes("noise", bytes([k])).hex().encode() for k in range(200)]
    alone = 8 * len(lzma.compress(b"\n".join(text))) / sum(map(len, text))
    assert xz_bits_per_byte(text, text[:9]) == xz_bits_per_byte(text, text[:9], workers=2)
    assert xz_bits_per_byte(text, text) < 0.1 < 3 < xz_bits_per_byte([b"other"], text) < alone * 1.1


def test_a_pattern_that_does_not_compile_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(PatternError, match="does not compile: Oniguruma"):
        train_bpe(TEXTS, vocabulary=300, pattern="(")
    spec = TokenizationSpec(vocabulary=300, context=8, validation_fraction=0.5)
    check(spec)
    spec.pattern = "("
    with pytest.raises(InvalidField, match="compiles") as refused:
        check(spec)
    assert refused.value.field == "spec.pattern"


def test_a_pattern_that_teaches_the_end_of_a_text_is_refused() -> None:
    with pytest.raises(TokenizerError, match="must be no text"):
        train_bpe([EOS] * 9, vocabulary=400, pattern=r"[\s\S]+")


ROLES = ("<|system|>", "<|user|>", "<|assistant|>")


def test_reserved_tokens_have_the_last_ids_but_one_and_no_text_encodes_to_them() -> None:
    tokenizer = train_bpe([*TEXTS, *ROLES * 9], vocabulary=300, reserved=ROLES)
    first = tokenizer.eos - len(ROLES)
    assert list(tokenizer.reserved.items()) == [(token, first + at) for at, token in enumerate(ROLES)]
    assert BytePairTokenizer.load(tokenizer.artefact, expected_version=tokenizer.version).eos == tokenizer.eos
    for text in ("".join(ROLES), f"a{EOS}<|user|>b", "<|user|><|assistant|>yes", "<|user"):
        ids = tokenizer.encode(text)
        assert ids.max() < first
        assert tokenizer._by_library(pa.array([text], pa.large_string()))[0].tolist() == ids.tolist()
        assert tokenizer.decode(ids.tolist()) == text
    assert tokenizer.decode([first, first + 1]) == "<|system|><|user|>"


def test_a_tokenizer_without_reserved_tokens_is_what_it_was() -> None:
    assert train_bpe(TEXTS, vocabulary=300, reserved=()) == TOKENIZER
    assert TOKENIZER.reserved == {}


@pytest.mark.parametrize(
    ("reserved", "words"),
    [(("user",), "cannot be reserved"), ((EOS,), "cannot be reserved"), (("<|user|>", "<|user|>"), "each once")],
)
def test_reserved_tokens_that_cannot_be_are_refused(reserved: tuple[str, ...], words: str) -> None:
    with pytest.raises(TokenizerError, match=words):
        train_bpe(TEXTS, vocabulary=300, reserved=reserved)
    spec = TokenizationSpec(vocabulary=300, context=8, validation_fraction=0.5, reserved=reserved)
    with pytest.raises(InvalidField, match=words) as refused:
        check(spec)
    assert refused.value.field == "spec.reserved"


def test_a_vocabulary_without_room_for_the_reserved_tokens_is_refused() -> None:
    assert train_bpe(["abc"], vocabulary=260, reserved=ROLES).vocabulary == 260
    with pytest.raises(TokenizerError, match="expected at least 260"):
        train_bpe(["abc"], vocabulary=259, reserved=ROLES)


def test_texts_that_teach_a_role_token_are_refused() -> None:
    with pytest.raises(TokenizerError, match=r"the texts teach <\|user\|> as a token"):
        train_bpe(["<|user|>"] * 9, vocabulary=400, pattern=r"[\s\S]+", reserved=ROLES)
