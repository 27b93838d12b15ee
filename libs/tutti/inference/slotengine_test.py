"""The exactness of our engine: decoding has the bits of a leaf's forward."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from tutti.inference import slots
from tutti.inference.decoder_test import parameters
from tutti.inference.engine import Mode, NotExact, Weights, generate
from tutti.inference.engine_test import LIMITS, SAMPLING, SMALL, requests, same
from tutti.inference.errors import NotFinite
from tutti.inference.slotengine import SlotEngine
from tutti.inference.slots import slots_together
from tutti.model.chunks import Layout


def test_a_scalar_head_changes_no_completion() -> None:
    layout, vector = parameters(SMALL)
    headed = Layout(replace(SMALL, scalar_head=True))
    with_head = torch.cat([vector, torch.ones(headed.elements - layout.elements)])
    completions = []
    for each, its_vector in ((layout, vector), (headed, with_head)):
        engine = SlotEngine(each, rows=2, mode=Mode.EXACT, slots=8)
        engine.start(Weights("weights", its_vector))
        completions.append(generate(engine, requests(3), SAMPLING, LIMITS))
    assert all(same(engine, one, other) for one, other in zip(*completions, strict=True))


@pytest.mark.parametrize(
    ("length", "query_rows", "expected"),
    [(32, 4, 4), (128, 4, 4), (144, 4, 2), (272, 4, 1), (32, 2, 2), (32, 1, 1), (28, 4, 1), (40, 4, 1)],
)
def test_slots_share_products_where_each_sums_in_its_own_order(length: int, query_rows: int, expected: int) -> None:
    assert slots_together(length, query_rows) == expected


def test_slots_that_must_not_share_products_on_this_machine_are_decoded_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    together = list[int]()

    def shared(*_: int) -> int:
        together.append(4)
        return 4

    monkeypatch.setattr(slots, "slots_together", shared)  # as on a machine with wider registers than ours
    layout, vector = parameters(SMALL)
    engine = SlotEngine(layout, rows=2, mode=Mode.EXACT, slots=8, length=28)
    engine.start(Weights("mine", vector))
    [one] = generate(engine, requests(1), SAMPLING, LIMITS)
    [row] = engine.score([(*requests(1)[0].prompt, *one.tokens)])
    assert set(together) == {4}
    assert np.array_equal(row[len(requests(1)[0].prompt) - 1 :], one.logprobs)


def test_values_that_are_overwritten_in_place_are_other_weights_by_their_digest() -> None:
    layout, vector = parameters(SMALL)
    engine, weights = SlotEngine(layout, rows=2, mode=Mode.EXACT, slots=8), Weights("mine", vector)
    engine.start(weights)
    before = generate(engine, requests(3), SAMPLING, LIMITS)
    weights.vector.mul_(float("nan"))
    engine.swap(Weights("diverged", weights.vector))
    with pytest.raises(NotFinite, match="diverged"):
        generate(engine, requests(3), SAMPLING, LIMITS)
    weights.vector.copy_(parameters(SMALL)[1])
    engine.swap(Weights("again", weights.vector))
    assert all(map(partial(same, engine), before, generate(engine, requests(3), SAMPLING, LIMITS)))


def test_parameters_that_are_not_finite_are_named() -> None:
    layout = Layout(SMALL)
    engine = SlotEngine(layout, rows=2, mode=Mode.EXACT)
    with pytest.raises(NotExact, match="not finite"):
        engine.start(Weights("none", torch.full((layout.elements,), float("nan"))))


def test_the_signature_names_what_decides_the_bits() -> None:
    layout, vector = parameters(SMALL)

    def signature(mode: Mode = Mode.EXACT, slots: int = 16, digest: str = "weights", kernel: str = "kernel") -> str:
        engine = SlotEngine(layout, rows=2, mode=mode, slots=slots)
        engine.start(Weights(digest, vector))
        return engine.signature(kernel).digest()

    assert signature() == signature(slots=32)  # in exact mode on a CPU, no bit depends on the number of slots
    different = [signature(), signature(digest="other"), signature(kernel="other"), signature(Mode.FAST)]
    different.append(signature(Mode.FAST, slots=32))
    assert len(set(different)) == len(different)
