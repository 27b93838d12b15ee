"""Specs are refused whole or recorded whole."""

import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tutti.model.spec import (
    ModelSpec,
    OptimizerSpec,
    Recorded,
    RopeScaling,
    SpecError,
    StepSpec,
    digest_of,
    row_length,
)

MODEL = ModelSpec(vocabulary=320, width=64, layers=2, heads=4, kv_heads=2, hidden=192, context=32)
LLAMA_3 = RopeScaling.of("llama3", 8, 8192)
OPTIMIZER = OptimizerSpec(peak_rate=1e-3, steps=10)


@pytest.mark.parametrize("spec", [MODEL, replace(MODEL, rope_scaling=LLAMA_3), OPTIMIZER, StepSpec()])
def test_a_spec_comes_back_from_its_record(spec: Recorded) -> None:
    assert type(spec).from_dict(spec.to_dict()) == spec


def test_the_end_of_the_decay_is_a_later_field_so_that_earlier_trainings_keep_their_digests() -> None:
    assert "decay_end" not in OPTIMIZER.to_dict()
    after = replace(OPTIMIZER, decay_end=11)
    assert OptimizerSpec.from_dict(after.to_dict()) == after
    assert after.digest() != OPTIMIZER.digest()


def test_what_a_model_may_have_besides_is_recorded_only_where_it_has_it() -> None:
    assert not {"head_dim", "qkv_bias", "rope_scaling"} & MODEL.to_dict().keys()
    wide = replace(MODEL, head_dim=32, qkv_bias=True, rope_scaling=RopeScaling.of("yarn", 4, 32))
    assert ModelSpec.from_dict(wide.to_dict()) == wide
    assert (wide.head_width, wide.attention_width) == (32, 128)


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(SpecError, match="no field widht"):
        ModelSpec.from_dict(MODEL.to_dict() | {"widht": 3})


def test_a_missing_field_is_named_even_when_it_has_a_default() -> None:
    record = MODEL.to_dict()
    del record["tied"]
    with pytest.raises(SpecError, match="lacks tied"):
        ModelSpec.from_dict(record)


@pytest.mark.parametrize(
    ("spec", "change", "message"),
    [
        (MODEL, {"width": 66}, "ModelSpec.width is 66; expected a multiple of heads"),
        (MODEL, {"width": 60}, "even number of elements a head"),
        (MODEL, {"kv_heads": 3}, "expected a multiple of kv_heads"),
        (MODEL, {"layers": 0}, "ModelSpec.layers is 0; expected a number at least 1"),
        (MODEL, {"head_dim": 16}, "head_dim is 16; expected 0, which means width / heads"),
        (MODEL, {"head_dim": 7}, "even number of elements a head"),
        (MODEL, {"context": 0}, "ModelSpec.context is 0; expected a positive number"),
        (LLAMA_3, {"kind": "linear"}, "expected one of llama3, yarn"),
        (LLAMA_3, {"fast": 1.0}, "RopeScaling.fast is 1.0; expected more than slow"),
        (LLAMA_3, {"attention": 1.5}, "llama3 does not scale attention"),
        (LLAMA_3, {"factor": 0.5}, "expected a number at least 1"),
        (MODEL, {"vocabulary": "320"}, "expected int"),
        (MODEL, {"tied": 1}, "expected bool"),
        (OPTIMIZER, {"schedule": "linear"}, "expected one of cosine, wsd"),
        (OPTIMIZER, {"update": "sgd"}, "expected one of adamw-chunk-v1"),
        (OPTIMIZER, {"min_rate": 1.0}, "expected at most peak_rate"),
        (OPTIMIZER, {"warmup_steps": 11}, "expected at most steps"),
        (OPTIMIZER, {"clip_norm": math.inf}, "clip_norm is inf; expected a finite number"),
        (OPTIMIZER, {"beta2": 1.0}, "beta2 is 1.0; expected a number at least 0 and below 1"),
        (OPTIMIZER, {"decay_end": 10}, "expected 0, or a step after steps"),
        (StepSpec(), {"leaves": 0}, "StepSpec.leaves is 0"),
        (StepSpec(), {"seed": 2**53}, "seed"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(spec: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        replace(spec, **change)


def test_a_whole_number_is_a_rate_too_and_has_the_same_digest() -> None:
    assert OptimizerSpec(peak_rate=1, steps=10).digest() == OptimizerSpec(peak_rate=1.0, steps=10).digest()


def test_every_field_is_part_of_the_digest() -> None:
    base = digest_of(MODEL.to_dict())
    changes: list[dict[str, Any]] = [
        {"tied": True},
        {"qk_norm": True},
        {"rope_base": 5e5},
        {"hidden": 256},
        {"head_dim": 32},
        {"qkv_bias": True},
        {"rope_scaling": LLAMA_3},
        {"rope_scaling": replace(LLAMA_3, factor=16.0)},
    ]
    digests = {replace(MODEL, **change).digest() for change in changes}
    assert len(digests | {base}) == 1 + len(changes)


def test_what_committer_and_scheduler_need_imports_without_torch() -> None:
    names = ["spec", "chunks", "tree", "plan", "schedule", "initial", "results", "vote", "audit", "batch"]
    program = "import sys; sys.modules['torch'] = None\n" + "\n".join(f"import tutti.model.{name}" for name in names)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    ("length", "context", "expected"), [(0, 64, 0), (1, 64, 16), (32, 64, 32), (33, 64, 48), (33, 40, 40), (50, 40, 50)]
)
def test_rows_hold_a_multiple_of_sixteen_tokens_as_far_as_the_context_goes(
    length: int, context: int, expected: int
) -> None:
    assert row_length(length, context) == expected
