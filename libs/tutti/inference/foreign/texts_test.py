"""What a folder says about texts is read from the files that transformers reads it from, or refused by file and key."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tutti.corpus.tokens.tokenizer_test import of_bytes
from tutti.inference.foreign.config import CONFIG
from tutti.inference.foreign.errors import NotImportable
from tutti.inference.foreign.texts import GENERATION, SETTINGS, TEMPLATE, TOKENIZER, texts_of
from tutti.records.canonical import bytes_digest

BYTES = of_bytes("<|user|>")
VOCABULARY = 300


def files(**values: Any) -> Mapping[str, bytes]:
    """The files of a folder: JSON by the words before the suffix."""
    given: dict[str, Any] = {"config": {"eos_token_id": 257}} | values
    return {f"{name}.json": json.dumps(each).encode() for name, each in given.items()} | {TOKENIZER: BYTES.artefact}


def changed(**changes: Any) -> Mapping[str, bytes]:
    return {**files(), TOKENIZER: json.dumps({**json.loads(BYTES.artefact), **changes}).encode()}


def test_ids_of_ends_are_those_of_generation_before_those_of_the_model() -> None:
    one = texts_of(files(config={"eos_token_id": 257, "bos_token_id": 1}), VOCABULARY)
    assert (one.ends, one.begin, one.padding) == ((257,), 1, None)
    two = texts_of(files(generation_config={"eos_token_id": [256, 257], "pad_token_id": 0}), VOCABULARY)
    assert (two.ends, two.begin, two.padding) == ((256, 257), None, 0)
    assert (one.tokenizer, one.ids) == (bytes_digest(BYTES.artefact), 258)


def test_a_template_is_read_from_its_file_or_from_the_settings() -> None:
    digest = bytes_digest(b"{{ messages }}")
    settings = files(tokenizer_config={"chat_template": "{{ messages }}"})
    several = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "{{ messages }}"}]
    assert texts_of(settings, VOCABULARY).template == digest
    assert texts_of(files(tokenizer_config={"chat_template": several}), VOCABULARY).template == digest
    assert texts_of({**files(), TEMPLATE: b"{{ messages }}"}, VOCABULARY).template == digest
    assert texts_of(files(), VOCABULARY).template == ""


def test_a_tokenizer_that_changes_texts_is_not_lossless() -> None:
    assert texts_of(files(), VOCABULARY).lossless
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    for changes in ({"normalizer": {"type": "NFC"}}, {"pre_tokenizer": metaspace, "decoder": metaspace}):
        assert not texts_of(changed(**changes), VOCABULARY).lossless


@pytest.mark.parametrize(
    ("given", "vocabulary", "file", "key"),
    [
        ({**files(), TOKENIZER: b"{}"}, VOCABULARY, TOKENIZER, ""),
        (files(), 257, TOKENIZER, "<|endoftext|>"),
        (files(config={}), VOCABULARY, CONFIG, "eos_token_id"),
        (files(config={"eos_token_id": 300}), VOCABULARY, CONFIG, "eos_token_id"),
        (files(generation_config={"eos_token_id": ["</s>"]}), VOCABULARY, GENERATION, "eos_token_id"),
        (files(tokenizer_config={"chat_template": 3}), VOCABULARY, SETTINGS, "chat_template"),
    ],
)
def test_what_cannot_be_read_is_refused_by_file_and_key(
    given: Mapping[str, bytes], vocabulary: int, file: str, key: str
) -> None:
    with pytest.raises(NotImportable) as refused:
        texts_of(given, vocabulary)
    assert (refused.value.file, refused.value.key) == (file, key)
