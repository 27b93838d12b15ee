"""Answers to conversations: numbered over the whole set, each by its own draws; refused where nothing can answer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import talks
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import RealFiles
from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.keys import manifest_of
from tutti.checkpoints.staged import MANIFEST
from tutti.corpus.conversations.conversations import Answer, Conversation, Message, Role, from_lines, to_lines
from tutti.corpus.conversations.template import CHAT_1
from tutti.inference.engines import Kind
from tutti.inference.models import Wanted
from tutti.inference.sampling import Sampling
from tutti.sampling.answering import Answered, answer
from tutti.trainer.io.staging import Cache

KNOWN = {"tokenizer": talks.TOKENIZER.version, "template": CHAT_1.digest}
PROMPTS = [
    *(Conversation(talks.asked(number), "train" if number % 2 else "final") for number in range(5)),
    Conversation((*talks.asked(7), Message(Role.ASSISTANT, "what was shown")), "final"),
]


def checkpoint(folder: Path, **training: Any) -> Path:
    blobs = EmbeddedBlobs(folder / "blobs")
    made = talks.base(blobs, job="tuned", **training)
    (found,) = Cache(folder / "cache", blobs, RealFiles()).checkpoints({made.state_digest: manifest_of(made.name)})
    return found


def answered(
    folder: Path, staged: Path, prompts: list[Conversation], *, part: str = "final", each: int = 3, seed: int = 4
) -> tuple[Answered, list[Answer]]:
    lines, to = folder / "prompts.jsonl", folder / "answers.jsonl"
    lines.write_bytes(to_lines(prompts))
    wanted = Wanted((staged / MANIFEST).read_bytes(), staged, most_bytes=0)
    found = answer(wanted, talks.TOKENIZER, lines, part, Sampling(seed=seed), 6, each, Kind.SLOTS, to)
    return found, list(from_lines(Answer, to.read_bytes()))


def test_each_prompt_of_a_part_is_answered_so_many_times_in_order(tmp_path: Path) -> None:
    staged = checkpoint(tmp_path, **KNOWN)
    counts, found = answered(tmp_path, staged, PROMPTS)
    asked = [talks.asked(number) for number in (0, 2, 4, 7)]  # a demonstration is asked without its answer
    assert [each.number for each in found] == list(range(12))
    assert [each.prompt for each in found] == [prompt for prompt in asked for _ in range(3)]
    assert counts == Answered(12, sum(len(each.tokens) for each in found))
    assert all(len(each.tokens) <= 6 and talks.TOKENIZER.eos not in each.tokens for each in found)
    assert all(talks.TOKENIZER.decode(each.tokens) == each.text for each in found)
    assert answered(tmp_path, staged, PROMPTS)[1] == found
    first = answered(tmp_path, staged, [replace(PROMPTS[0])])[1]
    assert first == found[:3]  # whatever is answered beside it
    assert answered(tmp_path, staged, PROMPTS, seed=5)[1] != found


def test_what_nothing_can_answer_is_refused(tmp_path: Path) -> None:
    staged = checkpoint(tmp_path, **KNOWN)
    with pytest.raises(WorkFailed, match="the part 'other' has no conversation"):
        answered(tmp_path, staged, PROMPTS, part="other")
    with pytest.raises(WorkFailed, match=r"the model's context is 24; shorten it by at least \d+"):
        answered(tmp_path, staged, [Conversation((Message(Role.USER, "a" * 40),))], part="")


def test_a_checkpoint_without_a_chat_template_answers_nothing(tmp_path: Path) -> None:
    with pytest.raises(WorkFailed, match="checkpoints/tuned/0/1 was not trained on conversations"):
        answered(tmp_path, checkpoint(tmp_path), PROMPTS)
