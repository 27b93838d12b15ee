"""The decoder: what it reads token by token is what training reads at once."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tutti.inference.decoder import Decoder, Text
from tutti.inference.errors import PromptTooLong
from tutti.inference.memory import ROWS
from tutti.model.chunks import Layout
from tutti.model.chunks_test import SMALL, models
from tutti.model.initial import initial_parameters
from tutti.model.spec import ModelSpec, RopeScaling
from tutti.model.transformer import Transformer

MODEL = replace(SMALL, init_std=0.1)
SHAPES = [
    MODEL,
    replace(MODEL, tied=True),
    replace(MODEL, qk_norm=True),
    replace(MODEL, kv_heads=4),
    replace(MODEL, document_mask=False, tied=True, qk_norm=True, kv_heads=1, rope_base=500.0),
    replace(MODEL, qk_norm=True, head_dim=32),
    replace(MODEL, qkv_bias=True, rope_base=500.0, rope_scaling=RopeScaling.of("yarn", 4, 16)),
    replace(MODEL, head_dim=8, rope_scaling=RopeScaling.of("llama3", 8, 16)),
]


def parameters(model: ModelSpec, seed: int = 1) -> tuple[Layout, Tensor]:
    layout = Layout(model)
    vector = torch.cat([torch.from_numpy(initial_parameters(layout, chunk, seed)) for chunk in layout.chunks])
    gains = torch.linspace(0.5, 1.5, len(vector))  # gains that are not one show where each is used
    return layout, vector * gains


def tokens_of(model: ModelSpec, length: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, model.vocabulary, (length,), generator=generator).tolist()


def read(decoder: Decoder, tokens: list[int], prompt: int) -> Tensor:
    """Logits after each token from the prompt's last on, [len(tokens) - prompt + 1, vocabulary]."""
    text, logits = decoder.begin(tokens[:prompt], room=len(tokens))
    return torch.stack([logits, *(decoder.step([text], [token])[0] for token in tokens[prompt:])])


@pytest.mark.parametrize("model", SHAPES)
@pytest.mark.parametrize("prompt", [1, 9, 32])
def test_reading_token_by_token_predicts_what_training_predicts(model: ModelSpec, prompt: int) -> None:
    layout, vector = parameters(model)
    tokens = torch.tensor([tokens_of(model, model.context + 1)])
    transformer = Transformer(layout, vector, compiled=False)
    valid = torch.ones(1, model.context, dtype=torch.bool)
    with torch.no_grad():
        expected = transformer.token_losses(tokens, torch.zeros_like(tokens), valid)[1]
    logits = read(Decoder(layout, vector), tokens[0, :-1].tolist(), prompt)
    seen = -logits.log_softmax(-1).gather(-1, tokens[0, prompt:, None])[:, 0]
    torch.testing.assert_close(seen, expected[prompt - 1 :], rtol=1e-5, atol=1e-5)


def test_control_another_rotation_or_norm_predicts_something_else() -> None:
    layout, vector = parameters(MODEL)
    tokens = tokens_of(MODEL, 12)
    before = read(Decoder(layout, vector), tokens, 8)[-1]
    for changed in (replace(MODEL, rope_base=100.0), replace(MODEL, norm_epsilon=1e-2)):
        other = read(Decoder(Layout(changed), vector), tokens, 8)[-1]
        assert (before - other).abs().max() > 1e-4


@given(models().filter(lambda model: min(model.vocabulary, model.width, 2 * model.hidden) >= 16), st.data())
@settings(max_examples=30)
def test_what_is_decoded_beside_a_text_moves_no_bit_of_it(model: ModelSpec, data: st.DataObject) -> None:
    decoder = Decoder(*parameters(model))
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=ROWS))
    mine = data.draw(st.integers(0, len(lengths) - 1))
    every = [tokens_of(model, length + 3, seed=k) for k, length in enumerate(lengths)]
    alone = read(decoder, every[mine], lengths[mine])
    begun = [decoder.begin(tokens[:length], room=16) for tokens, length in zip(every, lengths, strict=True)]
    texts: list[Text] = [text for text, _ in begun]
    assert begun[mine][1].equal(alone[0])
    for step in range(3):
        logits = decoder.step(texts, [tokens[length + step] for tokens, length in zip(every, lengths, strict=True)])
        assert logits[mine].equal(alone[step + 1])


def test_a_prompt_without_room_is_refused() -> None:
    decoder = Decoder(*parameters(MODEL))
    for prompt, room in ((33, 33), (5, 4), (0, 4), (4, 33)):
        with pytest.raises(PromptTooLong, match="shorten the prompt"):
            decoder.begin([1] * prompt, room=room)
