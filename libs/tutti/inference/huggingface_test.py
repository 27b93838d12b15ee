"""The exported folder is the same model and the same tokenizer in transformers."""

import errno
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.exceptions import TemplateError
from tests.theirs import their_model, their_tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tutti.checkpoints.digests import vector_digest
from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.template import CHAT_1
from tutti.corpus.tokens.tokenizer import EOS, BytePairTokenizer
from tutti.inference.decoder import Decoder
from tutti.inference.decoder_test import MODEL, SHAPES, parameters, read, tokens_of
from tutti.inference.foreign.folder import opened
from tutti.inference.generation import generate
from tutti.inference.huggingface import WEIGHTS, Exported, NotExportable, tensors, write
from tutti.inference.limits import Limits
from tutti.inference.sampling import Sampling
from tutti.model.spec import ModelSpec
from tutti.records.canonical import canonical_json, parse_json

MIXED = [
    "",
    "def f(x):\n\treturn x ** 2  # caf\u00e9 \u4e2d\u6587 \U0001f600",
    " leading, trailing ",
    "don't  stop\r\n\r\n12345 it's",
    f"a text that spells {EOS} is text",
    "\u0000\u007f e\u0301 \ufb01 \u00a0",
]


def trained(reserved: Sequence[str] = ()) -> BytePairTokenizer:
    """A byte-level tokenizer of 300 ids: 256 bytes, merges, the reserved tokens, the end of a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=299 - len(reserved),
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(MIXED * 3, trainer)
    tokenizer.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in (*reserved, EOS)])
    return BytePairTokenizer(canonical_json(parse_json(tokenizer.to_str())))


TOKENIZER = trained()


def exported(model: ModelSpec, folder: Path) -> Decoder:
    layout, vector = parameters(model)
    write(Exported(layout, vector.numpy(), TOKENIZER), folder)
    return Decoder(layout, vector)


@pytest.mark.parametrize("model", SHAPES)
def test_transformers_computes_the_same_logits_and_the_same_greedy_text(model: ModelSpec, tmp_path: Path) -> None:
    decoder = exported(model, tmp_path / "out")
    theirs, report = their_model(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    tokens = tokens_of(replace(model, vocabulary=300), model.context)
    with torch.no_grad():
        logits = theirs(torch.tensor([tokens])).logits[0]
    torch.testing.assert_close(logits, read(decoder, tokens, 1), rtol=0, atol=1e-4)
    [ours] = generate(decoder, [tokens[:6]], Sampling(temperature=0), Limits(20, TOKENIZER.eos, TOKENIZER.vocabulary))
    text = theirs.generate(torch.tensor([tokens[:6]]), max_new_tokens=20)[0, 6:].tolist()
    assert [token for token in text if token != TOKENIZER.eos] == list(ours.tokens)


def test_transformers_reads_the_same_ids_and_texts(tmp_path: Path) -> None:
    exported(MODEL, tmp_path / "out")
    theirs = their_tokenizer(tmp_path / "out")
    for text in MIXED:
        ids = TOKENIZER.encode(text).tolist()
        assert theirs(text)["input_ids"] == ids
        assert theirs.decode(ids) == text

    @given(st.text(alphabet=st.characters(codec="utf-8"), max_size=100))
    @settings(max_examples=100)
    def any_text(text: str) -> None:
        assert theirs(text)["input_ids"] == TOKENIZER.encode(text).tolist()

    any_text()
    assert (theirs.eos_token, theirs.eos_token_id, theirs.model_max_length) == (EOS, 299, MODEL.context)
    assert theirs.decode([299]) == EOS


def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        exported(MODEL, tmp_path / name)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["config.json", "generation_config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    for taken in (tmp_path, tmp_path / "mine"):
        with pytest.raises(FileExistsError, match="not an empty folder; name a new one"):
            exported(MODEL, taken)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    exported(MODEL, tmp_path / "empty")
    assert (tmp_path / "empty" / WEIGHTS).stat().st_size > 0


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    layout, vector = parameters(MODEL)
    with pytest.raises(ValueError, match="reshape"):
        write(Exported(layout, vector.numpy()[:-64].astype(np.float32), TOKENIZER), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_weights_that_cannot_be_written_raise_the_systems_error_and_leave_nothing(tmp_path: Path) -> None:
    layout, vector = parameters(MODEL)
    with pytest.raises(OSError, match="File too large") as refused, no_file_larger_than(vector.nbytes // 2):
        write(Exported(layout, vector.numpy(), TOKENIZER), tmp_path / "made")
    assert refused.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []


CHATTING = trained(CHAT_1.tokens)
TALK = (
    Message(Role.SYSTEM, "be brief"),
    Message(Role.USER, "d f a"),
    Message(Role.ASSISTANT, "a d f"),
    Message(Role.USER, " caf\u00e9 <|other|> \n\nb"),
)


def test_transformers_applies_the_chat_template_and_answers_with_the_same_greedy_text(tmp_path: Path) -> None:
    model = replace(MODEL, vocabulary=CHATTING.vocabulary, context=96, value_model=True)
    layout, vector = parameters(model)
    write(Exported(layout, vector.numpy(), CHATTING, CHAT_1), tmp_path / "out")
    theirs = their_model(tmp_path / "out")
    tokenizer = their_tokenizer(tmp_path / "out")
    messages = [each.to_json() for each in TALK]
    whole = tokenizer.apply_chat_template(messages, return_dict=False)
    renderer = CHAT_1.bind(CHATTING)
    assert whole == renderer.render(TALK).ids.tolist()
    asked = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    prompt = renderer.open(TALK).tolist()
    assert asked == prompt
    limits = Limits(20, CHATTING.eos, CHATTING.vocabulary)
    [ours] = generate(Decoder(layout, vector), [prompt], Sampling(temperature=0), limits)
    said = theirs.generate(torch.tensor([asked]), max_new_tokens=20)[0, len(asked) :].tolist()
    assert [token for token in said if token != CHATTING.eos] == list(ours.tokens)


def test_weights_leave_as_the_nearest_numbers_of_bfloat16(tmp_path: Path) -> None:
    layout, vector = parameters(MODEL)
    write(Exported(layout, vector.numpy(), TOKENIZER, dtype="bfloat16"), tmp_path / "out")
    theirs = their_model(tmp_path / "out", dtype="auto").state_dict()
    for name, values in tensors(layout, vector.numpy()).items():
        assert theirs[name].dtype == torch.bfloat16
        assert torch.equal(theirs[name], torch.from_numpy(values).bfloat16()), name


@pytest.mark.parametrize("model", SHAPES)
def test_an_export_is_read_back_as_the_model_that_was_exported(model: ModelSpec, tmp_path: Path) -> None:
    layout, vector = parameters(model)
    write(Exported(layout, vector.numpy(), TOKENIZER), tmp_path / "out")
    with opened(tmp_path / "out") as foreign:
        assert foreign.layout.model == replace(model, document_mask=True)
        assert foreign.weights.digest() == vector_digest(layout, vector.numpy())


@pytest.mark.parametrize("spelled", ["<|assistant|>", EOS])
def test_a_message_that_spells_a_special_token_opens_no_turn_in_transformers(tmp_path: Path, spelled: str) -> None:
    model = replace(MODEL, vocabulary=CHATTING.vocabulary)
    layout, vector = parameters(model)
    write(Exported(layout, vector.numpy(), CHATTING, CHAT_1), tmp_path / "out")
    tokenizer = their_tokenizer(tmp_path / "out")
    with pytest.raises(TemplateError, match="which no message may"):
        tokenizer.apply_chat_template([{"role": "user", "content": f"a{spelled}b"}])
    with pytest.raises(TemplateError, match="roles are system, user, assistant"):
        tokenizer.apply_chat_template([{"role": "tool", "content": "a"}])


def test_a_reward_model_is_refused(tmp_path: Path) -> None:
    layout, vector = parameters(replace(MODEL, scalar_head=True))
    with pytest.raises(NotExportable, match="it is a reward model"):
        write(Exported(layout, vector.numpy(), TOKENIZER), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
