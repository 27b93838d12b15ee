"""Spans of real pages: what tokenization packs, the index finds, and its tokens read as the text that was asked for."""

from pathlib import Path

import numpy as np
import pytest

from tutti.corpus.documents import document_id
from tutti.corpus.spans.building import build
from tutti.corpus.spans.index import Index
from tutti.corpus.tokenizer import BytePairTokenizer
from tutti.tokenization.bpe import train_bpe
from tutti.tokenization.documents import as_ids
from tutti.tokenization.packing import concatenated
from tutti.tokenization.writing import Target, write_shards

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
Texts = dict[str, str]


@pytest.fixture(scope="module")
def texts() -> Texts:
    return {document_id(source=path.name, text=text): text for path in PAGES if (text := path.read_text())}


@pytest.fixture(scope="module")
def tokenizer(texts: Texts) -> BytePairTokenizer:
    return train_bpe(texts.values(), vocabulary=1000)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, texts: Texts, tokenizer: BytePairTokenizer) -> Index:
    folder, ids = tmp_path_factory.mktemp("index"), list(tokenizer.encode_all(texts.values()))
    layout = concatenated(np.arange(len(ids)), np.array([len(each) for each in ids]), context=64)
    target = Target(folder, "pages", tokenizer.vocabulary, tokenizer.eos, sequences_per_shard=100)
    paths = [path for path, _ in write_shards(layout, as_ids(list(texts)), ids, target)]
    assert len(paths) > len(texts) / 4
    info = build(paths, folder / "index")
    assert (info.tokens, info.documents) == (layout.tokens_used, len(texts))
    return Index.open(folder / "index")


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
