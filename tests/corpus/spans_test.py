"""Spans of real pages: what tokenization packs, the index finds, and its tokens read as the text that was asked for."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.documents.documents import document_id
from tutti.corpus.spans.building import build
from tutti.corpus.spans.index import LEAST, Index
from tutti.corpus.spans.passages import BEFORE, Passage, passages, whole
from tutti.corpus.tokens.dataset import Packing
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.report import passages as words
from tutti.tokenization.bpe import train_bpe
from tutti.tokenization.documents import as_ids
from tutti.tokenization.packing import concatenated
from tutti.tokenization.writing import Target, write_rows, write_shards

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
Texts = dict[str, str]


@pytest.fixture(scope="module")
def texts() -> Texts:
    return {document_id(source=path.name, text=text): text for path in PAGES if (text := path.read_text())}


@pytest.fixture(scope="module")
def tokenizer(texts: Texts) -> BytePairTokenizer:
    return train_bpe(texts.values(), vocabulary=1000)


def indexed(folder: Path, texts: Texts, tokenizer: BytePairTokenizer, packing: Packing = Packing.STREAM) -> Index:
    ids = list(tokenizer.encode_all(texts.values()))
    order, lengths, names = np.arange(len(ids)), np.array([len(each) for each in ids]), as_ids(list(texts))
    target = Target(folder, "pages", tokenizer.vocabulary, tokenizer.eos, sequences_per_shard=100)
    if packing is Packing.BEST_FIT:
        shards, used = write_rows(order, lengths, names, ids, target, context=64), int(lengths.sum()) + len(ids)
    else:
        layout = concatenated(order, lengths, context=64)
        shards, used = write_shards(layout, names, ids, target), layout.tokens_used
    info = build([path for path, _ in shards], folder / "index")
    assert (info.tokens, info.documents) == (used, len(texts))
    return Index.open(folder / "index")


@pytest.fixture(scope="module", params=Packing)
def index(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    texts: Texts,
    tokenizer: BytePairTokenizer,
) -> Index:
    folder = tmp_path_factory.mktemp("index")
    found = indexed(folder, texts, tokenizer, request.param)
    assert len(list(folder.iterdir())) > len(texts) / 4
    return found


def test_a_whole_page_is_found_at_its_beginning(index: Index, texts: Texts, tokenizer: BytePairTokenizer) -> None:
    for doc_id, text in texts.items():
        (found,) = index.spans(tokenizer.encode(text).tolist())
        assert [(each.doc_id, each.offset) for each in found.examples] == [(doc_id, 0)]


def test_a_quotation_is_found_at_its_place_in_its_page(
    index: Index, texts: Texts, tokenizer: BytePairTokenizer
) -> None:
    for doc_id, text in texts.items():
        line = max(text.splitlines(), key=len)
        asked = tokenizer.encode(f"Quoth somebody unheard of:\n{line}\nZymurgy!").tolist()
        longest = max(index.spans(asked), key=lambda span: span.end - span.start)
        quoted = tokenizer.decode(asked[longest.start : longest.end])
        assert len(quoted) > 0.9 * len(line)
        places = {each.doc_id: each.offset for each in longest.examples}
        page = tokenizer.encode(text)
        size = longest.end - longest.start
        assert np.array_equal(page[places[doc_id] : places[doc_id] + size], asked[longest.start : longest.end])
        assert quoted.strip() in text


def pieces(text: str, tokenizer: BytePairTokenizer) -> list[bytes]:
    """The tokens of a text as its bytes: each as long as its name in `tokenizer.json`, where a byte is a character."""
    names = {number: name for name, number in json.loads(tokenizer.artefact)["model"]["vocab"].items()}
    left, found = text.encode(), []
    for token in tokenizer.encode(text).tolist():
        size = len(names[token])
        found.append(left[:size])
        left = left[size:]
    assert left == b""
    return found


def scanned(texts: Texts, text: str, tokenizer: BytePairTokenizer, least: int) -> list[Passage]:
    """The answer by comparing the bytes of every run of tokens with those of every run of every document."""
    held = {doc_id: pieces(each, tokenizer) for doc_id, each in texts.items()}
    asked = pieces(text, tokenizer)

    def places(wanted: list[bytes]) -> list[str]:
        size = len(wanted)
        return [doc_id for doc_id, each in held.items() for at in range(len(each)) if each[at : at + size] == wanted]

    found: list[Passage] = []
    for start in range(len(asked)):
        end = start
        while end < len(asked) and places(asked[start : end + 1]):
            end += 1
        begin, behind = (len(b"".join(asked[:at])) for at in (start, end))
        if end - start >= least and not any(behind <= other.end for other in found):
            where = places(asked[start:end])
            found.append(Passage(begin, behind, end - start, len(where), tuple(sorted(set(where)))))
    return found


WORDS = st.sampled_from(
    ["the model ", "moves at ", "the barrier", "\n\n", "é", "日本", "\U0001f600", " x", "<|endoftext|>", "7"]
)
WRITTEN = st.lists(WORDS, max_size=12).map("".join)


@given(written=st.lists(WRITTEN.filter(bool), min_size=1, max_size=5), text=WRITTEN, least=st.integers(1, 4))
@settings(max_examples=60)
def test_the_passages_of_a_text_are_those_of_a_slow_scan_of_bytes(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: BytePairTokenizer, written: list[str], text: str, least: int
) -> None:
    texts = {document_id(source=str(number), text=each): each for number, each in enumerate(written)}
    index = indexed(tmp_path_factory.mktemp("passages"), texts, tokenizer)
    found = passages([index], tokenizer, text, least=least, documents=64)
    assert [replace(each, documents=tuple(sorted(each.documents))) for each in found.found] == scanned(
        texts, text, tokenizer, least
    )
    assert (found.tokens, found.truncated) == (len(pieces(text, tokenizer)), False)


@given(
    written=st.lists(st.lists(WRITTEN.filter(bool), min_size=1, max_size=3), min_size=2, max_size=3),
    text=WRITTEN,
    least=st.integers(1, 4),
)
@settings(max_examples=60)
def test_the_passages_in_several_datasets_are_those_of_a_slow_scan_of_all(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: BytePairTokenizer,
    written: list[list[str]],
    text: str,
    least: int,
) -> None:
    datasets = [
        {document_id(source=f"{number}/{at}", text=each): each for at, each in enumerate(texts)}
        for number, texts in enumerate(written)
    ]
    indexes = [indexed(tmp_path_factory.mktemp("passages"), texts, tokenizer) for texts in datasets]
    found = passages(indexes, tokenizer, text, least=least, documents=64)
    every = {name: each for texts in datasets for name, each in texts.items()}
    assert [replace(each, documents=tuple(sorted(each.documents))) for each in found.found] == scanned(
        every, text, tokenizer, least
    )


def test_a_passage_reads_as_it_stands_in_the_page_that_it_names(
    index: Index, texts: Texts, tokenizer: BytePairTokenizer
) -> None:
    text = "".join(f"{page[100:400]} Zymurgy! " for page in texts.values())
    found = passages([index], tokenizer, text)
    assert len(found.found) >= len(texts)
    for each in found.found:
        words = text.encode()[each.begin : each.end]
        assert 0 < len(each.documents) <= 3
        assert all(words in texts[doc_id].encode() for doc_id in each.documents)
        assert sum(page.encode().count(words) for page in texts.values()) >= each.count > 0


def test_a_limit_leaves_the_shorter_passages_out_and_says_so(
    index: Index, texts: Texts, tokenizer: BytePairTokenizer
) -> None:
    text = "".join(f"{page[100 : 400 - 10 * number]} Zymurgy! " for number, page in enumerate(texts.values()))
    every, longest = passages([index], tokenizer, text), passages([index], tokenizer, text, limit=3, documents=0)
    assert (every.truncated, longest.truncated) == (False, True)
    assert min(each.tokens for each in longest.found) == sorted(each.tokens for each in every.found)[-3]
    assert [each.begin for each in longest.found] == sorted(each.begin for each in longest.found)
    assert {each.documents for each in longest.found} == {()}


@given(st.data())
@settings(max_examples=60)
def test_a_few_words_are_found_wherever_they_stand_as_words(
    index: Index, texts: Texts, tokenizer: BytePairTokenizer, data: st.DataObject
) -> None:
    """Whatever stands before them, which may be in one token with their beginning."""
    text = data.draw(st.sampled_from(sorted(texts.values())))
    pairs = [each for each in re.finditer(r"\b[a-z]+ [a-z]+\b(?= )", text) if text[each.start() - 1] in BEFORE]
    wanted = data.draw(st.sampled_from(pairs))[0]
    (passage,) = whole([index], tokenizer, wanted).found
    assert (passage.begin, passage.end) == (0, len(wanted))


def test_a_few_words_are_counted_in_every_place(tmp_path: Path) -> None:
    one, other = 'the harbour, near the harbour. "the harbour"\nthe harbour (the harbour)', "a harbour"
    texts = {document_id(source=str(place), text=text): text for place, text in enumerate((one, other * 40))}
    tokenizer = train_bpe([*texts.values()] * 20, vocabulary=300)
    index = indexed(tmp_path, texts, tokenizer)
    (passage,) = whole([index], tokenizer, "the harbour").found
    assert (passage.count, passage.documents) == (5, (document_id(source="0", text=one),))
    assert whole([index], tokenizer, "no harbour").found == ()
    assert whole([index], tokenizer, "").found == ()


def test_the_command_speaks_of_as_many_tokens_as_are_looked_for() -> None:
    assert words.LEAST == LEAST
