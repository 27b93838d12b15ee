"""The curve that a checkpoint carries: what each step since the checkpoint before it told.

Numbers are those that every rank held after the gathers, so their bits do not depend on the number of ranks. Encoding
is canonical: little-endian columns of a fixed width, one NaN for all. The curve of a line is that of its ancestry.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tutti.checkpoints.errors import InvalidCurve
from tutti.records.canonical import bytes_digest

MAX_STEPS = 1 << 18
"""Limit for one checkpoint: 10.8 MB. Between two checkpoints that are farther apart, the oldest steps are dropped."""
MAX_VALIDATIONS = 1 << 16

STEP = np.dtype(
    [("step", "<u8"), ("loss", "<f8"), ("gradient_norm", "<f8"), ("rate", "<f8"), ("tokens", "<u8"), ("skipped", "u1")]
)
"""A step: loss in nats a valid token, norm of the mean gradient before clipping, learning rate, valid tokens of all
ranks, 1 when all ranks skipped it. Numbers that are not finite stay as such."""
VALIDATION = np.dtype([("step", "<u8"), ("nats", "<f8"), ("tokens", "<u8"), ("bits_per_byte", "<f8")])
"""A look at the validation split after a step: nats summed over its tokens; NaN where bits per byte are not known."""

METRIC = np.dtype([("step", "<u8"), ("value", "<f8")])
"""A named measurement of a program after a step."""

_MAGIC, _NAMED = b"tutticv1", b"tutticv2"
_HEAD = struct.Struct("<8sQQ")
_COUNT, _NAME = struct.Struct("<I"), struct.Struct("<HQ")
MAX_METRICS = 64
Rows = npt.NDArray[np.void]


@dataclass(frozen=True, eq=False)
class Curve:
    """`steps` [n] of STEP, `validations` [m] of VALIDATION, `metrics` of METRIC by name, each in order of steps.

    A curve without metrics has the bytes that it had before there were any.
    """

    steps: Rows
    validations: Rows
    metrics: Mapping[str, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.metrics) > MAX_METRICS:
            raise InvalidCurve(f"a curve of {len(self.metrics)} metrics; expected at most {MAX_METRICS}")
        every = [("steps", self.steps, MAX_STEPS), ("validations", self.validations, MAX_VALIDATIONS)]
        every += [(name, rows, MAX_STEPS) for name, rows in self.metrics.items()]
        for name, rows, most in every:
            if len(rows) > most:
                raise InvalidCurve(f"a curve of {len(rows)} {name}; expected at most {most}")
            if np.any(rows["step"][1:] <= rows["step"][:-1]):
                raise InvalidCurve(f"a curve whose {name} do not ascend; expected each step once")
        if np.any(self.steps["skipped"] > 1):
            raise InvalidCurve("a curve with a step that is neither crossed nor skipped")

    def encode(self) -> bytes:
        """Equal curves have equal bytes."""
        metrics = sorted((name.encode(), rows) for name, rows in self.metrics.items() if len(rows))
        head = _HEAD.pack(_NAMED if metrics else _MAGIC, len(self.steps), len(self.validations))
        found = head + _canonical(self.steps).tobytes() + _canonical(self.validations).tobytes()
        if metrics:
            found += _COUNT.pack(len(metrics))
        for name, rows in metrics:
            found += _NAME.pack(len(name), len(rows)) + name + _canonical(rows).tobytes()
        return found

    @property
    def digest(self) -> str:
        """`blake3:<hex>` of the encoded bytes."""
        return bytes_digest(self.encode())

    @classmethod
    def decode(cls, data: bytes) -> Curve:
        """Raises InvalidCurve on anything that `encode` would not have written."""
        if len(data) < _HEAD.size:
            raise InvalidCurve(f"a curve of {len(data)} bytes; expected at least {_HEAD.size}")
        magic, steps, validations = _HEAD.unpack_from(data)
        if magic not in (_MAGIC, _NAMED):
            raise InvalidCurve(f"a curve that begins with {magic!r}; expected {_MAGIC!r}: use a newer tutti")
        middle = _HEAD.size + steps * STEP.itemsize
        end = middle + validations * VALIDATION.itemsize
        fits = end == len(data) if magic == _MAGIC else end < len(data)
        if steps > MAX_STEPS or validations > MAX_VALIDATIONS or not fits:
            raise InvalidCurve(
                f"a curve of {len(data)} bytes; expected {end} for {steps} steps, {validations} validations"
            )
        metrics = _metrics(data[end:]) if magic == _NAMED else {}
        return cls(np.frombuffer(data[_HEAD.size : middle], STEP), np.frombuffer(data[middle:end], VALIDATION), metrics)

    def between(self, after: int, until: int) -> Curve:
        """The part in (after, until]."""

        def part(rows: Rows) -> Rows:
            first, last = (np.searchsorted(rows["step"], each, side="right") for each in (after, until))
            return rows[first:last]

        metrics = {name: part(rows) for name, rows in self.metrics.items()}
        told = {name: rows for name, rows in metrics.items() if len(rows)}
        return Curve(part(self.steps), part(self.validations), told)


class Recorder:
    """Steps as they are told, until a snapshot takes them; the newest MAX_STEPS are kept."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float, float, float, int, int]] = deque(maxlen=MAX_STEPS)
        self._validations: deque[tuple[int, float, int, float]] = deque(maxlen=MAX_VALIDATIONS)
        self._metrics: dict[str, deque[tuple[int, float]]] = {}

    def step(self, step: int, *, loss: float, gradient_norm: float, rate: float, tokens: int, skipped: bool) -> None:
        self._steps.append((step, loss, gradient_norm, rate, tokens, int(skipped)))

    def validation(self, step: int, *, nats: float, tokens: int, bits_per_byte: float | None) -> None:
        self._validations.append((step, nats, tokens, math.nan if bits_per_byte is None else bits_per_byte))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._metrics.setdefault(name, deque(maxlen=MAX_STEPS)).append((step, value))

    def take(self) -> Curve:
        """Return the points added since the last call."""
        metrics = {name: np.array(list(rows), METRIC) for name, rows in sorted(self._metrics.items())}
        found = Curve(np.array(list(self._steps), STEP), np.array(list(self._validations), VALIDATION), metrics)
        self._metrics.clear()
        self._steps.clear()
        self._validations.clear()
        return found


def joined(parts: Sequence[Curve]) -> Curve:
    """Parts that follow each other as one. Raises InvalidCurve when they overlap or are too long."""
    if not parts:
        return Recorder().take()
    names = sorted({name for part in parts for name in part.metrics})
    return Curve(
        np.concatenate([part.steps for part in parts])[-MAX_STEPS:],
        np.concatenate([part.validations for part in parts])[-MAX_VALIDATIONS:],
        {
            name: np.concatenate([part.metrics[name] for part in parts if name in part.metrics])[-MAX_STEPS:]
            for name in names
        },
    )


def _metrics(data: bytes) -> dict[str, Rows]:
    """The table of metrics at the end of a curve. Raises InvalidCurve."""
    found: dict[str, Rows] = {}
    try:
        (count,), at = _COUNT.unpack_from(data), _COUNT.size
        for _ in range(count):
            length, rows = _NAME.unpack_from(data, at)
            at += _NAME.size
            name, at = data[at : at + length].decode(), at + length
            found[name] = np.frombuffer(data, METRIC, count=rows, offset=at)
            at += rows * METRIC.itemsize
    except (struct.error, ValueError) as error:
        raise InvalidCurve(f"a curve whose metrics are not whole: {error}") from error
    if at != len(data) or not count or list(found) != sorted(set(found)) or len(found) != count:
        raise InvalidCurve("a curve whose metrics do not end where it ends, or are not sorted by name, each once")
    return found


class Thinner:
    """Keeps at most `most` (4 or more) of the steps in (after, until], however many come, in order of steps.

    Each is kept as it is: the first, the last, and of each of equally long stretches, for each of `columns`, the one
    where it is lowest and the one where it is highest; of a stretch without a finite number the first. All when there
    are no more. If `most` has no room for all columns, the first ones count.
    """

    def __init__(self, after: int, until: int, *, most: int, columns: Sequence[str]) -> None:
        self._after, self._columns = after, columns[: (most - 2) // 2]
        stretches = (most - 2) // (2 * len(self._columns))
        self._width = 1 if until - after <= most else -(-(until - after) // stretches)
        self._kept: dict[int, Rows] = {}
        self._ends: list[Rows] = []

    def add(self, rows: Rows) -> None:
        """Rows that come after all that were added."""
        if not len(rows):
            return
        self._ends = [(self._ends or [rows[:1]])[0], rows[-1:]]
        stretches = (rows["step"].astype(np.int64) - self._after - 1) // self._width
        for part in np.split(rows, np.flatnonzero(np.diff(stretches)) + 1):
            stretch = int(int(part["step"][0]) - self._after - 1) // self._width
            known = self._kept.get(stretch)
            self._kept[stretch] = self._extremes(part if known is None else np.concatenate([known, part]))

    def rows(self, dtype: np.dtype[np.void]) -> Rows:
        """The points in the curve, of the type that was added."""
        if not self._kept:
            return np.empty(0, dtype)
        found = np.concatenate([*self._ends, *self._kept.values()])
        return found[np.unique(found["step"], return_index=True)[1]]

    def _extremes(self, rows: Rows) -> Rows:
        if self._width == 1 or len(rows) == 1:
            return rows
        kept = set[int]()
        for column in self._columns:
            values = rows[column]
            finite = np.flatnonzero(np.isfinite(values))
            if finite.size:
                kept |= {int(finite[np.argmin(values[finite])]), int(finite[np.argmax(values[finite])])}
        return rows[sorted(kept)] if kept else rows[:1]


def _canonical(rows: Rows) -> Rows:
    """A copy in which every NaN has the same bits."""
    found = rows.copy()
    for name in _floats(rows.dtype):
        found[name][np.isnan(found[name])] = math.nan
    return found


def _floats(dtype: np.dtype[np.void]) -> Iterable[str]:
    return (name for name in dtype.names or () if dtype[name].kind == "f")
