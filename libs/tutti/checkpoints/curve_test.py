"""What a curve promises: equal numbers have equal bytes, nothing else is read as one, thinning makes nothing up."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.checkpoints.curve import STEP, Curve, Recorder, Thinner, joined
from tutti.checkpoints.errors import InvalidCurve
from tutti.checkpoints.example_test import curve

FEW = settings(max_examples=60)


def told(losses: list[float]) -> Curve:
    recorder = Recorder()
    for step, loss in enumerate(losses, start=1):
        recorder.step(step, loss=loss, gradient_norm=0.5, rate=1e-3, tokens=8, skipped=not math.isfinite(loss))
    return recorder.take()


@FEW
@given(st.lists(st.floats(), max_size=40))
def test_a_curve_is_read_as_it_was_told(losses: list[float]) -> None:
    again = Curve.decode(told(losses).encode())
    assert again.encode() == told(losses).encode()
    assert [float(row["loss"]).hex() for row in again.steps] == [float(loss).hex() for loss in losses]


@FEW
@given(st.dictionaries(st.sampled_from(["kl", "reward_mean", "\u00e9"]), st.lists(st.floats(), min_size=1, max_size=9)))
def test_metrics_are_read_as_they_were_told(values: dict[str, list[float]]) -> None:
    def recorded(names: list[str]) -> Curve:
        recorder = Recorder()
        recorder.step(1, loss=1.0, gradient_norm=0.5, rate=1e-3, tokens=8, skipped=False)
        for name in names:
            for step, value in enumerate(values[name], start=1):
                recorder.metrics(2 * step, {name: value})
        return recorder.take()

    found = recorded(list(values))
    assert found.encode() == recorded(list(values)[::-1]).encode()
    assert (found.encode()[:8] == b"tutticv1") == (not values)
    again = Curve.decode(found.encode())
    assert again.encode() == found.encode()
    for name, row in values.items():
        assert [float(each["value"]).hex() for each in again.metrics[name]] == [float(each).hex() for each in row]
    assert joined([found.between(0, 4), found.between(4, 99)]).encode() == found.encode()
    for cut in (1, 9, 17):
        if values:
            with pytest.raises(InvalidCurve):
                Curve.decode(found.encode()[:-cut])


def test_every_not_a_number_is_the_same_one() -> None:
    other = float(np.frombuffer(np.uint64(0xFFF8_0000_0000_0001).tobytes(), "<f8")[0])
    assert math.isnan(other)
    assert told([1.0, other]).digest == told([1.0, math.nan]).digest != told([1.0, math.inf]).digest


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"tutticv2" + data[8:],
        lambda data: data[:8] + (2**40).to_bytes(8, "little") + data[16:],
        lambda data: data[: 24 + 41] + data[24 : 24 + 41] + data[24 + 2 * 41 :],  # the first step twice
        lambda data: data[: 24 + 40] + b"\2" + data[24 + 41 :],  # neither crossed nor skipped
    ],
)
def test_what_is_no_curve_is_refused(change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidCurve):
        Curve.decode(change(curve(0, 9).encode()))


def test_parts_that_follow_each_other_are_one() -> None:
    parts = [curve(0, 5), curve(5, 9), curve(9, 20)]
    assert list(joined(parts).steps["step"]) == list(range(1, 21))
    assert joined(parts).between(4, 10).steps.tobytes() == curve(4, 10).steps.tobytes()
    with pytest.raises(InvalidCurve, match="do not ascend"):
        joined([curve(0, 5), curve(4, 9)])


@FEW
@given(
    st.lists(st.floats(min_value=-9, max_value=9) | st.just(math.nan), min_size=1, max_size=200),
    st.integers(4, 40),
    st.data(),
)
def test_what_is_thinned_out_is_picked_whatever_the_parts(losses: list[float], most: int, data: st.DataObject) -> None:
    steps = told(losses).steps
    cut = data.draw(st.integers(0, len(steps)))
    whole, in_parts = (Thinner(0, len(steps), most=most, columns=("loss",)) for _ in range(2))
    whole.add(steps)
    in_parts.add(steps[:cut])
    in_parts.add(steps[cut:])
    kept = whole.rows(STEP)
    assert kept.tobytes() == in_parts.rows(STEP).tobytes()
    assert len(kept) <= most
    assert {row.tobytes() for row in kept} <= {row.tobytes() for row in steps}
    assert (kept[0]["step"], kept[-1]["step"]) == (1, len(steps))
    if finite := [loss for loss in losses if math.isfinite(loss)]:
        assert (np.nanmin(kept["loss"]), np.nanmax(kept["loss"])) == (min(finite), max(finite))
    if len(steps) <= most:
        assert len(kept) == len(steps)


@FEW
@given(st.lists(st.tuples(*[st.floats(-9, 9, width=32)] * 3), min_size=1, max_size=300), st.integers(8, 60))
def test_a_thinned_curve_keeps_the_lowest_and_the_highest_of_every_column(
    values: list[tuple[float, float, float]], most: int
) -> None:
    recorder, columns = Recorder(), ("loss", "gradient_norm", "rate")
    for step, (loss, norm, rate) in enumerate(values, 1):
        recorder.step(step, loss=loss, gradient_norm=norm, rate=rate, tokens=8, skipped=False)
    steps = recorder.take().steps
    thinner = Thinner(0, len(steps), most=most, columns=columns)
    thinner.add(steps)
    kept = thinner.rows(STEP)
    assert len(kept) <= most
    for column in columns:
        assert (kept[column].min(), kept[column].max()) == (steps[column].min(), steps[column].max())
