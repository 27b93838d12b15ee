"""Curves: what the ranks told of each step, kept as a blob beside the manifest and read over an ancestry.

A curve is no part of a state: where it was not told, was told differently, or is damaged, a gap says so and the
checkpoint stands. It outlives its checkpoint's pruning, because its descendants' curves begin with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.backbone.blobs import BlobMissing, Blobs
from tutti.chassis.service import Host
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.curve import METRIC, STEP, VALIDATION, Curve, Rows, Thinner, joined
from tutti.checkpoints.errors import CheckpointError, InvalidCurve
from tutti.checkpoints.keys import curve_key
from tutti.checkpoints.manifest import CurvePlace
from tutti.checkpoints.report import ShardReport
from tutti.contracts.committer.v1 import (
    Checkpoint,
    CheckpointCurve,
    CurveGap,
    CurvePoint,
    CurveValidation,
    CurveValue,
    GetCurveResponse,
)
from tutti.records.canonical import bytes_digest

FEWEST_POINTS, DEFAULT_POINTS, MOST_POINTS = 4, 1000, 20_000
GAPS_TOLD = 20
_ANCESTORS = 200  # looked up in one unit
_UNTOLD = "no rank told these steps, or an earlier version did not keep them"
_log = logging.getLogger(__name__)


def keep(blobs: Blobs, reports: Sequence[ShardReport], *, after: int) -> CurvePlace | None:
    """Store what these reports tell of the steps after `after`, for the step of the last of them. Raises BlobError.

    None when they tell nothing, or not the same: the numbers are the same on all ranks, so one of them is wrong.
    """
    name = reports[-1].name
    by_step: dict[int, set[bytes]] = {}
    for report in reports:
        if report.curve:
            by_step.setdefault(report.name.step, set()).add(report.curve)
    try:
        parts = [Curve.decode(_only(told)) for _, told in sorted(by_step.items())]
        curve = joined([part.between(after, name.step) for part in parts])
    except InvalidCurve as error:
        _log.warning("%s: its curve is not stored: %s", name, error)
        return None
    if not len(curve.steps):
        return None
    data = curve.encode()
    digest = bytes_digest(data)
    key = curve_key(name, digest)
    blobs.put_if_absent(key, data)
    return CurvePlace(key, digest, len(data), first_step=int(curve.steps["step"][0]), steps=len(curve.steps))


def to_wire(place: CurvePlace | None) -> CheckpointCurve | None:
    if place is None:
        return None
    return CheckpointCurve(
        key=place.key, digest=place.digest, bytes=place.nbytes, first_step=place.first_step, steps=place.steps
    )


@dataclass(frozen=True)
class _Part:
    """A checkpoint, and the step of its parent."""

    checkpoint: Checkpoint
    after: int


def read(host: Host, checkpoints: Resource[Checkpoint], name: str, *, after: int, most: int) -> GetCurveResponse:
    """The curve of a checkpoint's ancestry after a step. Raises NotFound, BlobError; of what is damaged a gap."""
    parts = list(_ancestry(host, checkpoints, name, after))[::-1]
    until = parts[-1].checkpoint.step
    answer, gaps = GetCurveResponse(), list[CurveGap]()
    points = Thinner(after, until, most=most, columns=("loss", "gradient_norm", "rate"))
    validations = Thinner(after, until, most=most, columns=("nats",))
    metrics: dict[str, Thinner] = {}
    for part in parts:
        lowest, highest = max(after, part.after), part.checkpoint.step
        curve, reason = _fetched(host.blobs, part.checkpoint)
        curve = curve.between(lowest, highest)
        points.add(curve.steps)
        validations.add(curve.validations)
        for metric, rows in curve.metrics.items():
            metrics.setdefault(metric, Thinner(after, until, most=most, columns=("value",))).add(rows)
        answer.steps += len(curve.steps)
        answer.skipped += int(curve.steps["skipped"].sum())
        for first, last in _missing(curve.steps, lowest, highest):
            answer.missing += last - first + 1
            if gaps and (gaps[-1].last_step, gaps[-1].reason) == (first - 1, reason):
                gaps[-1].last_step = last
            elif len(gaps) < GAPS_TOLD:
                gaps.append(CurveGap(first_step=first, last_step=last, reason=reason))
    answer.gaps.extend(gaps)
    answer.points.extend(_point(row) for row in points.rows(STEP))
    answer.validations.extend(_validation(row) for row in validations.rows(VALIDATION))
    for metric, values in sorted(metrics.items()):
        told = [CurveValue(step=int(row["step"]), value=float(row["value"])) for row in values.rows(METRIC)]
        answer.metrics.add(name=metric, values=told)
    return answer


def _ancestry(host: Host, checkpoints: Resource[Checkpoint], name: str, after: int) -> Iterator[_Part]:
    """Newest first, down to the one that holds the step after `after`."""

    def look(unit: Unit) -> list[Checkpoint]:
        found: list[Checkpoint] = []
        while len(found) < _ANCESTORS and (not found or (found[-1].parent and found[-1].step > after)):
            found.append(checkpoints.get(unit, found[-1].parent if found else name))
        return found

    young: Checkpoint | None = None
    while young is None or (name := young.parent):
        for each in host.units.run(look):
            if young is not None:
                yield _Part(young, each.step)
                if each.step <= after:
                    return
            young = each
        assert young is not None
    yield _Part(young, 0)


def _fetched(blobs: Blobs, checkpoint: Checkpoint) -> tuple[Curve, str]:
    """The checkpoint's own curve, and the reason why it may lack steps."""
    place = checkpoint.curve
    if not place.key:
        return joined([]), _UNTOLD
    try:
        data = blobs.get(place.key)
        if (seen := bytes_digest(data)) != place.digest:
            return joined([]), f"{place.key} is damaged: seen {seen}, expected {place.digest}"
        return Curve.decode(data), _UNTOLD
    except BlobMissing:
        return joined([]), f"{place.key} is not in the store"
    except CheckpointError as error:
        return joined([]), f"{place.key}: {error}"


def _only(told: set[bytes]) -> bytes:
    if len(told) > 1:
        raise InvalidCurve(f"its ranks told {len(told)} different ones; expected the same numbers on all of them")
    return next(iter(told))


def _missing(rows: Rows, after: int, until: int) -> Iterator[tuple[int, int]]:
    """Stretches of (after, until] without a row, as first and last step."""
    steps = np.concatenate([[after], rows["step"].astype(np.int64), [until + 1]])
    for at in np.flatnonzero(np.diff(steps) > 1):
        yield int(steps[at]) + 1, int(steps[at + 1]) - 1


def _point(row: np.void) -> CurvePoint:
    return CurvePoint(
        step=int(row["step"]),
        loss=float(row["loss"]),
        gradient_norm=float(row["gradient_norm"]),
        rate=float(row["rate"]),
        tokens=int(row["tokens"]),
        skipped=bool(row["skipped"]),
    )


def _validation(row: np.void) -> CurveValidation:
    bits = float(row["bits_per_byte"])
    return CurveValidation(
        step=int(row["step"]),
        nats=float(row["nats"]),
        tokens=int(row["tokens"]),
        bits_per_byte=None if np.isnan(bits) else bits,
    )
