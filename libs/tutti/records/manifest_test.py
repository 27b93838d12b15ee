"""Canonical names and manifests: the same content has the same name; what is not understood is refused."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.tokens.dataset import DatasetBody, ShardEntry, Split
from tutti.corpus.tokens.tokenshard import TokenShardInfo
from tutti.records.canonical import bytes_digest, canonical_json, content_digest, keyed_bytes, parse_json
from tutti.records.errors import InvalidManifest, NotCanonical, UnsupportedFormat
from tutti.records.manifest import Kind, Manifest

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4))
NAME = bytes_digest(b"")


def test_canonical_json_is_rfc_8785() -> None:
    assert canonical_json({"b": 1.0, "a": [1e21, "\u20ac\n"], "\u00e9": None}) == (
        '{"a":[1e+21,"\u20ac\\n"],"b":1,"\u00e9":null}'.encode()
    )


@given(value=VALUES)
def test_a_value_keeps_its_digest_through_json(value: object) -> None:
    assert content_digest(parse_json(canonical_json(value)), kind="x") == content_digest(value, kind="x")


@pytest.mark.parametrize("value", [2**53, float("nan"), b"bytes", {1: 2}, "\ud800", {1, 2}])
def test_what_json_cannot_say_exactly_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical, match="expected"):
        canonical_json(value)


def test_digests_of_other_kinds_and_other_framing_differ() -> None:
    assert content_digest({}, kind="a") != content_digest({}, kind="b") != bytes_digest(b"{}")
    assert keyed_bytes("k", b"ab", b"c") != keyed_bytes("k", b"a", b"bc")
    assert bytes_digest(b"") == "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


def dataset() -> DatasetBody:
    info = TokenShardInfo(
        content_digest=NAME, bytes_digest=NAME, bytes=9, sequences=3, tokens=25, first_sample=0, documents=2,
        first_doc_id="0" * 64, last_doc_id="f" * 64,
    )  # fmt: skip
    shard = ShardEntry.of(info, blob="tokenization/token-shards/x")
    split = Split(shards=(shard,), documents=2, sequences=3, targets=24, text_bytes=99)
    return DatasetBody(
        tokenizer_version=NAME, vocabulary=300, eos=299, context=8, train=split, validation=split,
    )  # fmt: skip


def manifest() -> Manifest:
    return dataset().manifest(parents=("dedups/a", "tokenizers/b"), producer="tutti.tokenization 0.1.0")


def test_a_dataset_comes_back_from_its_manifest() -> None:
    read = Manifest.decode(manifest().encode(), expected=Kind.DATASET)
    assert read == manifest()
    assert DatasetBody.read(read) == dataset()
    assert read.encode() == manifest().encode()


def test_identity_follows_content_and_parents_and_not_the_producer() -> None:
    assert replace(manifest(), producer="another").content_digest == manifest().content_digest
    assert replace(manifest(), parents=("dedups/a",)).content_digest != manifest().content_digest
    assert replace(dataset(), eos=3).manifest(parents=(), producer="x").content_digest != manifest().content_digest


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(manifest().encode()), **fields}).encode()


def test_a_newer_major_names_the_way_to_read_it() -> None:
    with pytest.raises(UnsupportedFormat, match=r"format 2\.0.*use a newer tutti"):
        Manifest.decode(changed(format_version="2.0"), expected=Kind.DATASET)
    assert Manifest.decode(changed(format_version="1.9", later="field"), expected=Kind.DATASET) == manifest()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "expected a JSON object"),
        (changed(format_version=1), "format_version is 1"),
        (changed(format_version="x.0"), "format_version is 'x.0'"),
        (changed(format_version="1.x"), "format_version is '1.x'"),
        (changed(format_version="1.\u0663"), "format_version is '1.\u0663'"),
        (changed(format_version="\u0661.0"), "format_version is '\u0661.0'"),
        (changed(producer=1), "a string as producer"),
        (bytes(256 << 20), "not JSON"),
        (bytes((256 << 20) + 1), "268435457 bytes: expected at most 268435456"),
        (changed(kind="song"), "kind 'song', expected 'dataset'; a newer tutti"),
        (changed(kind="checkpoint"), "kind 'checkpoint', expected 'dataset'"),
        (changed(body={}), "damaged"),
        (changed(parents=["z", "a"]), "sorted"),
        (changed(parents="a"), "list of resource names"),
        (changed(content_digest=NAME), "damaged"),
        (b'{"format_version":"1.0","kind":"dataset"}', "without body, content_digest, parents, producer"),
    ],
)
def test_a_manifest_that_does_not_hold_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidManifest, match=message):
        Manifest.decode(data, expected=Kind.DATASET)


def test_the_version_of_the_format_is_written() -> None:
    assert json.loads(manifest().encode())["format_version"] == "1.0"


def test_fields_that_were_not_read_are_named_but_not_all_of_many() -> None:
    body = {f"later{number}": 1 for number in range(10)}
    with pytest.raises(InvalidManifest, match=r"has body\.later0, .*body\.later7, which") as refused:
        Manifest(kind=Kind.DATASET, body=body, parents=(), producer="x").require_read({})
    assert "later8" not in str(refused.value)


def test_a_wrong_field_of_a_dataset_is_named() -> None:
    body = dataset().to_json()
    for key, value, message in (
        ("vocabulary", "300", r"body\.vocabulary: expected an integer"),
        ("tokenizer_version", "x", r"body\.tokenizer_version: 'x' is no digest"),
        ("train", None, r"body\.train: expected an object"),
    ):
        broken = Manifest(kind=Kind.DATASET, body={**body, key: value}, parents=(), producer="x")
        with pytest.raises(InvalidManifest, match=message):
            DatasetBody.read(broken)
