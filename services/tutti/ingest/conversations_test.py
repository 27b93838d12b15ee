"""Conversations as work: files of any layout become lines in the order of their digests, split by these."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.tasks import TaskWorker
from tutti.chassis.tasks_test import Bench
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, GetRequest
from tutti.contracts.ingest.v1 import (
    Conversations,
    ConversationsSource,
    ConversationsSpec,
    CreateConversationsRequest,
    SplitShare,
)
from tutti.corpus.conversations.conversations import Conversation, from_lines
from tutti.corpus.conversations.conversationset import ConversationsBody, Licensed, in_part
from tutti.corpus.files import budgets
from tutti.ingest.reading.gathering import MAX_LINE_BYTES
from tutti.ingest.service import build
from tutti.records.manifest import Kind, Manifest

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)
SPLIT = [SplitShare(name="train", share=0.75), SplitShare(name="final", share=0.25)]


class World:
    def __init__(self, folder: Path) -> None:
        self.bench = Bench(EmbeddedBlobs(folder / "blobs"), service="ingest")
        self.service = build(self.bench)
        self.bench.database.create(self.bench.metadata)
        api: Any = self.service.serves[1].api
        self.api = api
        self.folder = folder / "a-secret-place"
        self.folder.mkdir()

    def write(self, name: str, *records: object) -> None:
        (self.folder / name).write_text("".join(json.dumps(each) + "\n" for each in records))

    def gather(self, name: str = "a", path: Path | None = None, **spec: Any) -> Conversations:
        place = str(self.folder if path is None else path)
        asked = ConversationsSpec(input_path="" if place == "." else place, **spec)
        request = CreateConversationsRequest(request_id=name, name=f"conversations/{name}", spec=asked)
        self.api.CreateConversations(request, CALL)
        TaskWorker(self.bench, {kind.name: kind for kind in self.service.tasks}, holder="a").step()
        found: Conversations = self.api.GetConversations(GetRequest(name=request.name), CALL)
        return found

    def body(self, made: Conversations) -> ConversationsBody:
        data = self.bench.blobs.get(made.result.manifest_key)
        return ConversationsBody.read(Manifest.decode(data, expected=Kind.CONVERSATIONS))

    def lines(self, made: Conversations) -> bytes:
        return self.bench.blobs.get(self.body(made).lines.blob)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def prompts(first: int, last: int) -> list[dict[str, str]]:
    return [{"prompt": f"question {number}"} for number in range(first, last)]


def test_files_of_several_layouts_become_one_set_and_duplicates_are_left_out(world: World) -> None:
    world.write("a.jsonl", *prompts(0, 3), {"prompt": "question 0"})
    world.write("b.jsonl", {"messages": [{"role": "user", "content": "question 0"}]})
    (world.folder / "c.json").write_text(json.dumps([{"instruction": "x", "input": "", "output": "y"}]))
    packed = gzip.compress(json.dumps({"conversations": [{"from": "human", "value": "hi"}]}).encode())
    (world.folder / "d.jsonl.gz").write_bytes(packed)
    made = world.gather()
    assert (made.state, made.conversations, made.duplicates) == (STATE_DONE, 5, 2)
    assert [(each.path, each.layout, each.conversations) for each in made.files] == [
        ("a.jsonl", "prompt", 4),
        ("b.jsonl", "messages", 1),
        ("c.json", "alpaca", 1),
        ("d.jsonl.gz", "sharegpt", 1),
    ]
    body = world.body(made)
    assert body.layouts == {"prompt": 4, "messages": 1, "alpaca": 1, "sharegpt": 1}
    assert (body.lines.count, body.duplicates, body.rejected, body.parts) == (5, 2, {}, {})
    digests = [each.digest for each in from_lines(Conversation, world.lines(made))]
    assert digests == sorted(digests)
    assert len(set(digests)) == 5


def test_parquet_packed_lists_and_lines_in_json_are_the_same_set(world: World) -> None:
    records: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": f"question {at}"}, {"role": "assistant", "content": "so"}], "id": at}
        for at in range(20)
    ]
    world.write("a.jsonl", *records)
    lines = world.gather("lines")
    (world.folder / "a.jsonl").rename(world.folder / "a.json")
    as_json = world.gather("json")
    (world.folder / "a.json").unlink()
    pq.write_table(pa.Table.from_pylist(records), world.folder / "a.parquet")  # type: ignore[no-untyped-call]
    rows = world.gather("rows")
    (world.folder / "a.parquet").unlink()
    (world.folder / "a.json.gz").write_bytes(gzip.compress(json.dumps(records).encode()))
    packed = world.gather("packed")
    assert {world.body(each).lines.bytes_digest for each in (lines, as_json, rows, packed)} == {
        world.body(lines).lines.bytes_digest
    }
    assert [each.conversations for each in (lines, as_json, rows, packed)] == [20] * 4
    assert [(each.field, each.records, each.first) for each in rows.unread] == [("id", 20, "a.parquet:1")]


def test_a_turn_that_is_no_example_stays_so_in_the_lines(world: World) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0}]
    turns += [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d", "weight": 1}]
    world.write("a.jsonl", {"messages": turns})
    [found] = from_lines(Conversation, world.lines(world.gather()))
    assert [each.trained for each in found.messages] == [True, False, True, True]


def test_the_order_of_files_and_lines_makes_no_difference_and_the_parts_are_those_of_the_split(world: World) -> None:
    world.write("a.jsonl", *prompts(0, 50))
    world.write("b.jsonl", *prompts(50, 100))
    first = world.gather("first", split=SPLIT)
    world.write("a.jsonl", *reversed(prompts(50, 100)))
    world.write("b.jsonl", *reversed(prompts(0, 50)))
    second = world.gather("second", split=list(reversed(SPLIT)))
    assert first.result.content_digest == second.result.content_digest
    counts = {each.name: each.conversations for each in first.parts}
    assert counts == world.body(first).parts
    assert sum(counts.values()) == 100
    assert 60 < counts["train"] < 90
    assert len(list(in_part(world.lines(first), "train"))) == counts["train"]
    assert world.gather("third", split=SPLIT, seed=1).result.content_digest != first.result.content_digest


def test_one_file_is_read_like_a_folder_that_holds_it(world: World) -> None:
    world.write("a.jsonl", *prompts(0, 3))
    whole, alone = world.gather("folder"), world.gather("file", path=world.folder / "a.jsonl")
    assert alone.result.content_digest == whole.result.content_digest
    assert "a-secret-place" not in str(alone)


def test_records_that_are_no_conversations_are_counted_and_the_first_are_quoted(world: World) -> None:
    world.write("a.jsonl", {"prompt": "fine"}, {"messages": []}, [], {"prompt": ""}, {"prompt": "x" * MAX_LINE_BYTES})
    with (world.folder / "a.jsonl").open("a") as file:
        file.write('{"prompt": "cut\n' + '{"prompt": "half \\ud800"}\n' + "[" * 100_000 + "\n")
    for number in range(5):
        world.write(f"b{number}.jsonl", {"text": f"no layout {number}"})
    (world.folder / "notes.txt").write_text("words")
    (world.folder / ".hidden").write_text("words")
    made = world.gather()
    found = {each.reason: (each.records, list(each.first)) for each in made.rejected}
    assert {reason: count for reason, (count, _) in found.items()} == {
        "empty_message": 1,
        "lone_surrogate": 1,
        "not_an_object": 1,
        "not_json": 2,
        "other_file": 1,
        "other_layout": 1,
        "too_large": 1,
        "unknown_layout": 5,
        "unreadable": 1,
    }
    assert world.body(made).rejected == {reason: count for reason, (count, _) in found.items()}
    assert found["unknown_layout"][1][0].startswith("b0.jsonl:1: the keys 'text'; expected records with messages")
    assert len(found["unknown_layout"][1]) == 3
    assert found["not_json"][1][0] == """a.jsonl:6: not JSON in UTF-8; begins with '{"prompt": "cut'"""
    assert made.conversations == 1


def test_hostile_names_and_numbers_in_records_do_not_fail_the_set(world: World) -> None:
    pair = {"prompt": "why?", "chosen": "so", "rejected": "no", "\ud800": 1, "x" * 100_000: 1, "": 1}
    inverted = pair | {"score_chosen": 1, "score_rejected": 10**400}
    world.write("a.jsonl", pair, inverted, *[{"prompt": f"p{at}", "chosen": "a", "rejected": "b"} for at in range(3)])
    made = world.gather()
    assert (made.state, made.conversations) == (STATE_DONE, 4)
    assert [(each.reason, each.records) for each in made.rejected] == [("inverted_scores", 1)]
    assert len(made.unread) == 3
    assert all(len(each.field) < 100 for each in made.unread)


def test_a_list_of_very_many_values_that_need_no_bytes_is_not_unpacked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "LEAST_BYTES", 1 << 20)
    nothing = pa.ListArray.from_arrays([0, 1_000_000], pa.nulls(1_000_000))
    pq.write_table(pa.table({"messages": nothing}), world.folder / "a.parquet")  # type: ignore[no-untyped-call]
    world.write("b.jsonl", *prompts(0, 2))
    made = world.gather()
    assert (made.state, made.conversations) == (STATE_DONE, 2)
    (found,) = made.rejected
    assert (found.reason, found.records) == ("too_large", 1)
    assert found.first[0].startswith("a.parquet: ")  # the file, before a row of it is read


def test_a_file_of_which_every_record_is_dropped_fails_by_name(world: World) -> None:
    world.write("a.jsonl", *prompts(0, 3))
    world.write("b.jsonl", {"text": "x"}, {"text": "y"})
    made = world.gather()
    assert made.state == STATE_FAILED
    assert "2 records of b.jsonl" in made.reason


def test_a_folder_without_a_conversation_fails_with_the_cause(world: World) -> None:
    assert world.gather("empty").reason.startswith("path: no file and no record; expected JSON lines")
    world.write("a.jsonl", {"text": "x"}, {"text": "y"})
    made = world.gather("other")
    assert made.state == STATE_FAILED
    assert "no record is a conversation (2 unknown_layout); the first is a.jsonl:1: the keys 'text'" in made.reason
    gone = world.gather("gone", path=world.folder / "nowhere")
    assert gone.reason.startswith("path: No such file or directory")
    world.write("a.jsonl", *prompts(0, 1))
    assert "others than those of this run" in world.gather("digest", input_digest="blake3:" + "0" * 64).reason


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"input_path": "relative"}, "spec.input_path"),
        ({"split": [SplitShare(name="train", share=0.5)]}, "shares that add up to 1"),
        ({"split": [SplitShare(name="A", share=1)]}, "a name of a-z"),
        ({"split": [SplitShare(name="a", share=0), SplitShare(name="b", share=1)]}, "a share above 0"),
        ({"split": [SplitShare(name="a", share=0.5)] * 3}, "spec.split"),
        ({"logic_version": "conversations-0"}, "conversations-3"),
        ({"near": 0.69}, "spec.near.*0 for none, or a similarity from 0.7 to 1"),
        ({"near": float("nan")}, "spec.near"),
        ({"licence": "two\nlines"}, "spec.licence.*such as cc-by-4.0"),
        ({"licences": ["mit", " "]}, "spec.licences.*such as cc-by-4.0"),
    ],
)
def test_a_spec_that_cannot_work_is_refused_by_field(world: World, spec: dict[str, Any], words: str) -> None:
    asked = ConversationsSpec(**{"input_path": str(world.folder), **spec})
    with pytest.raises(InvalidField, match=words):
        world.api.CreateConversations(CreateConversationsRequest(name="conversations/a", spec=asked), CALL)


def test_a_name_with_a_dot_is_refused_since_a_dot_is_before_a_part(world: World) -> None:
    asked = ConversationsSpec(input_path=str(world.folder))
    with pytest.raises(InvalidField, match="without a dot"):
        world.api.CreateConversations(CreateConversationsRequest(name="conversations/a.b", spec=asked), CALL)


def said(question: str, answer: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def test_conversations_pass_the_rules_for_documents(world: World) -> None:
    reached = said("How can I reach them?", "Write to jane.roe@mail.com, she answers.")
    world.write("a.jsonl", said("Why?", "So."), reached)
    made = world.gather(rule_sets=["no_pii"])
    assert (made.state, made.conversations) == (STATE_DONE, 1)
    [rejected] = made.rejected
    assert (rejected.reason, rejected.records) == ("no_pii_emails", 1)
    assert world.body(made).rejected == {"no_pii_emails": 1}
    [kept] = from_lines(Conversation, world.lines(made))
    assert kept.answer == "So."
    assert list(rejected.first) != []
    assert "jane" not in rejected.first[0]


def test_published_demonstrations_are_read_in_place_of_files(world: World) -> None:
    world.write("a.jsonl", said("Why?", "So."), said("When?", "Write to jane.roe@mail.com."))
    published = world.gather("published").result
    source = ConversationsSource(
        resource="demonstrations/a", manifest_key=published.manifest_key, content_digest=published.content_digest
    )
    whole = world.gather("whole", path=Path(), demonstrations=source)
    assert whole.result.content_digest == published.content_digest
    filtered = world.gather("filtered", path=Path(), demonstrations=source, rule_sets=["no_pii"], split=SPLIT)
    assert (filtered.conversations, sum(each.conversations for each in filtered.parts)) == (1, 1)


def licensed(made: Conversations) -> dict[str, int]:
    return {each.licence: each.conversations for each in made.licences}


def test_licences_of_records_are_counted_and_change_no_manifest_without_a_key(world: World) -> None:
    world.write("a.jsonl", {"prompt": "1", "license": "MIT"}, {"prompt": "2", "licence": "CC0-1.0"}, {"prompt": "3"})
    made = world.gather("named")
    assert (licensed(made), world.body(made).licences) == ({"cc0-1.0": 1, "mit": 1, "unknown": 1}, ())
    world.write("a.jsonl", {"prompt": "1"}, {"prompt": "2"}, {"prompt": "3"})
    unnamed = world.gather("unnamed")
    assert (licensed(unnamed), unnamed.result.content_digest) == ({}, made.result.content_digest)


def test_conversations_under_other_or_unknown_licences_are_rejected(world: World) -> None:
    mit, gpl = {"prompt": "1", "license": "MIT"}, {"prompt": "2", "license": "GPL-3.0"}
    world.write("a.jsonl", mit, gpl, {"prompt": "3"}, {**gpl, "license": "mit"})
    made = world.gather("some", licences=["MIT", "cc0-1.0"])
    assert {each.reason: (each.records, list(each.first)) for each in made.rejected} == {
        "no_licence": (1, ["a.jsonl:3: no licence is known; expected one of cc0-1.0, mit"]),
        "other_licence": (1, ["a.jsonl:2: 'gpl-3.0'; expected one of cc0-1.0, mit"]),
    }
    assert (made.conversations, made.duplicates, licensed(made)) == (2, 0, {"mit": 2})
    assert world.body(made).licences == (Licensed("mit", 2),)
    whole = world.gather("whole", licences=["mit"], licence="MIT")
    assert (whole.conversations, [each.reason for each in whole.rejected]) == (3, ["other_licence"])
    assert world.gather("none", licences=["bsd"]).reason.startswith("every conversation was rejected (1 no_licence, 3")


def test_a_conversation_with_two_licences_is_counted_once_whatever_the_order_of_files(world: World) -> None:
    records = [{"prompt": "1", "license": name} for name in ("mit", "cc0-1.0")]
    found = []
    for name, (first, second) in {"one": records, "other": records[::-1]}.items():
        world.write("a.jsonl", first, {"prompt": "1"})
        world.write("b.jsonl", second)
        made = world.gather(name, licence="mit")
        found.append((made.conversations, licensed(made), made.result.content_digest))
    assert found[0] == found[1]
    assert found[0][:2] == (1, {"cc0-1.0": 1})


def test_published_demonstrations_have_the_licence_that_the_stage_gives_them(world: World) -> None:
    world.write("a.jsonl", said("Why?", "So."))
    published = world.gather("published").result
    source = ConversationsSource(
        resource="demonstrations/a", manifest_key=published.manifest_key, content_digest=published.content_digest
    )
    refused = world.gather("refused", path=Path(), demonstrations=source, licences=["mit"])
    assert refused.reason.startswith("every conversation was rejected (1 no_licence)")
    given = world.gather("given", path=Path(), demonstrations=source, licences=["mit"], licence="mit")
    assert licensed(given) == {"mit": 1}


def test_a_filter_that_rejects_everything_says_so(world: World) -> None:
    world.write("a.jsonl", said("When?", "Write to jane.roe@mail.com."))
    made = world.gather(rule_sets=["no_pii"])
    assert made.state == STATE_FAILED
    assert made.reason.startswith("every conversation was rejected (1 no_pii_emails)")


def test_unknown_rules_and_two_sources_are_refused(world: World) -> None:
    world.write("a.jsonl", said("Why?", "So."))
    with pytest.raises(InvalidField, match=r"spec\.rule_sets"):
        world.gather(rule_sets=["nothing"])
    with pytest.raises(InvalidField, match=r"spec\.classifiers"):
        world.gather(classifiers=["harm"])
    with pytest.raises(InvalidField, match=r"spec\.input_path"):
        world.gather(demonstrations=ConversationsSource(resource="demonstrations/a"))
