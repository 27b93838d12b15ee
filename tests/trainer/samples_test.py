"""What is trained on: conversations and preferences as rows, what is left out of them, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import talks

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.checkpoints.errors import CheckpointError
from tutti.corpus.conversations.conversations import (
    Conversation,
    InvalidConversation,
    Message,
    Preference,
    Record,
    Role,
)
from tutti.corpus.conversations.renderers import own_renderer
from tutti.corpus.conversations.template import CHAT_1
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.marks import Marks
from tutti.corpus.tokens.tokenizer import EOS, BytePairTokenizer
from tutti.model.spec import StepSpec
from tutti.model.training import Training
from tutti.records.manifest import Kind
from tutti.tokenization.bpe import train_bpe
from tutti.trainer.batches.comparisons import Comparisons
from tutti.trainer.batches.demonstrations import Demonstrations
from tutti.trainer.batches.staged import Staged
from tutti.trainer.failures import RankFailure
from tutti.trainer.io.staging import LINES

LONG = "abcdefgh" * 9


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedBlobs:
    return EmbeddedBlobs(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def base(store: EmbeddedBlobs) -> talks.Base:
    return talks.base(store)


def talk(*texts: str, part: str = "") -> Conversation:
    roles = (Role.USER, Role.ASSISTANT) * len(texts)
    return Conversation(tuple(map(Message, roles, texts)), part)


def pair(first: float, *answers: str, prompt: str = "ab") -> Preference:
    return Preference((Message(Role.USER, prompt),), (answers[0], answers[1]), first)


class Reader:
    """Reads records as a rank would."""

    def __init__(self, store: EmbeddedBlobs, base: talks.Base, folder: Path) -> None:
        self.store, self.base, self.folder = store, base, folder

    def staged(self, kind: Kind, records: Sequence[Record], **changes: Any) -> tuple[Staged, Training]:
        key, digest = talks.publish(self.store, kind, records)
        make = talks.sft if kind is Kind.CONVERSATIONS else talks.reward
        training = replace(make(digest, self.base), **changes)
        return talks.staged(self.store, self.folder, key, training)[0], training

    def demonstrations(self, *records: Conversation, **changes: Any) -> Demonstrations:
        held_out = changes.pop("held_out", 0.0)
        return Demonstrations(*self.staged(Kind.CONVERSATIONS, records, **changes), held_out=held_out)

    def comparisons(self, *records: Preference, **changes: Any) -> Comparisons:
        staged, training = self.staged(Kind.PREFERENCES, records, **changes)
        return Comparisons(staged, training, held_out=0.0, room=training.model.context)


ALTERNATING = """\
{%- for message in messages -%}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}{{- raise_exception('turns alternate') -}}{%- endif -%}
    {{- message.content + eos_token + ' ' -}}
{%- endfor -%}
"""


@pytest.fixture
def own(store: EmbeddedBlobs) -> dict[str, str]:
    """What a training with a tokenizer has that came with a template of its own."""
    marks = Marks((talks.TOKENIZER.eos,), template=ALTERNATING, words={"eos_token": EOS})
    tokenizer = BytePairTokenizer.of_others(talks.TOKENIZER.artefact, marks)
    store.put_if_absent(tokenizer_key(tokenizer.version), tokenizer.artefact)
    return {"tokenizer": tokenizer.version, "template": own_renderer(tokenizer).digest}


@pytest.fixture
def read(store: EmbeddedBlobs, base: talks.Base, tmp_path: Path) -> Reader:
    return Reader(store, base, tmp_path)


def test_a_conversation_is_a_row_from_position_0_whose_answers_alone_count(read: Reader) -> None:
    data = read.demonstrations(talk("ab", "ba", "cd", "dc"))
    batch = data.leaves(data.first_ledger(), 1, [0])[0]
    rendered = CHAT_1.bind(talks.TOKENIZER).render(talk("ab", "ba", "cd", "dc").messages)
    assert batch.tokens.shape == (talks.STEP.rows, talks.CONTEXT + 1)
    assert batch.tokens[0, : len(rendered)].tolist() == rendered.ids.tolist()
    learned = batch.tokens[0, 1:][batch.valid[0]].tolist()
    assert learned == rendered.ids[rendered.answer].tolist()
    assert not batch.documents.any()


def test_what_a_template_of_its_own_refuses_is_counted_and_named(read: Reader, own: dict[str, str]) -> None:
    twice = Conversation((Message(Role.USER, "a"), Message(Role.USER, "b"), Message(Role.ASSISTANT, "c")))
    data = read.demonstrations(talk("ab", "ba"), twice, **own)
    assert data.note == "of 2 conversations are left out: 1 that the chat template refuses (line 2)"
    batch = data.leaves(data.first_ledger(), 1, [0])[0]
    learned = batch.tokens[0, 1:][batch.valid[0]].tolist()
    assert learned == [*talks.TOKENIZER.encode("ba").tolist(), talks.TOKENIZER.eos]


def test_an_answer_ends_where_a_template_of_its_own_writes_on(read: Reader, own: dict[str, str]) -> None:
    batch = (data := read.comparisons(pair(0.9, "ba", "cd"), **own)).leaves(data.first_ledger(), 1, [0])[0]
    prompt = [*talks.TOKENIZER.encode("ab").tolist(), talks.TOKENIZER.eos, *talks.TOKENIZER.encode(" ").tolist()]
    answer = [*talks.TOKENIZER.encode("ba").tolist(), talks.TOKENIZER.eos]
    assert batch.tokens[0, : len(prompt) + len(answer)].tolist() == [*prompt, *answer]
    assert batch.tokens[0, 1:][batch.valid[0]].tolist() == answer
    assert not batch.tokens[0, len(prompt) + len(answer) :].any()


def test_rows_that_are_too_long_are_counted_and_named(read: Reader) -> None:
    data = read.demonstrations(talk("ab", "ba"), talk("ab", LONG), talk("cd"), talk(LONG, "ab"))
    assert data.note == (
        "of 4 conversations are left out: 2 longer than 25 tokens (line 2, 4); 1 without an assistant's turn (line 3)"
    )
    assert data.first_ledger().spans[0].datasets[0].sequences == 1
    many = read.demonstrations(talk("ab", "ba"), *(talk("a", LONG + str(n)) for n in range(8)))
    assert "8 longer than 25 tokens (line 2, 3, 4, 5, 6 and 3 more)" in many.note


def test_where_no_row_fits_the_context_it_is_refused(read: Reader) -> None:
    with pytest.raises(RankFailure, match=r"of 2 conversations are left out: 2 longer than 25 tokens \(line 1, 2\)"):
        read.demonstrations(talk("ab", LONG), talk(LONG, "ab"))
    with pytest.raises(RankFailure, match=r"of 1 preferences are left out: 1 longer than 24 tokens \(line 1\)"):
        read.comparisons(pair(0.9, "ab", LONG))


def test_a_part_is_read_alone_and_one_that_is_not_there_is_refused(read: Reader) -> None:
    talks_of_two = [talk("ab", "ba", part="train"), talk("cd", "dc", part="final")]
    data = read.demonstrations(*talks_of_two, part="final")
    assert data.first_ledger().spans[0].datasets[0].sequences == 1
    with pytest.raises(RankFailure, match=r"no conversations in the part 'trian'; its parts are final, train"):
        read.demonstrations(*talks_of_two, part="trian")
    with pytest.raises(RankFailure, match="its parts are none: it is not split"):
        read.demonstrations(talk("ab", "ba"), part="train")
    with pytest.raises(RankFailure, match="there are no conversations"):
        read.demonstrations()


def test_role_tokens_in_texts_are_texts(read: Reader) -> None:
    spelled = "<|assistant|>"
    data = read.demonstrations(talk(f"a{spelled}", "b"))
    tokens = data.leaves(data.first_ledger(), 1, [0])[0].tokens[0]
    special = [token for token in tokens.tolist() if token in talks.TOKENIZER.reserved.values()]
    assert special == [talks.TOKENIZER.reserved["<|user|>"], talks.TOKENIZER.reserved[spelled]]


def test_the_two_answers_of_a_pair_are_rows_beside_each_other(read: Reader) -> None:
    data = read.comparisons(pair(0.9, "ba", "cd"), pair(0.5, "c", "abc"))
    ledger = data.first_ledger()
    assert ledger.spans[0].rows_per_leaf * 2 == talks.STEP.rows
    batch = data.leaves(ledger, 1, [0])[0]
    renderer = CHAT_1.bind(talks.TOKENIZER)
    for number, first in enumerate(batch.first.tolist()):
        answers = ("ba", "cd") if first > 0.5 else ("c", "abc")
        for row, text in enumerate(answers, 2 * number):
            rendered = renderer.render((Message(Role.USER, "ab"), Message(Role.ASSISTANT, text)))
            assert batch.tokens[row, : len(rendered)].tolist() == rendered.ids.tolist()
            assert batch.pooled[row].sum() == batch.valid[row].sum() == len(text) + 1
            assert batch.tokens[row, :-1][batch.pooled[row]].tolist() == rendered.ids[rendered.answer].tolist()
    assert np.all(batch.weight == 1)


def test_an_earlier_turn_of_the_assistant_belongs_to_the_prompt(read: Reader) -> None:
    before = (Message(Role.USER, "a"), Message(Role.ASSISTANT, "b"), Message(Role.USER, "c"))
    data = read.comparisons(Preference(before, ("d", "ef"), 0.9))
    batch = data.leaves(data.first_ledger(), 1, [0])[0]
    assert batch.valid[:2].sum(1).tolist() == batch.pooled[:2].sum(1).tolist() == [2, 3]


def test_preferences_that_are_all_ties_are_refused(read: Reader) -> None:
    with pytest.raises(RankFailure, match="all 2 preferences are ties, which teach nothing"):
        read.comparisons(pair(0.5, "a", "b"), pair(0.5, "b", "c"))
    assert read.comparisons(pair(0.5, "a", "b"), pair(0.9, "b", "c")).note == ""


def test_a_pair_that_cannot_be_compared_is_left_out(read: Reader) -> None:
    answered = Preference(talk("a", "b").messages, ("c", "d"), 0.9)
    data = read.comparisons(pair(0.9, "a", "b"), pair(0.9, "a", "a"), answered)
    assert "1 of an answer and itself (line 2)" in data.note
    assert "1 with a prompt that the assistant has answered (line 3)" in data.note


def test_pairs_of_a_prompt_are_held_out_together(store: EmbeddedBlobs, base: talks.Base, tmp_path: Path) -> None:
    records = [pair(0.9, "a", answer, prompt=f"p{number}") for number in range(40) for answer in ("b", "c", "d")]
    staged, training = Reader(store, base, tmp_path).staged(Kind.PREFERENCES, records)
    data = Comparisons(staged, training, held_out=0.3, room=talks.CONTEXT)
    trained = {each.key for each in data.train}
    held_out = {each.key for each in data.held_out}
    assert not trained & held_out
    assert len(trained | held_out) == 40
    assert 5 < len(held_out) < 20
    last = data.held_out_leaf(data.held_out_leaves - 1)
    assert sum(int((data.held_out_leaf(leaf).weight > 0).sum()) for leaf in range(data.held_out_leaves)) == len(
        data.held_out
    )
    assert last.tokens.shape == (talks.STEP.rows, talks.CONTEXT + 1)


def test_all_samples_held_out_is_refused(read: Reader) -> None:
    with pytest.raises(RankFailure, match="all 1 conversations are held out"):
        read.demonstrations(talk("ab", "ba"), held_out=0.999999)


def test_a_leaf_that_splits_a_pair_is_refused(read: Reader) -> None:
    with pytest.raises(RankFailure, match="a leaf of 3 rows; expected a multiple of 2"):
        read.comparisons(pair(0.9, "a", "b"), step=StepSpec(leaves=2, rows=3))


def test_another_tokenizer_another_template_and_other_data_are_refused(read: Reader, tmp_path: Path) -> None:
    staged, training = read.staged(Kind.PREFERENCES, [pair(0.9, "a", "b")])
    plain = train_bpe(["a b"], vocabulary=260)
    (tmp_path / "plain.json").write_bytes(plain.artefact)
    other = replace(staged, tokenizer=tmp_path / "plain.json")
    for wrong, of, words in (
        (other, training, "the tokenizer is damaged"),
        (other, replace(training, tokenizer=plain.version), r"does not reserve <\|system\|>.*set `template`"),
        (staged, replace(training, template=talks.NONE), "no chat template has the digest"),
        (staged, replace(training, dataset=talks.NONE), "the staged preferences are"),
        (staged, replace(training, model=replace(talks.MODEL, vocabulary=260)), "the model has room for 260"),
        (replace(staged, tokenizer=None), training, "no tokenizer is staged"),
    ):
        with pytest.raises(RankFailure, match=words):
            Comparisons(wrong, of, held_out=0.0, room=talks.CONTEXT)


def test_lines_that_are_no_preferences_are_named(read: Reader) -> None:
    staged, training = read.staged(Kind.PREFERENCES, [pair(0.9, "a", "b")])
    path = staged.datasets[0] / LINES
    path.write_bytes(path.read_bytes() + b'{"answers": ["a"]}\n')
    with pytest.raises(InvalidConversation, match="line 2"):
        Comparisons(staged, training, held_out=0.0, room=talks.CONTEXT)


def test_a_reference_of_another_model_or_state_is_refused(read: Reader, store: EmbeddedBlobs) -> None:
    from tutti.trainer.programs.dpo import ReferredPairs

    key, digest = talks.publish(store, Kind.PREFERENCES, [pair(0.9, "a", "b"), pair(0.1, "b", "c", prompt="e")])
    other = talks.base(store, replace(talks.MODEL, width=48), job="wide")
    training = talks.dpo(digest, other)
    staged, _ = talks.staged(store, read.folder, key, training)
    with pytest.raises(RankFailure, match="the reference is the model"):
        ReferredPairs(staged, training)
    with pytest.raises(CheckpointError, match="expected"):
        ReferredPairs(staged, talks.dpo(digest, read.base))


def test_a_cut_answer_is_trained_on_without_an_end_of_text(read: Reader) -> None:
    ended, cut = pair(0.9, "ab", "cd"), replace(pair(0.9, "ab", "cd"), stops=("tokens", "end"))
    whole, short = (data.leaves(data.first_ledger(), 1, [0])[0] for data in map(read.comparisons, (ended, cut)))
    assert (whole.pooled.sum(1)[:2] - short.pooled.sum(1)[:2]).tolist() == [1, 0]
    first = short.tokens[0][: int(short.valid[0].sum()) + 1]
    assert talks.TOKENIZER.eos not in first.tolist()
    assert whole.tokens[0][: len(first)].tolist() == first.tolist()
    assert whole.tokens[1].tolist() == short.tokens[1].tolist()


def test_a_turn_that_is_no_example_is_context(read: Reader) -> None:
    turns = talk("ab", "ba", "cd", "dc").messages
    whole, less = Conversation(turns), Conversation((turns[0], replace(turns[1], trained=False), *turns[2:]))
    one, other = (data.leaves(data.first_ledger(), 1, [0])[0] for data in map(read.demonstrations, (whole, less)))
    assert one.tokens[0].tolist() == other.tokens[0].tolist()
    assert other.valid[0].sum() == one.valid[0].sum() / 2
    assert other.valid[0].tolist()[: int(np.flatnonzero(one.valid[0])[3])].count(True) == 0
