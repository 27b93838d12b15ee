"""Byte pairs: the kernel gives what the library `tokenizers` gives, and texts come back as they were."""

import functools
import json
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from struct import pack

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scale import scale
from tokenizers import Tokenizer
from tools.wordcharacters import table

from tutti.corpus.texts import UnreadableTexts
from tutti.corpus.tokens import bytepairs
from tutti.corpus.tokens.bytepairs import CHARACTERS, LLAMA3_PATTERN, spelling
from tutti.corpus.tokens.tokenizer import EOS, PROBE, BytePairTokenizer, least_tokens
from tutti.records.canonical import canonical_json
from tutti.tokenization.bpe import train_bpe, trained

WORLD = (
    "Съешь же ещё этих мягких французских булок. ",
    "نص عربي للتجربة ١٢٣٤ ",
    "हिन्दी में एक वाक्य। ",
    "日本語の文章、漢字とかな。",
    "한국어 문장입니다 ",
    "ภาษาไทยไม่มีช่องว่าง ",
    "Ελληνικά και τόνοι ",
    "עברית מימין לשמאל ",
    "\U0001f469\u200d\U0001f467 emoji ",
    "\u200b\u00a0\u3000\ufeff",
)


@functools.cache
def written() -> tuple[Path, ...]:
    """Files of text that Python and its packages bring along."""
    places = (sysconfig.get_path(name) for name in ("stdlib", "purelib"))
    kinds = {".py", ".txt", ".rst", ".md"}
    return tuple(sorted({path for place in places for path in Path(place).rglob("*.*") if path.suffix in kinds}))


def mixed(size: int) -> Iterator[str]:
    """`size` bytes or a little more of what lies here: code, prose, tables of encodings, and every script between.

    First files far apart of all that Python and its packages bring along, then those beside them.
    """
    found, step = 0, max(1, len(written()) * 5_000 // size)
    for number, path in enumerate(path for first in range(step) for path in written()[first::step]):
        text = path.read_bytes()[:100_000].decode("utf-8", "replace")
        text += WORLD[number % len(WORLD)] * (number % 40)
        found += len(text.encode())
        yield text
        if found >= size:
            return
    raise AssertionError(f"{found} bytes lie here; expected {size}")


@pytest.fixture(scope="module")
def tokenizer() -> BytePairTokenizer:
    return train_bpe(mixed(1_000_000), vocabulary=4096)


@pytest.fixture(scope="module")
def library(tokenizer: BytePairTokenizer) -> Tokenizer:
    """What others make of the artefact."""
    found = Tokenizer.from_buffer(tokenizer.artefact)
    found.encode_special_tokens = True
    return found


def kernel() -> bool:
    return bytepairs.native().library is not None


def test_letters_numbers_and_space_are_those_of_the_library() -> None:
    assert CHARACTERS.read_text(encoding="ascii") == table()


def test_a_tokenizer_of_this_version_is_encoded_by_the_kernel(tokenizer: BytePairTokenizer) -> None:
    assert (tokenizer._kernel is not None) == kernel()


def test_mixed_text_has_the_ids_that_the_library_gives(tokenizer: BytePairTokenizer, library: Tokenizer) -> None:
    size = scale(test=5_000_000, soak=50_000_000)
    texts, compared = mixed(size), 0
    while batch := list(islice(texts, 64)):
        ids, counts = tokenizer.encode_texts(pa.array(batch))
        theirs = [each.ids for each in library.encode_batch_fast(batch, add_special_tokens=False)]
        assert counts.tolist() == [len(each) for each in theirs]
        assert ids.tolist() == [token for each in theirs for token in each]
        compared += sum(len(text.encode()) for text in batch)
    assert compared >= size


def test_random_bytes_have_the_ids_that_the_library_gives_and_come_back(
    tokenizer: BytePairTokenizer, library: Tokenizer
) -> None:
    """As the texts of one character a byte, which are all bytes, and as what readers make of them."""
    source, lengths = Random(5), set()
    for _ in range(1000):
        noise = source.randbytes(source.randrange(300))
        lengths.add(len(noise))
        for text in (noise.decode("latin-1"), noise.decode("utf-8", "replace"), noise.decode("utf-16", "replace")):
            ids = tokenizer.encode(text).tolist()
            assert ids == library.encode(text, add_special_tokens=False).ids
            assert tokenizer.decode(ids) == text
        assert tokenizer.decode(tokenizer.encode(noise.decode("latin-1")).tolist()).encode("latin-1") == noise
    assert len(lengths) > 250


def test_bytes_that_are_no_text_have_tokens_and_reach_no_tokenizer(
    tokenizer: BytePairTokenizer, library: Tokenizer
) -> None:
    """Every byte is a token, so merges spell any bytes; an encoder takes them once they have been read as text."""
    source, spelled = Random(6), spelling()
    bytes_of = {number: [spelled.index(each) for each in name] for name, number in library.get_vocab(False).items()}
    for _ in range(1000):
        noise = source.randbytes(source.randrange(300)) + b"\xff"
        tokens = library.model.tokenize("".join(spelled[byte] for byte in noise))
        assert bytes(byte for token in tokens for byte in bytes_of[token.id]) == noise
        array = pa.Array.from_buffers(
            pa.string(), 1, [None, pa.py_buffer(pack("<2i", 0, len(noise))), pa.py_buffer(noise)]
        )
        with pytest.raises(UnreadableTexts, match="decode them"):
            tokenizer.encode_texts(array)


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
@settings(max_examples=100)
def test_what_was_encoded_decodes_to_itself(tokenizer: BytePairTokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).tolist()) == text


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
@settings(max_examples=100)
def test_a_text_has_no_fewer_tokens_than_pieces_whatever_was_learnt_from_it(text: str) -> None:
    learnt = train_bpe([text] * 50, vocabulary=2000)
    assert len(learnt.encode(text)) >= least_tokens(text)


def test_words_that_were_learnt_whole_are_no_more_tokens_than_pieces() -> None:
    text = "the model moves, and the barrier stays\n"
    assert len(train_bpe([text] * 50, vocabulary=2000).encode(text)) == least_tokens(text) == 9


PIECES = st.sampled_from(
    [*"ab -'sS1", "é", "中", "\u017f", "ll", "VE", "\n", "\r", "\t", "\u2028", "\U0001f600", "----", EOS]
)


@given(
    texts=st.lists(st.lists(PIECES, max_size=60).map("".join), min_size=1, max_size=8),
    asked=st.lists(PIECES, max_size=80).map("".join),
    vocabulary=st.sampled_from([257, 260, 300, 500]),
    repeated=st.integers(0, 3000),
)
@settings(max_examples=60)
def test_merges_are_learned_as_the_library_learns_them(
    texts: list[str], asked: str, vocabulary: int, repeated: int, monkeypatch_of_kernel: pytest.MonkeyPatch
) -> None:
    texts = [*texts, "a" * repeated]
    ours = train_bpe(texts, vocabulary=vocabulary)
    probe = pa.array([asked, asked * 20, "", "-" * repeated])
    ids, counts = ours.encode_texts(probe)
    with monkeypatch_of_kernel.context() as without:
        without.setattr(bytepairs, "SOURCE", bytepairs.SOURCE.with_name("wordcharacters.txt"))
        theirs = train_bpe(texts, vocabulary=vocabulary)
        assert theirs.artefact == ours.artefact
        assert theirs._kernel is None
        slow, slow_counts = theirs.encode_texts(probe)
    assert ids.tolist() == slow.tolist()
    assert counts.tolist() == slow_counts.tolist()


@pytest.fixture(scope="module")
def monkeypatch_of_kernel() -> Iterator[pytest.MonkeyPatch]:
    """Takes the kernel away: its source is then no C."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_the_order_and_the_cut_of_texts_change_no_tokenizer() -> None:
    texts = list(mixed(300_000))
    whole = train_bpe(texts, vocabulary=600).version
    assert train_bpe(reversed(texts), vocabulary=600).version == whole
    assert trained((pa.array([text]) for text in texts), vocabulary=600).version == whole


def test_a_slice_of_an_array_is_encoded_alone(tokenizer: BytePairTokenizer) -> None:
    texts = pa.array(["left out", "taken", "", "taken too", "left out"])
    ids, counts = tokenizer.encode_texts(texts.slice(1, 3))
    assert ids.tolist() == [*tokenizer.encode("taken").tolist(), *tokenizer.encode("taken too").tolist()]
    assert counts.tolist() == [len(tokenizer.encode("taken")), 0, len(tokenizer.encode("taken too"))]
    assert tokenizer.encode_texts(pa.array([], pa.string()))[1].tolist() == []


def test_texts_that_are_none_are_refused(tokenizer: BytePairTokenizer) -> None:
    for array in (pa.array(["a", None]), pa.array([b"a"])):
        with pytest.raises(UnreadableTexts):
            tokenizer.encode_texts(array)


def test_a_tokenizer_whose_kernel_would_differ_is_encoded_by_the_library(tokenizer: BytePairTokenizer) -> None:
    parsed = json.loads(tokenizer.artefact)
    parsed["model"]["ignore_merges"] = True
    vocabulary = parsed["model"]["vocab"]
    merged = next(
        f"Ġ{word}" for word in PROBE.split() if word.isalpha() and word.isascii() and f"Ġ{word}" not in vocabulary
    )
    vocabulary[merged] = len(vocabulary)  # a word that its merges would cut
    other = BytePairTokenizer(canonical_json(parsed))
    assert other._kernel is None
    assert other.encode(PROBE).tolist() != tokenizer.encode(PROBE).tolist()
    parsed = json.loads(tokenizer.artefact)
    parsed["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = LLAMA3_PATTERN.replace("{1,3}", "{1,2}")
    assert BytePairTokenizer(canonical_json(parsed))._kernel is None


def test_a_document_of_many_megabytes_is_one_text(tokenizer: BytePairTokenizer) -> None:
    size = scale(test=3_000_000, soak=100_000_000)
    text = "".join(mixed(size))[:size]
    word = "x" * (size // 10)  # which is merged whole
    ids, counts = tokenizer.encode_texts(pa.array([text, word], pa.large_string()))
    assert tokenizer.decode(ids[: counts[0]]) == text
    assert tokenizer.decode(ids[counts[0] :]) == word
    assert len(train_bpe([text, word], vocabulary=300).encode(word)) < len(word) / 2
