"""The size of a deployment: what fits is served, what does not is refused with a size that would fit."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.errors import InvalidField
from tutti.chassis.tasks import WorkFailed
from tutti.chat.sizing import STREAMS_AT_ONCE, Answering, check, sized
from tutti.contracts.chat.v1 import DeploymentSpec
from tutti.inference.memory import STREAMS, Use, need_of
from tutti.model.chunks import Layout
from tutti.model.spec import ModelSpec

LAYOUT = Layout(ModelSpec(vocabulary=400, width=32, layers=2, heads=2, kv_heads=1, hidden=64, context=8192))
IMPORT = Answering("checkpoints/import-x/0/0", LAYOUT, rows=8, context=1024, least=256)
TRAINED = Answering("checkpoints/x/0/1", LAYOUT, rows=4, context=96, least=96)
PLENTY = 1 << 40


def need(model: Answering, context: int, streams: int = STREAMS) -> int:
    return need_of(model.layout, Use(streams, context, model.rows, exact=True)).total


@pytest.mark.parametrize(
    ("model", "context", "expected"),
    [(IMPORT, 0, 1024), (IMPORT, 4096, 4096), (IMPORT, 1 << 20, 8192), (TRAINED, 0, 96)],
)
def test_the_context_is_the_one_that_was_asked_for_as_far_as_the_model_goes(
    model: Answering, context: int, expected: int
) -> None:
    found = sized(model, DeploymentSpec(replicas=2, context=context), PLENTY)
    assert (found.context, found.streams, found.memory_bytes) == (expected, STREAMS, 2 * need(model, expected))


@given(available=st.integers(0, need(IMPORT, 8192)), replicas=st.integers(1, 3))
def test_an_import_gets_a_context_that_fits_and_never_more_than_there_is(available: int, replicas: int) -> None:
    spec = DeploymentSpec(replicas=replicas)
    try:
        found = sized(IMPORT, spec, available)
    except WorkFailed:
        assert need(IMPORT, 256) * replicas > available
    else:
        assert found.memory_bytes <= available
        assert found.context == 1024 or need(IMPORT, found.context + 16) * replicas > available
        assert sized(IMPORT, spec, PLENTY, kept=found.context).context == found.context


@given(available=st.integers(need(IMPORT, 16), need(IMPORT, 4096) - 1))
def test_a_refusal_of_what_was_asked_for_names_what_fits(available: int) -> None:
    with pytest.raises(WorkFailed) as refused:
        sized(IMPORT, DeploymentSpec(replicas=1, context=4096), available)
    context = int(re.findall(r"--context (\d+)", str(refused.value))[0])
    assert sized(IMPORT, DeploymentSpec(replicas=1, context=context), available).memory_bytes <= available
    if "--streams" in str(refused.value):
        fewer = DeploymentSpec(replicas=1, context=4096, streams=STREAMS_AT_ONCE)
        assert sized(IMPORT, fewer, available).memory_bytes <= available


def test_a_model_that_does_not_fit_at_all_is_refused_with_what_it_needs_and_what_there_is() -> None:
    with pytest.raises(WorkFailed, match=r"needs \d.* of memory for each of 2 replicas.* are available.*smaller model"):
        sized(TRAINED, DeploymentSpec(replicas=2), 1 << 10)


@pytest.mark.parametrize(
    ("field", "value"), [("context", 100), ("context", 1 << 21), ("streams", 8), ("streams", 2048)]
)
def test_what_no_engine_has_is_refused_by_its_field(field: str, value: int) -> None:
    with pytest.raises(InvalidField) as refused:
        check(DeploymentSpec(**{field: value}))  # type: ignore[arg-type]
    assert refused.value.field == f"spec.{field}"
