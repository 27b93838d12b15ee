"""Training on one GPU, beside the CPU and beside transformers: `python -m benchmarks.gpu [PART ...]`.

`agree`: the losses of a small model in bfloat16 on the GPU beside those in float32 on the CPU, step by step, with the
same data. `repeat`: its state after these steps, on 1, 2 and 4 ranks that share the GPU, digest by digest. `nccl`: a
group of one rank through the rendezvous, and one gather (several GPUs: not measured). `speed`: tokens a second, model
FLOP utilization (MFU) and the time of each part of a step, in one run beside a loop of PyTorch over LlamaForCausalLM
with autocast and the fused AdamW. MFU counts 6 FLOPs a parameter and token and the products of causal attention
(Chowdhery et al. 2022, appendix B), of the peak that NVIDIA's data sheet gives for dense bfloat16.
"""

import argparse
import hashlib
import multiprocessing
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from tutti.model.chunks import Layout
from tutti.model.exchange import Exchange
from tutti.model.plan import Plan, Shape
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.step import RankStep
from tutti.trainer.rank.rendezvous import meet, open_group, open_store

GPU = "cuda:0"
PEAKS = {"H100": 989.4e12, "H200": 989.4e12, "A100": 312e12}
"""Dense bfloat16 FLOP/s by the data sheets (SXM)."""
SMALL = ModelSpec(vocabulary=512, width=256, layers=4, heads=4, kv_heads=2, hidden=704, context=128)
MODELS = {
    "124M": ModelSpec(vocabulary=32768, width=768, layers=12, heads=12, kv_heads=12, hidden=2048, context=1024),
    "1.1B": ModelSpec(vocabulary=32768, width=2048, layers=20, heads=16, kv_heads=16, hidden=5632, context=2048),
}
ROWS = {"124M": 32, "1.1B": 8}
LEAVES = 4
STEPS, WARMUPS, TIMED = 40, 3, 6
PARTS = ("agree", "repeat", "nccl", "speed")


@dataclass(frozen=True)
class Batch:
    """One leaf: rows of text of one document each."""

    tokens: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]


def text(model: ModelSpec, rows: int, seed: int) -> Batch:
    """Rows that can be learned: each token follows from the last one in three cases of four."""
    draws = np.random.default_rng(seed)
    tokens = draws.integers(0, model.vocabulary, (rows, model.context + 1))
    follows = draws.random(tokens.shape) < 0.75
    for at in range(1, model.context + 1):
        tokens[:, at] = np.where(follows[:, at], (tokens[:, at - 1] * 5 + 1) % model.vocabulary, tokens[:, at])
    return Batch(tokens, np.zeros_like(tokens), np.ones((rows, model.context), dtype=np.bool_))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}; all")
    parser.add_argument("--models", default=",".join(MODELS), help="for speed, by commas; %(default)s")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    if not torch.cuda.is_available():
        parser.error("torch sees no GPU here")
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, Python {platform.python_version()}", flush=True)
    does: dict[str, Callable[[], None]] = {
        "agree": agree,
        "repeat": repeat,
        "nccl": nccl,
        "speed": lambda: speed(given.models.split(",")),
    }
    for part in given.parts:
        print(f"\n{part}", flush=True)
        does[part]()


def agree() -> None:
    cpu, gpu = losses("cpu"), losses(GPU)
    for step in (0, 1, 4, 9, 19, STEPS - 1):
        print(f"  step {step + 1:3}: loss {cpu[step][0]:.5f} on the CPU, {gpu[step][0]:.5f} on the GPU; ", end="")
        print(f"gradient norm {cpu[step][1]:.4f}, {gpu[step][1]:.4f}")
    worst = max(abs(one[0] - other[0]) for one, other in zip(cpu, gpu, strict=True))
    print(f"  largest difference of a loss in {STEPS} steps: {worst:.5f} nats")


def losses(device: str) -> list[tuple[float, float]]:
    """The loss and the gradient norm of each step."""
    step = rank_step(SMALL, rows=4, leaves=8, device=device, rate=1e-3)
    found = []
    for number in range(1, STEPS + 1):
        result = step.run(number, leaves_of(step, number))
        found.append((result.loss, result.gradient_norm))
    return found


def leaves_of(step: RankStep, number: int) -> dict[int, Batch]:
    rows = step.step_spec.rows
    return {leaf: text(step.model, rows, 1000 * number + leaf) for leaf in step.leaves_needed(number)}


def rank_step(
    model: ModelSpec,
    *,
    rows: int,
    leaves: int,
    device: str,
    rate: float,
    ranks: int = 1,
    rank: int = 0,
    group: dist.ProcessGroup | None = None,
    **more: Any,
) -> RankStep:
    made = RankStep(
        model,
        OptimizerSpec(peak_rate=rate, steps=1000, warmup_steps=5),
        StepSpec(leaves=leaves, rows=rows, threads=4, **more),
        Plan(Layout(model), Shape(dp=ranks), leaves),
        rank=rank,
        epoch=1,
        group=group,
        device=device,
        audit_every=10,
    )
    made.initialize()
    return made


def repeat() -> None:
    for ranks in (1, 1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            spawn = multiprocessing.get_context("spawn")
            answers: Any = spawn.Queue()
            running = [spawn.Process(target=_rank, args=(rank, ranks, folder, answers)) for rank in range(ranks)]
            for each in running:
                each.start()
            state = dict(pair for _ in running for pair in answers.get(timeout=300))
            for each in running:
                each.join(60)
        digest = hashlib.sha256(b"".join(state[key] for key in sorted(state))).hexdigest()
        print(f"  {ranks} ranks: state after {STEPS} steps {digest[:16]}", flush=True)


def _rank(rank: int, ranks: int, folder: str, answers: Any) -> None:
    """One rank; NCCL refuses two ranks on one GPU, so they exchange by gloo through host memory."""
    group = None
    if ranks > 1:
        meeting = f"file://{folder}/meeting"
        dist.init_process_group(
            "gloo", init_method=meeting, rank=rank, world_size=ranks, timeout=timedelta(seconds=120)
        )
        group = dist.group.WORLD
    step = rank_step(SMALL, rows=4, leaves=8, device=GPU, rate=1e-3, ranks=ranks, rank=rank, group=group)
    for number in range(1, STEPS + 1):
        step.run(number, leaves_of(step, number))
    held = memoryview(bytearray(step.snapshot_size()))
    step.snapshot_into(held)
    answers.put(
        [
            ((entry.kind.value, entry.chunk), hashlib.sha256(held[entry.offset :][: entry.nbytes]).digest())
            for entry in step.plan.snapshot_table(rank)
        ]
    )


def nccl() -> None:
    torch.cuda.set_device(0)
    store, _ = open_store("127.0.0.1", 60.0)
    own = meet(store, rank=0, ranks=1, epoch=1, seconds=60.0, check=lambda: None)
    group = open_group(own, rank=0, ranks=1, listen="127.0.0.1", device=GPU)
    exchange = Exchange(group, rank=0, ranks=1)
    sent = torch.randn(1 << 28, device=GPU)
    into = torch.empty_like(sent)
    exchange.gather(sent, [len(sent)], into)
    print(f"  NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}: gathered 1 GiB, equal: {into.equal(sent)}")  # type: ignore[no-untyped-call]
    dist.destroy_process_group()


def speed(names: list[str]) -> None:
    peak = next((flops for name, flops in PEAKS.items() if name in torch.cuda.get_device_name(0)), None)
    for name in names:
        model, rows = MODELS[name], ROWS[name]
        tokens = LEAVES * rows * model.context
        needed = flops(model) * tokens
        print(f"  {name}: {Layout(model).elements:,} parameters, context {model.context}, {tokens:,} tokens a step")
        open_mask = replace(model, document_mask=False)
        for words, spec, more in (
            ("exact", model, dict[str, Any]()),
            ("exact, no mask", open_mask, {}),
            ("exact, no mask, compiled", open_mask, {"compile": True}),
            ("no mask, compiled", open_mask, {"compile": True, "exact": False}),
        ):
            _show(words, tokens, needed, peak, partial(ours, spec, rows, more))
        for words, compiled in (("transformers", False), ("transformers, compiled", True)):
            _show(words, tokens, needed, peak, partial(theirs, model, rows, compiled=compiled))


def flops(model: ModelSpec) -> float:
    """FLOPs of forward and backward a token: all matrices, and the half of attention that a causal mask leaves."""
    matrices = Layout(model).elements - model.vocabulary * model.width  # the embedding is looked up
    return 6 * matrices + 6 * model.layers * model.context * model.attention_width


def _show(
    words: str, tokens: int, needed: float, peak: float | None, run: Callable[[], Iterator[tuple[float, str]]]
) -> None:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        measured = list(run())[WARMUPS:]
    except (RuntimeError, ImportError) as error:
        print(f"    {words:26} failed: {str(error).splitlines()[0][:200]}", flush=True)
        return
    finally:
        torch.use_deterministic_algorithms(False)
    seconds, parts = sorted(measured)[len(measured) // 2]
    used = f"{needed / seconds / peak:6.1%} MFU" if peak else "MFU: peak unknown"
    memory = torch.cuda.max_memory_allocated() / 2**30
    print(f"    {words:26} {tokens / seconds:10,.0f} tokens/s {used} {memory:5.1f} GiB  {parts}", flush=True)


def ours(model: ModelSpec, rows: int, more: dict[str, Any]) -> Iterator[tuple[float, str]]:
    """Seconds of each step, and where they went."""
    step = rank_step(model, rows=rows, leaves=LEAVES, device=GPU, rate=3e-4, **more)
    step.audit_every = 0
    for number in range(1, WARMUPS + TIMED + 1):
        batches = leaves_of(step, number)
        torch.cuda.synchronize()
        started = time.perf_counter()
        spent = step.run(number, batches).timings
        torch.cuda.synchronize()
        took = time.perf_counter() - started
        rest = took - spent.forward_backward - spent.update - spent.reduce - spent.vote
        parts = f"forward and backward {1e3 * spent.forward_backward:.0f} ms, sums {1e3 * spent.reduce:.0f}, "
        yield took, parts + f"vote {1e3 * spent.vote:.0f}, update {1e3 * spent.update:.0f}, rest {1e3 * rest:.0f}"


def theirs(model: ModelSpec, rows: int, *, compiled: bool) -> Iterator[tuple[float, str]]:
    """Seconds of each step of the same shape: float32 parameters, autocast, one backward for each leaf, clipping."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_float32_matmul_precision("high")
    shape = LlamaConfig(
        vocab_size=model.vocabulary,
        hidden_size=model.width,
        intermediate_size=model.hidden,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        num_key_value_heads=model.kv_heads,
        max_position_embeddings=model.context,
        tie_word_embeddings=False,
        use_cache=False,
    )
    shape._attn_implementation = "sdpa"
    net = LlamaForCausalLM(shape).to(GPU)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    called: Any = torch.compile(net) if compiled else net
    for number in range(1, WARMUPS + TIMED + 1):
        batches = [
            torch.from_numpy(text(model, rows, 1000 * number + leaf).tokens[:, :-1].copy()) for leaf in range(LEAVES)
        ]
        torch.cuda.synchronize()
        started = time.perf_counter()
        for each in batches:
            tokens = each.to(GPU)
            with torch.autocast("cuda", torch.bfloat16):
                loss = called(input_ids=tokens, labels=tokens).loss / LEAVES
            loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        yield time.perf_counter() - started, ""


if __name__ == "__main__":
    main()
