"""Small files of other platforms: each record is read with its whole meaning, or refused by name."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutti.corpus.conversations.conversations import Messages
from tutti.corpus.conversations.labels import labelled
from tutti.corpus.conversations.layouts import Layout, conversation, layout_of, unread
from tutti.corpus.conversations.unfit import Unfit
from tutti.ingest.reading.containers import Record, RecordOptions, Text, reader_of

CASES = Path(__file__).with_name("cases")
CONVERSATIONS = {
    "conversations/alpaca-history.jsonl": [
        "user: How warm is Oslo in summer? | assistant: About twenty degrees. | user: And in winter? | "
        "assistant: About minus five degrees.",
        "user: Name a Norwegian play. | assistant: Peer Gynt. | user: And who wrote it? | assistant: Ibsen.",
    ],
    "conversations/hh.jsonl": [
        "user: Name a bird. | assistant: A heron. | user: Another? | assistant: A rook.",
        "user: Name a fish. | assistant: A cod.",
        "user: Is it raining? | assistant: Yes. | user: Sure? | assistant: Quite sure.",
        "user: Tell a joke. | assistant: Why did the hen cross?",
        "user: Write a short dialogue. | assistant: Here it is: | user: hi\n\nRobot: hello",
        "empty_message",
        "user: Q one? | user: Q two? | assistant: Both.",
    ],
    "conversations/messages-weight.jsonl": [
        "user: Capital of Peru? | assistant, not trained: Bogota. | user: Are you sure? | assistant: No: it is Lima.",
        "unread_field",
        "user: Think of 2+2. | assistant: 4",
    ],
    "conversations/sharegpt-roles.jsonl": [
        "assistant: Hello, how can I help? | user: Tell me a number. | assistant: Seven.",
        "unknown_role",
        "user: First half of my question, | user: second half of it? | assistant: One answer.",
        "empty_message",
    ],
    "conversations/sharegpt-system-field.jsonl": [
        "system: Answer in French only. | user: Say good morning. | assistant: Bonjour.",
        "system: You are a pirate. | user: Where is the ship? | assistant: Arr, in the bay.",
    ],
    "conversations/trl-preferences.jsonl": [
        "user: Colour of snow? | assistant: White.",
        "user: Colour of coal? | assistant: Black.",
        "system: Be terse. | user: Colour of grass? | assistant: Green.",
        "other_layout",
        "not_a_transcript",
        "user: Colour of the sky?\n\nHuman: and the sea? | assistant: Blue, both.",
    ],
    "conversations/ultrafeedback.jsonl": [
        "user: Name a tree. | assistant: An ash.",
        "user: Name a metal. | assistant: Iron.",
        "inverted_scores",
        "user: Name a lake. | assistant: Ohrid.",
        "user: Name a game. | assistant: Go.",
    ],
    "own/llamafactory-ranking.jsonl": [
        "user: Name a bird. | assistant: A heron. | user: Another? | assistant: A rook.",
        "user: Add them.\n\n1 and 2 | assistant: 3",
    ],
    "own/axolotl-train.jsonl": [
        "user: Capital of Peru? | assistant, not trained: Bogota. | user: Sure? | assistant: No: Lima.",
        "unread_field",
    ],
    "own/kto.jsonl": ["user: Colour of blood? | assistant: Red.", "unread_field"],
    "own/transcript-prompt.jsonl": [
        "user: Name a fish. | assistant: A cod. | user: Another? | assistant:  A bream.",
        "user: Name a tree. | assistant: An ash.",
        "other_prompt",
    ],
    "own/messages-flags.jsonl": [
        "user: Colour of blood? | assistant: Red.",
        *["unread_field"] * 4,
        *["user: Colour of coal? | assistant, not trained: Pink. | user: Sure? | assistant: No: black."] * 2,
        "unread_field",
        "user: Colour of grass? | assistant: Green.",
        "unread_field",
        "unread_field",
    ],
    "own/alpaca-kto.jsonl": [
        "user: Colour of blood? | assistant: Red.",
        "unread_field",
        "user: Add them.\n\n1 and 2 | assistant: 3",
        "unread_field",
    ],
    "own/sharegpt-masks.jsonl": [
        "user: Capital of Peru? | assistant, not trained: Bogota. | user: Sure? | assistant: No: Lima.",
        "unread_field",
        "system: Answer in French. | user: Say good morning. | assistant: Bonjour.",
        "system: Answer in French. | user: Say good night. | assistant: Bonne nuit.",
        "unread_field",
        "unread_field",
    ],
    "own/prompt-answers.jsonl": [
        "user: Colour of blood? | assistant: Red.",
        "user: Colour of coal? | assistant: Black.",
        "unread_field",
        "user: Colour of snow? | assistant: White.",
        *["unread_field"] * 5,
        "user: Name a colour.",
    ],
    "own/pair-scores.jsonl": [
        "inverted_scores",
        "user: Name a tree. | assistant: An ash.",
        "inverted_scores",
        "user: Name a tree. | assistant: An ash.",
        "inverted_scores",
        "inverted_scores",
        *["user: Name a tree. | assistant: An ash."] * 4,
        "unknown_score",
        "unread_field",
        "unread_field",
    ],
    "own/tools.jsonl": ["unread_field", "unread_field", "unread_field", "role_order", "user: Why? | assistant: So."],
}
LABELS = {
    "conversations/hh.jsonl": [
        "-1: A rook. / No.",
        "other_prompt",
        "other_prompt",
        "-1: Why did the hen cross? / Why did the hen cross?",
        "no_answer",
        "-1:  / Nothing.",
        "-1: Both. / None.",
    ],
    "conversations/trl-preferences.jsonl": [
        "-1: White. / Green.",
        "-1: Black. / Pink.",
        "-1: Green. / Well, as you may know, it is green.",
        "unknown_layout",
        "not_a_transcript",
        "-1: Blue, both. / ",
    ],
    "conversations/ultrafeedback.jsonl": [
        "-1: An ash. / A stone.",
        "0: Iron. / Zinc.",
        "inverted_scores",
        "0: Ohrid. / Ohrid.",
        "other_prompt",
    ],
    "own/llamafactory-ranking.jsonl": ["-1: A rook. / A stone.", "-1: 3 / 12"],
    "own/pair-scores.jsonl": [
        "inverted_scores",
        "-1: An ash. / A stone.",
        "inverted_scores",
        "-1: An ash. / A stone.",
        "inverted_scores",
        "inverted_scores",
        "-1: An ash. / A stone.",
        "0: An ash. / An oak.",
        "0: An ash. / An oak.",
        "-1: An ash. / A stone.",
        "unknown_score",
        "unread_field",
        "unread_field",
    ],
    "own/transcript-prompt.jsonl": ["-1:  A bream. /  No.", "-1: An ash. / A stone.", "other_prompt"],
}


REFUSED = ("unread_field", "role_order", "inverted_scores", "unknown_score", "unknown_role", "other_prompt")


def records(name: str) -> Iterator[dict[str, object]]:
    for line in (CASES / name).read_text().splitlines():
        yield json.loads(line)


def shown(messages: Messages) -> str:
    return " | ".join(f"{each.role}{'' if each.trained else ', not trained'}: {each.content}" for each in messages)


def read(layout: Layout | None, record: dict[str, object]) -> str:
    assert layout is not None
    try:
        return shown(conversation(layout, record))
    except Unfit as problem:
        return problem.reason


def label(record: dict[str, object]) -> str:
    try:
        made = labelled(record, ["helpful"])
    except Unfit as problem:
        return problem.reason
    return f"{made.scores['helpful']}: {' / '.join(made.answers)}"


def test_every_file_of_conversations_has_its_right_answers() -> None:
    folders = CASES / "conversations", CASES / "own"
    assert {f"{path.parent.name}/{path.name}" for folder in folders for path in folder.iterdir()} == set(CONVERSATIONS)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_read_with_its_whole_meaning_or_refused_by_name(name: str) -> None:
    layout = layout_of(next(records(name)))
    assert [read(layout, record) for record in records(name)] == CONVERSATIONS[name]


@pytest.mark.parametrize("name", LABELS)
def test_a_pair_is_read_with_its_whole_meaning_or_refused_by_name(name: str) -> None:
    assert [label(record) for record in records(name)] == LABELS[name]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("conversations/messages-weight.jsonl", {"messages[].name", "messages[].reasoning_content"}),
        ("conversations/sharegpt-system-field.jsonl", set()),
        ("conversations/ultrafeedback.jsonl", set()),
        ("own/tools.jsonl", {"id", "messages[].name"}),
        ("own/messages-flags.jsonl", {"score"}),
        ("own/sharegpt-masks.jsonl", set()),
        ("own/prompt-answers.jsonl", {"answers", "score"}),
        ("own/pair-scores.jsonl", set()),
    ],
)
def test_fields_that_do_not_change_the_meaning_are_listed(name: str, fields: set[str]) -> None:
    every = list(records(name))
    layout = layout_of(every[0])
    assert layout is not None
    readable = [each for each in every if read(layout, each) not in REFUSED]
    assert set().union(*(unread(layout, each) for each in readable)) == fields


def ingested(name: str, text_field: str = "text") -> list[Record]:
    path = CASES / "records" / name
    reader = reader_of(name)
    assert reader is not None
    return list(reader(path, name, RecordOptions(1 << 20, text_field)))


@pytest.mark.parametrize(("name", "marker"), [("array.json", "AJ"), ("lines.json", "LJ"), ("c4.json.gz", "CFOUR")])
def test_json_is_read_as_records(name: str, marker: str) -> None:
    found = ingested(name)
    assert all(isinstance(each, Text) and each.text.startswith(f"Note {marker}") for each in found)
    assert len(found) == 3


def test_a_text_in_an_object_is_named_with_a_dot_and_a_table_is_refused() -> None:
    (record,) = ingested("nested.jsonl", "content.text")
    assert isinstance(record, Text)
    assert record.text.startswith("Note NESTED")
    (missing,) = ingested("nested.jsonl")
    assert not isinstance(missing, Text)
    assert "'content.text'" in getattr(missing, "detail", "")
    assert [getattr(each, "reason", "") for each in ingested("table.csv")] == ["table"]
