"""The ledger of a state: the spans that its steps went through, and the steps that were skipped.

It is in every checkpoint and under its state digest; with the datasets' manifests it answers which steps read a sample,
and where to go on. On which line a step was made is no part of it: the same steps on another line make the same state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tutti.corpus.tokens.sampler import SampleIds, Span
from tutti.records.canonical import JsonValue
from tutti.records.errors import InvalidSpan
from tutti.records.fields import Fields
from tutti.records.records import written, written_later


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """A step that read its samples and changed nothing."""

    step: int
    cause: str


@dataclass(frozen=True, slots=True)
class LedgerReading:
    """One place where a sample was read; `skipped` where the step changed nothing."""

    step: int
    leaf: int
    row: int
    skipped: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """Spans in order, the first from step 0, each until the next begins; skipped steps in order."""

    spans: tuple[Span, ...]
    skipped: tuple[SkippedStep, ...] = ()

    def __post_init__(self) -> None:
        starts = [span.from_step for span in self.spans]
        if not starts or starts[0] != 0 or starts != sorted(set(starts)):
            raise InvalidSpan(f"spans begin at steps {starts}: expected the first at 0, each later than the one before")
        steps = [skip.step for skip in self.skipped]
        if steps != sorted(set(steps)) or (steps and steps[0] < 0):
            raise InvalidSpan(f"skipped steps {steps}: expected them in order, each once")

    def span_at(self, step: int) -> Span:
        """The span that says what `step` reads."""
        if step < 0:
            raise InvalidSpan(f"step {step}: steps are counted from 0")
        return next(span for span in reversed(self.spans) if span.from_step <= step)

    def samples(self, step: int, *leaves: int) -> SampleIds:
        """The rows of some leaves of a step, leaf after leaf."""
        return self.span_at(step).samples(step, *leaves)

    def skip(self, step: int, *, cause: str) -> Ledger:
        """With one more skipped step, later than those before it."""
        return replace(self, skipped=(*self.skipped, SkippedStep(step, cause)))

    def readings(self, dataset_version: str, sample: int, *, before_step: int) -> Iterator[LedgerReading]:
        """Every place before `before_step` where `sample` of the dataset was read, in order of steps."""
        skipped = {skip.step for skip in self.skipped}
        ends = [span.from_step for span in self.spans[1:]] + [before_step]
        for span, end in zip(self.spans, ends, strict=True):
            names = [share.dataset_version for share in span.datasets]
            if dataset_version not in names:
                continue
            for at in span.inverse(names.index(dataset_version), sample, before_step=min(end, before_step)):
                yield LedgerReading(at.step, at.leaf, at.row, at.step in skipped)

    def to_json(self) -> dict[str, JsonValue]:
        """The canonical form: what a checkpoint's manifest holds and its state digest covers."""
        return {
            "skipped": [written(skip) for skip in self.skipped],
            "spans": [span.to_json() for span in self.spans],
            **written_later(self),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, JsonValue]) -> Ledger:
        """Raises InvalidSpan naming the field that is missing or wrong."""
        fields = Fields(value, path="ledger", error=InvalidSpan)
        return cls(
            tuple(Span.from_json(item) for item in fields.objects("spans")),
            tuple(
                SkippedStep(item.count("step"), item.text("cause"), **item.later(SkippedStep))
                for item in fields.objects("skipped")
            ),
            **fields.later(cls),
        )
