"""Sets of conversations: the manifest reads as it was written, and a split depends on digest and seed alone."""

from dataclasses import replace

import pytest

from tutti.corpus.conversations.conversations import Conversation, Message, Role, to_lines
from tutti.corpus.conversations.conversationset import ConversationsBody, Licensed, Lines, in_part, part_of
from tutti.records.canonical import JsonValue
from tutti.records.errors import InvalidManifest
from tutti.records.manifest import Kind, Manifest

LINES = Lines("ingest/conversations/ab.jsonl", "blake3:" + "a" * 64, 10, 2)
SPLIT = {"train": 0.8, "campaign": 0.1, "final": 0.1}


def prompt(number: int) -> Conversation:
    return Conversation((Message(Role.USER, f"question {number}"),))


def test_a_manifest_reads_as_it_was_written() -> None:
    body = ConversationsBody(LINES, {"alpaca": 3}, {"not_json": 1}, 1, {"train": 2})
    manifest = body.manifest(producer="test")
    assert ConversationsBody.read(Manifest.decode(manifest.encode(), expected=Kind.CONVERSATIONS)) == body
    assert "licences" not in manifest.body
    licensed = replace(body, licences=(Licensed("cc0-1.0", 1), Licensed("mit", 1)))
    written = licensed.manifest(producer="test").encode()
    assert ConversationsBody.read(Manifest.decode(written, expected=Kind.CONVERSATIONS)) == licensed
    unknown: dict[str, JsonValue] = {"licence": "mit", "conversations": 1, "more": 1}
    wrongs: list[JsonValue] = [{"mit": 1}, ["mit"], [{"licence": "mit"}], [unknown]]
    for wrong in wrongs:
        with pytest.raises(InvalidManifest, match=r"body\.licences"):
            ConversationsBody.read(Manifest(manifest.kind, {**manifest.body, "licences": wrong}, (), "test"))
    with pytest.raises(InvalidManifest, match="expected 'conversations'"):
        ConversationsBody.read(Manifest(Kind.INDEX, {}, (), "test"))
    with pytest.raises(InvalidManifest, match=r"body\.more"):
        ConversationsBody.read(Manifest(manifest.kind, {**manifest.body, "more": 1}, (), "test"))
    with pytest.raises(InvalidManifest, match=r"body\.parts\.train: expected an integer"):
        ConversationsBody.read(Manifest(manifest.kind, {**manifest.body, "parts": {"train": "2"}}, (), "test"))


def test_a_split_has_about_its_shares_and_another_seed_gives_another_one() -> None:
    digests = [prompt(number).digest for number in range(2000)]
    parts = [part_of(digest, SPLIT, 0) for digest in digests]
    assert [abs(parts.count(name) / len(parts) - share) < 0.03 for name, share in SPLIT.items()] == [True] * 3
    assert [part_of(digest, dict(reversed(SPLIT.items())), 0) for digest in digests] == parts
    assert [part_of(digest, SPLIT, 1) for digest in digests] != parts
    assert {part_of(digest, {}, 0) for digest in digests} == {""}
    assert {part_of(digest, {"all": 1.0}, 0) for digest in digests} == {"all"}


def test_the_conversations_of_a_part_are_read_alone() -> None:
    first, second = Conversation(prompt(1).messages, "train"), Conversation(prompt(2).messages, "final")
    data = to_lines([first, second])
    assert list(in_part(data)) == [first, second]
    assert list(in_part(data, "final")) == [second]
