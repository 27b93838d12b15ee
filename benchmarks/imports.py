"""A folder of Hugging Face comes in as a checkpoint, and 16 tokens are sampled from it.

The model is random, in bfloat16: 1.2 billion parameters in files of at most 1 GB, with --quick 0.1 billion. Memory is
what all processes of the platform hold of their own (anonymous pages), above what they hold at rest.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from safetensors import TensorSpec, serialize_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks.platforms import Platform, up
from benchmarks.program import main, scratch
from benchmarks.table import Goal, Of, Row, Sense

MEBI, LOOK_SECONDS, PROMPT = 1 << 20, 0.05, "The queue"
MOST_BEYOND = 1024.0
"""MiB above the largest tensor, as float32."""
LARGE = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 18, "num_attention_heads": 32}
SMALL = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 12}
HEADS, VOCABULARY, CONTEXT = 8, 32_000, 2048


def folder(to: Path, *, quick: bool) -> int:
    """Write a folder with a random Llama model; the elements of its largest tensor."""
    shape = {**(SMALL if quick else LARGE), "num_key_value_heads": 4 if quick else HEADS}
    width, hidden = shape["hidden_size"], shape["intermediate_size"]
    keys = width // shape["num_attention_heads"] * shape["num_key_value_heads"]
    tensors = {"model.embed_tokens.weight": (VOCABULARY, width), "model.norm.weight": (width,)}
    for layer in range(shape["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors |= {f"{at}self_attn.{name}_proj.weight": (keys, width) for name in "kv"}
        tensors |= {f"{at}mlp.{name}_proj.weight": (hidden, width) for name in ("gate", "up")}
        tensors |= {
            f"{at}self_attn.q_proj.weight": (width, width),
            f"{at}self_attn.o_proj.weight": (width, width),
            f"{at}mlp.down_proj.weight": (width, hidden),
        }
        tensors |= {f"{at}{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
    to.mkdir()
    drawn, weights = np.random.default_rng(1), dict[str, str]()
    for number, names in enumerate(_files(tensors)):
        arrays = {name: _random(tensors[name], drawn) for name in names}
        specs = {
            name: TensorSpec(dtype="bfloat16", shape=list(each.shape), data_ptr=each.ctypes.data, data_len=each.nbytes)
            for name, each in arrays.items()
        }
        file = f"model-{number:05}.safetensors"
        serialize_file(specs, to / file, metadata={"format": "pt"})
        weights |= dict.fromkeys(names, file)
    (to / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    config = {
        **shape, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "hidden_act": "silu",
        "tie_word_embeddings": True, "eos_token_id": 0, "dtype": "bfloat16",
    }  # fmt: skip
    (to / "config.json").write_text(json.dumps(config))
    _tokenizer().save(str(to / "tokenizer.json"))
    return max(int(np.prod(each)) for each in tensors.values())


def _files(tensors: dict[str, tuple[int, ...]], most: int = 1_000_000_000) -> Iterator[list[str]]:
    """The names of the tensors of each file."""
    names, size = list[str](), 0
    for name, shape in tensors.items():
        if names and size + 2 * int(np.prod(shape)) > most:
            yield names
            names, size = [], 0
        names.append(name)
        size += 2 * int(np.prod(shape))
    yield names


def _random(shape: tuple[int, ...], drawn: np.random.Generator) -> np.ndarray:
    """Numbers in bfloat16, uint16 of this shape; norms are 1."""
    if len(shape) == 1:
        return np.full(shape, 0x3F80, np.uint16)
    values = drawn.standard_normal(shape, np.float32) * np.float32(0.02)
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def _tokenizer() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        show_progress=False,
        special_tokens=["<|end|>"],
        initial_alphabet=alphabet,
    )
    made.train_from_iterator([PROMPT], trainer)
    return made


@contextmanager
def watched(platform: Platform) -> Iterator[list[float]]:
    """The highest memory of a platform in the block, in MiB above that at its beginning: the one item of the list."""
    found, rest, done = [0.0], _own(platform), threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_SECONDS):
            found[0] = max(found[0], _own(platform) - rest)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def _own(platform: Platform) -> float:
    """MiB of anonymous pages of all its processes."""
    total = 0
    for process in platform.processes():
        try:
            lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        except (OSError, psutil.Error):
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))
    return total / 1024


def measure(quick: bool) -> list[Row]:
    """Seconds and MiB of the import, seconds of a sample."""
    tutti = str(Path(sys.executable).with_name("tutti"))
    with scratch("imports") as place, up(Path(place) / "data") as platform:
        model = Path(place) / "model"
        largest = 4 * folder(model, quick=quick) / MEBI
        size = sum(each.stat().st_size for each in model.iterdir()) / 1e9
        where = ["--data-dir", str(platform.data_dir), "-o", "json"]
        started = time.perf_counter()
        with watched(platform) as imported:
            made = subprocess.run([tutti, "checkpoints", "import", str(model), *where], check=True, capture_output=True)
        seconds = time.perf_counter() - started
        checkpoint, started = json.loads(made.stdout)["checkpoint"], time.perf_counter()
        asked = [tutti, "sample", checkpoint, "--prompt", PROMPT, "--tokens", "16", *where]
        with watched(platform) as sampled:
            subprocess.run(asked, check=True, capture_output=True)
        sampling = time.perf_counter() - started
    what = f"folder of {size:.1f} GB"
    beyond = Goal(Of.OURS, Sense.AT_MOST, MOST_BEYOND)
    return [
        Row(f"{what}: import", unit="s", ours=seconds),
        Row(f"{what}: memory of the import beyond its largest tensor ({largest:,.0f} MiB)", unit="MiB",
            ours=imported[0] - largest, goal=beyond),
        Row(f"{what}: 16 tokens sampled, with loading", unit="s", ours=sampling),
        Row(f"{what}: memory of the sample", unit="MiB", ours=sampled[0]),
    ]  # fmt: skip


if __name__ == "__main__":
    main("imports", __doc__, measure)
