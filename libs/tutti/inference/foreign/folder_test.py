"""A folder is read as it is, or refused by the name of the file and of the key."""

import json
import os
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tutti.checkpoints.digests import vector_digest
from tutti.inference.foreign.config import CONFIG, model_of
from tutti.inference.foreign.errors import NotImportable
from tutti.inference.foreign.folder import WEIGHTS, opened
from tutti.inference.foreign.tensors import INDEX
from tutti.inference.foreign.texts import TOKENIZER
from tutti.inference.names import EMBEDDING, HEAD, parts
from tutti.model.chunks import Layout

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 48,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
QWEN_3 = LLAMA | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 8}
SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
BLOCK = "model.layers.0."
NONE: Mapping[str, np.ndarray] = {}
Change = Callable[[Path], object]


def weights(config: dict[str, Any]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {each.name: rng.normal(size=each.shape).astype(np.float32) for each in parts(Layout(model_of(config)))}


def write(folder: Path, config: dict[str, Any] = LLAMA, more: Mapping[str, np.ndarray] = NONE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(config))
    (folder / TOKENIZER).write_text("{}")
    save_file({**weights(config), **more}, folder / WEIGHTS)
    return folder


def cut(folder: Path, config: dict[str, Any] = LLAMA) -> Path:
    """The same with its weights in two files."""
    write(folder, config)
    (folder / WEIGHTS).unlink()
    names, made = list(weights(config)), weights(config)
    for file, part in (("a.safetensors", names[:5]), ("b.safetensors", names[5:])):
        save_file({name: made[name] for name in part}, folder / file)
    placed = {name: "a.safetensors" if at < 5 else "b.safetensors" for at, name in enumerate(names)}
    (folder / INDEX).write_text(json.dumps({"weight_map": placed}))
    return folder


def model(folder: Path, **how: Any) -> str:
    """The model digest of what a folder holds."""
    with opened(folder, **how) as foreign:
        return vector_digest(foreign.layout, np.concatenate([foreign.weights.chunk(c) for c in foreign.layout.chunks]))


def digest(folder: Path) -> str:
    with opened(folder) as foreign:
        return foreign.digest


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"model_type": "olmo2"}, "model_type"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"auto_map": {"AutoModelForCausalLM": "mine.Model"}}, "auto_map"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        ({"num_local_experts": 8}, "num_local_experts"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling.rope_type"),
        ({"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}, "rope_parameters.rope_type"),
        ({"rope_scaling": SCALED}, "rope_scaling.original_max_position_embeddings"),
        ({"rope_scaling": SCALED | {"original_max_position_embeddings": 8, "mscale": 1}}, "rope_scaling.mscale"),
        ({"rope_theta": "many"}, "rope_theta"),
        ({"sliding_window": 32, "use_sliding_window": True}, "sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 32}, "sliding_window"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "layer_types"),
        ({"hidden_size": 18}, "hidden_size"),
        ({"num_key_value_heads": 3}, "num_attention_heads"),
        ({"vocab_size": None}, "vocab_size"),
        ({"rms_norm_eps": 0}, "rms_norm_eps"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    ],
)
def test_a_configuration_that_would_compute_something_else_is_refused_by_its_key(
    change: dict[str, Any], key: str
) -> None:
    with pytest.raises(NotImportable, match=CONFIG) as refused:
        model_of(LLAMA | change)
    assert (refused.value.file, refused.value.key) == (CONFIG, key)


def test_a_window_that_holds_the_context_changes_nothing() -> None:
    for change in ({"sliding_window": 32}, {"sliding_window": 64, "use_sliding_window": True}):
        assert model_of(LLAMA | change) == model_of(LLAMA)
    mistral = LLAMA | {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    assert model_of(mistral) == model_of(mistral | {"sliding_window": None})
    with pytest.raises(NotImportable, match="sliding_window is 4096"):  # that of a file without the key
        model_of(mistral | {"max_position_embeddings": 8192})


def test_rotary_positions_are_read_from_both_places_that_transformers_knows() -> None:
    scaled = SCALED | {"original_max_position_embeddings": 32}
    new, old = model_of(LLAMA | {"rope_parameters": {**scaled, "rope_theta": 5e5}}), {"rope_theta": 5e5}
    assert new == model_of(LLAMA | old | {"rope_scaling": scaled})
    assert new.rope_scaling is not None
    assert (new.rope_base, new.rope_scaling.factor, new.rope_scaling.fast) == (5e5, 8.0, 4.0)


def test_weights_in_one_file_and_in_several_are_the_same_model(tmp_path: Path) -> None:
    whole = model(write(tmp_path / "whole", QWEN_3))
    assert whole == model(cut(tmp_path / "cut", QWEN_3))
    np.savez(tmp_path / "cut" / "consolidated.00.npz")
    assert whole == model(tmp_path / "cut")


def test_tables_that_follow_from_the_configuration_are_left_out(tmp_path: Path) -> None:
    table = {f"{BLOCK}self_attn.rotary_emb.inv_freq": np.ones(2, np.float32)}
    assert model(write(tmp_path / "more", more=table)) == model(write(tmp_path / "plain"))


def test_a_tied_model_may_have_its_matrix_twice_but_not_two_of_them(tmp_path: Path) -> None:
    tied = LLAMA | {"tie_word_embeddings": True}
    embedding = weights(tied)[EMBEDDING]
    assert model(write(tmp_path / "twice", tied, {HEAD: embedding})) == model(write(tmp_path / "once", tied))
    with pytest.raises(NotImportable, match=f"{HEAD} is 'a matrix of its own'") as refused:
        model(write(tmp_path / "two", tied, {HEAD: embedding + 1}))
    assert (refused.value.file, refused.value.key) == (WEIGHTS, HEAD)


def without(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def instead(name: str) -> Change:
    """The weights under another name."""
    return lambda folder: (folder / WEIGHTS).rename(folder / name)


def put(name: str, data: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(data)


def shortened(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-4])


def stored(name: str, values: np.ndarray) -> Change:
    """The folder with another tensor."""
    return lambda folder: write(folder, more={name: values})


@pytest.mark.parametrize(
    ("change", "file", "key"),
    [
        (without(CONFIG), CONFIG, ""),
        (without(TOKENIZER), TOKENIZER, ""),
        (without(WEIGHTS), WEIGHTS, ""),
        (put(CONFIG, b"{"), CONFIG, ""),
        (put(CONFIG, b"[]"), CONFIG, ""),
        (lambda folder: os.truncate(folder / TOKENIZER, (64 << 20) + 1), TOKENIZER, ""),
        (put(CONFIG, b"[" * 100_000), CONFIG, ""),
        (put(WEIGHTS, (100_000).to_bytes(8, "little") + b"[" * 100_000), WEIGHTS, ""),
        (instead("pytorch_model.bin"), "pytorch_model.bin", ""),
        (instead("consolidated.safetensors"), "consolidated.safetensors", ""),
        (shortened, WEIGHTS, "model.norm.weight.data_offsets"),
        (put(WEIGHTS, b"\xff" * 20), WEIGHTS, ""),
        (put(WEIGHTS, b""), WEIGHTS, ""),
        (stored("model.vision.weight", np.ones(3, np.float32)), WEIGHTS, "model.vision.weight"),
        (stored(HEAD, np.ones((16, 48), np.float32)), WEIGHTS, f"{HEAD}.shape"),
        (stored(HEAD, np.ones((48, 16), np.int8)), WEIGHTS, f"{HEAD}.dtype"),
        (stored(f"{BLOCK}self_attn.q_norm.weight", np.ones(16, np.float32)), WEIGHTS, None),
    ],
)
def test_a_folder_that_cannot_be_read_is_refused_by_its_file(
    change: Change, file: str, key: str | None, tmp_path: Path
) -> None:
    folder = write(tmp_path / "model")
    change(folder)
    with pytest.raises(NotImportable) as refused:
        model(folder)
    assert refused.value.file == file
    assert key is None or refused.value.key == key


def test_norms_of_whole_queries_are_refused_by_their_shape(tmp_path: Path) -> None:
    name = f"{BLOCK}self_attn.q_norm.weight"
    with pytest.raises(NotImportable, match=r"is \[32\]; expected \[8\], by config.json") as refused:
        model(write(tmp_path / "model", QWEN_3, {name: np.ones(32, np.float32)}))
    assert refused.value.key == f"{name}.shape"


def test_no_more_of_the_weights_than_a_piece_is_in_memory(tmp_path: Path) -> None:
    config = LLAMA | {"vocab_size": 100_000, "tie_word_embeddings": True}
    folder = write(tmp_path / "model", config)
    with opened(folder) as foreign:
        tracemalloc.start()
        foreign.weights.digest()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < (folder / WEIGHTS).stat().st_size / 10


def test_a_number_that_is_not_finite_is_refused_by_its_tensor(tmp_path: Path) -> None:
    bad = np.full((48, 16), np.inf, np.float32)
    with pytest.raises(NotImportable, match="expected finite numbers") as refused:
        model(write(tmp_path / "model", more={HEAD: bad}))
    assert refused.value.key == HEAD


def test_a_missing_shard_is_refused_by_a_tensor_in_it(tmp_path: Path) -> None:
    (cut(tmp_path / "model") / "b.safetensors").unlink()
    with pytest.raises(NotImportable, match=r"'b\.safetensors'; expected a file of safetensors") as refused:
        model(tmp_path / "model")
    assert refused.value.file == INDEX


def test_an_index_that_names_another_file_is_refused(tmp_path: Path) -> None:
    folder = cut(tmp_path / "model")
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"][EMBEDDING] = "b.safetensors"
    (folder / INDEX).write_text(json.dumps(index))
    with pytest.raises(NotImportable, match=r"in a\.safetensors'; expected in b\.safetensors"):
        model(folder)


def test_links_lead_to_files_inside_the_root_alone(tmp_path: Path) -> None:
    cache = tmp_path / "models--a--b"
    snapshot, blobs = write(cache / "snapshots" / "1f"), cache / "blobs"
    blobs.mkdir()
    for each in (CONFIG, WEIGHTS):
        (snapshot / each).rename(blobs / each)
        (snapshot / each).symlink_to(Path("../../blobs") / each)
    assert model(snapshot) == model(write(tmp_path / "plain"))
    with pytest.raises(NotImportable, match=f"{CONFIG} is 'a link that leads elsewhere'"):
        model(snapshot, root=snapshot)
    (blobs / CONFIG).unlink()
    (blobs / CONFIG).symlink_to(tmp_path / "plain" / CONFIG)
    with pytest.raises(NotImportable, match="a link that leads elsewhere"):
        model(snapshot)


def test_the_digest_of_a_folder_covers_exactly_the_files_that_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    seen = {digest(folder), digest(write(tmp_path / "again"))}
    assert len(seen) == 1
    (folder / "pytorch_model.bin").write_bytes(b"unread")
    (folder / "onnx").mkdir()
    assert digest(folder) in seen
    config = json.dumps(LLAMA).encode() + b"\n"
    changes = [("README.md", b"# Mine\n"), ("LICENSE", b"mine"), (TOKENIZER, b"{ }"), (CONFIG, config)]
    for count, (name, data) in enumerate(changes, start=2):
        (folder / name).write_bytes(data)
        seen.add(digest(folder))
        assert len(seen) == count


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    with pytest.raises(NotImportable, match="changed while it was read"), opened(folder):
        os.utime(folder / WEIGHTS, ns=(1, 1))


@pytest.mark.parametrize(
    ("text", "licence"), [("---\nlicense: apache-2.0\n---\n# A", "apache-2.0"), ("# A", ""), ("---\na: b\n---\n", "")]
)
def test_the_licence_is_that_of_the_head_of_the_readme(text: str, licence: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    (folder / "README.md").write_text(text)
    with opened(folder) as foreign:
        assert foreign.licence == licence
