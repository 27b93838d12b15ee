"""The command that reads a folder of Hugging Face: facts for scripts, and refusals by file and key."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tutti.cli.failures import MISUSE, Failure
from tutti.committer.commands.folders import inspect
from tutti.corpus.tokens.tokenizer_test import of_bytes
from tutti.inference.foreign.config import CONFIG, model_of
from tutti.inference.foreign.folder_test import LLAMA, QWEN_3, digest, model, write
from tutti.inference.foreign.texts import TOKENIZER
from tutti.model.chunks import Layout
from tutti.records.canonical import bytes_digest


def test_a_folder_is_shown_with_the_keys_of_a_recipe_for_its_shape(tmp_path: Path) -> None:
    config = QWEN_3 | {"vocab_size": 260, "rope_theta": 1e6, "eos_token_id": [256, 257], "bos_token_id": 257}
    folder, tokenizer = write(tmp_path / "model", config), of_bytes("<|user|>").artefact
    (folder / TOKENIZER).write_bytes(tokenizer)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    found = json.loads(CliRunner().invoke(inspect, [str(folder), "-o", "json"], catch_exceptions=False).output)
    shape = {"width": 16, "layers": 2, "heads": 4, "kv_heads": 2, "hidden": 24, "head_width": 8}
    assert found == {
        "model_digest": model(folder),
        "folder_digest": digest(folder),
        "licence": "mit",
        "tokenizer": bytes_digest(tokenizer),
        "tokenizer_ids": 258,
        "lossless": True,
        "end_ids": [256, 257],
        "begin_id": 257,
        "padding_id": None,
        "template": "",
        "parameters": Layout(model_of(config)).parameters,
        "dtype": "float32",
        "vocabulary": 260,
        "context": 64,
        "model": shape | {"qk_norm": True, "rope_base": 1e6, "norm_eps": 1e-6},
    }


def test_a_refusal_names_the_file_and_the_key(tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    (folder / CONFIG).write_text(json.dumps(LLAMA | {"hidden_act": "gelu"}))
    with pytest.raises(Failure, match=r"config\.json: hidden_act is 'gelu'; expected silu") as refused:
        CliRunner().invoke(inspect, [str(folder)], catch_exceptions=False)
    assert refused.value.code == MISUSE
