"""Models that transformers makes compute the same here, and leave with the bytes that they came with."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.theirs import their_model

from tutti.inference.foreign.config import model_of
from tutti.inference.foreign.folder import WEIGHTS, Foreign, opened
from tutti.inference.foreign.tensors import INDEX, header
from tutti.inference.huggingface import configuration, stored
from tutti.model.transformer import Transformer

POSITIONS, VOCABULARY = 512, 320
NEAR, CLOSE = 1e-4, 2e-4
"""The largest difference of two logits, and of two tokens of which either may be the likeliest."""
SHAPE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 160,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": POSITIONS,
    "initializer_range": 0.14,
}
LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 128}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": True, "rope_parameters": LLAMA_3},
    "mistral": {"head_dim": 32, "sliding_window": None, "rms_norm_eps": 1e-5},
    "qwen2": {"rope_parameters": YARN, "rms_norm_eps": 1e-6},
    "qwen3": {"head_dim": 32, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
}


def made(kind: str, folder: Path, *, dtype: str = "float32", shard: str = "1GB") -> Any:
    """A random model of a family, whose gains and biases are not those that a model starts with."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SHAPE, **MODELS[kind]))
    with torch.no_grad():
        for name, values in model.named_parameters():
            if values.dim() == 1:
                values.uniform_(0.5, 1.5) if "norm" in name else values.normal_(std=0.3)
    model = model.to(getattr(torch, dtype)).eval()
    model.save_pretrained(folder, max_shard_size=shard)
    (folder / "tokenizer.json").write_text("{}")
    return model


def vector(foreign: Foreign) -> np.ndarray:
    return np.concatenate([foreign.weights.chunk(chunk) for chunk in foreign.layout.chunks])


@torch.no_grad()
def logits(foreign: Foreign, tokens: torch.Tensor) -> torch.Tensor:
    """Ours of the token after each position, [positions, vocabulary]."""
    transformer = Transformer(foreign.layout, torch.from_numpy(vector(foreign)), compiled=False)
    inputs = torch.nn.functional.pad(tokens[None], (0, 1))
    hidden, weight = transformer._hidden(inputs, torch.zeros_like(inputs))
    return hidden @ weight.T


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_gives_the_logits_and_the_likeliest_tokens_that_transformers_gives(
    kind: str, dtype: str, tmp_path: Path
) -> None:
    made(kind, tmp_path, dtype=dtype, shard="1GB" if dtype == "float32" else "60KB")
    theirs = their_model(tmp_path, dtype=torch.float32)
    tokens = torch.randint(0, VOCABULARY, (POSITIONS,), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = theirs(tokens[None]).logits[0]
    with opened(tmp_path) as foreign:
        assert foreign.weights.dtype == dtype
        found = logits(foreign, tokens)
    assert expected.std() >= 1
    torch.testing.assert_close(found, expected, rtol=0, atol=NEAR)
    top = expected.topk(2).values
    clear = top[:, 0] - top[:, 1] >= CLOSE
    assert clear.sum() > POSITIONS * 0.9
    assert torch.equal(found.argmax(-1)[clear], expected.argmax(-1)[clear])


@pytest.mark.parametrize("kind", MODELS)
def test_tensors_leave_with_the_bytes_that_they_came_with(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "in", dtype="bfloat16", shard="60KB")
    assert (tmp_path / "in" / INDEX).exists()
    with opened(tmp_path / "in") as foreign:
        (tmp_path / "out").mkdir()
        stored(foreign.layout, vector(foreign), tmp_path / "out" / WEIGHTS, dtype=foreign.weights.dtype)
        came = {name: data for path in (tmp_path / "in").glob("*.safetensors") for name, data in contents(path).items()}
        assert contents(tmp_path / "out" / WEIGHTS) == came


def contents(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Type, shape and bytes of each tensor of a file."""
    with path.open("rb") as file:
        data = path.read_bytes()
        return {
            name: (each.kind, each.shape, data[each.offset : each.offset + 2 * each.elements])
            for name, each in header(file, path.name).items()
        }


def test_the_configuration_of_an_export_describes_the_model_that_came_in(tmp_path: Path) -> None:
    for kind in MODELS:
        made(kind, tmp_path / kind)
        with opened(tmp_path / kind) as foreign:
            model = foreign.layout.model
            assert model_of(configuration(model, 0)) == model
        shutil.rmtree(tmp_path / kind)
