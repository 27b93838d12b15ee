"""The manifest of a checkpoint: one whole state of one step, and where each of its chunks lies.

Building one checks that the reports make exactly one state of one shape; reading one checks that its digests follow
from its chunks. Any number of ranks reads the same chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tutti.checkpoints.digests import model_digest, state_digest
from tutti.checkpoints.errors import Incomplete, InvalidCheckpoint
from tutti.checkpoints.keys import checkpoint_name, manifest_key
from tutti.checkpoints.places import (
    BlobEntry,
    ChunkPlace,
    blobs_of,
    blobs_to_json,
    check_places,
    entries_by_blob,
    places_of,
    places_to_json,
)
from tutti.checkpoints.report import KINDS, ChunkEntry, ShardReport, mapping, optional_number
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.writer import plan_of
from tutti.model.chunks import Kind as Tensor
from tutti.model.chunks import Layout
from tutti.model.plan import Shape
from tutti.model.spec import SpecError
from tutti.model.training import Training
from tutti.records.canonical import JsonValue
from tutti.records.errors import CorpusError
from tutti.records.fields import Fields
from tutti.records.manifest import Kind, Manifest
from tutti.records.records import written_later


@dataclass(frozen=True, slots=True)
class CurvePlace:
    """The blob of the curve since the parent checkpoint: `steps` of it, the first of which is `first_step`."""

    key: str
    digest: str
    nbytes: int
    first_step: int
    steps: int


@dataclass(frozen=True)
class CheckpointBody:
    """`places` are those of all chunks in order, of each its kinds in order; `parent` is a checkpoint's name, or empty.

    `verified_by` names the processes that read the bytes back before the decision.
    """

    job: str
    line: int
    step: int
    epoch: int
    shape: Shape
    training: Training
    layout: Layout = field(compare=False)  # both digests name it
    kernel: Mapping[str, JsonValue]
    parent: str
    scalars: StateScalars
    model_digest: str
    state_digest: str
    blobs: tuple[BlobEntry, ...]
    places: tuple[ChunkPlace, ...]
    verified_by: tuple[str, ...]
    loss: float | None
    bits_per_byte: float | None
    curve: CurvePlace | None = None
    """None where nothing was told: in manifests of earlier versions."""

    def __post_init__(self) -> None:
        check_places(self.name, self.layout, KINDS, self.blobs, self.places)
        leaves = [place.entry.digest for place in self.places]
        for name, seen, expected in (
            ("step", self.scalars.step, self.step),
            ("model_digest", model_digest(self.layout, leaves), self.model_digest),
            ("state_digest", state_digest(self.layout, leaves, self.scalars.to_dict()), self.state_digest),
        ):
            if seen != expected:
                raise InvalidCheckpoint(f"{self.name}: its chunks and scalars have {name} {seen}, it says {expected}")

    @property
    def name(self) -> str:
        return checkpoint_name(self.job, self.line, self.step)

    @property
    def identity(self) -> str:
        """The digest that names the content of the checkpoint: that of its state."""
        return self.state_digest

    @property
    def kinds(self) -> Sequence[Tensor]:
        """The tensors of each chunk that are stored, in order."""
        return KINDS

    @property
    def tokenizer(self) -> str:
        """The version of the tokenizer; "" where the dataset of the training names it."""
        return self.training.tokenizer

    @property
    def template(self) -> str:
        """The digest of the chat template that it was trained with; "" for none."""
        return self.training.template

    @property
    def rows(self) -> int:
        """The rows of a leaf, in whose shape texts are read."""
        return self.training.step.rows

    @property
    def threads(self) -> int:
        """The threads to compute with."""
        return self.training.step.threads

    @property
    def manifest_key(self) -> str:
        return manifest_key(self.job, self.line, self.step)

    @property
    def nbytes(self) -> int:
        return sum(blob.nbytes for blob in self.blobs)

    @cached_property
    def entries_by_blob(self) -> tuple[tuple[ChunkEntry, ...], ...]:
        """The entries of each blob, in order of their offsets."""
        return entries_by_blob(self.blobs, self.places)

    def manifest(self, *, producer: str) -> Manifest:
        """Its parents: the datasets that it saw, its job, the checkpoint before it, and the one it began with.

        A training that names its tokenizer saw conversations or preferences: its job says which.
        """
        training, parents = self.training, {f"jobs/{self.job}"}
        if training.tokenizer:
            parents.add(f"tokenizers/{training.tokenizer.removeprefix('blake3:')}")
        else:
            parents |= {f"datasets/{each.removeprefix('blake3:')}" for each in training.datasets}
        parents |= {each.checkpoint for each in training.models}
        if self.parent:
            parents.add(self.parent)
        if self.training.initial is not None:
            parents.add(self.training.initial.checkpoint)
        return Manifest(Kind.CHECKPOINT, self._to_json(), tuple(sorted(parents)), producer)

    def _to_json(self) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {
            "bits_per_byte": self.bits_per_byte,
            "blobs": blobs_to_json(self.blobs),
            "chunks": places_to_json(self.places),
            "epoch": self.epoch,
            "job": self.job,
            "kernel": self.kernel,
            "layout": self.layout.to_dict(),
            "layout_digest": self.layout.digest,
            "line": self.line,
            "loss": self.loss,
            "model_digest": self.model_digest,
            "parent": self.parent,
            "scalars": self.scalars.to_dict(),
            "shape": self.shape.to_dict(),
            "state_digest": self.state_digest,
            "step": self.step,
            "training": self.training.to_dict(),
            "training_digest": self.training.digest(),
            "verified_by": list(self.verified_by),
            **written_later(self),
        }
        if self.curve is not None:
            found["curve"] = _curve_to_json(self.curve)
        return found

    @classmethod
    def decode(cls, data: bytes) -> CheckpointBody:
        """Read the bytes of a manifest; raises InvalidCheckpoint, UnsupportedFormat or InvalidManifest."""
        return cls.read(Manifest.decode(data, expected=Kind.CHECKPOINT))

    @classmethod
    def read(cls, manifest: Manifest) -> CheckpointBody:
        """Raises InvalidCheckpoint naming what is missing or wrong."""
        fields = Fields(manifest.body, path="body", error=InvalidCheckpoint)
        try:
            body = cls._read(fields)
            manifest.require_read(body._to_json())
        except InvalidCheckpoint:
            raise
        except (CorpusError, SpecError, KeyError, TypeError) as error:
            raise InvalidCheckpoint(f"no checkpoint manifest: {error}; {manifest.producer} wrote it") from error
        return body

    @classmethod
    def _read(cls, fields: Fields) -> CheckpointBody:
        training = Training.from_dict(mapping(fields, "training"))
        layout = Layout.from_dict(mapping(fields, "layout"))
        for name, seen, expected in (
            ("training_digest", training.digest(), fields.text("training_digest")),
            ("layout_digest", layout.digest, fields.text("layout_digest")),
        ):
            if seen != expected:
                raise InvalidCheckpoint(
                    f"body.{name} is {expected}, this version computes {seen}; read it with the version that wrote it"
                )
        return cls(
            job=fields.text("job"),
            line=fields.count("line"),
            step=fields.count("step"),
            epoch=fields.count("epoch"),
            shape=Shape.from_dict(mapping(fields, "shape")),
            training=training,
            layout=layout,
            kernel=mapping(fields, "kernel"),
            parent=fields.text("parent"),
            scalars=StateScalars.from_dict(fields.value("scalars")),
            model_digest=fields.digest("model_digest"),
            state_digest=fields.digest("state_digest"),
            blobs=blobs_of(fields),
            places=places_of(fields, layout, KINDS),
            verified_by=tuple(fields.texts("verified_by")),
            loss=optional_number(fields, "loss"),
            bits_per_byte=optional_number(fields, "bits_per_byte"),
            curve=_curve_of(fields.nested("curve")) if fields.has("curve") else None,
            **fields.later(cls),
        )


def build_manifest(
    reports: Sequence[ShardReport],
    *,
    training: Training,
    parent: str,
    verified_by: Sequence[str],
    curve: CurvePlace | None = None,
) -> CheckpointBody:
    """The checkpoint that these reports make. Raises Incomplete naming what is missing, doubled or unequal."""
    if not reports:
        raise Incomplete("no report; expected one a rank")
    ordered = sorted(reports, key=lambda report: report.name.rank)
    first = ordered[0]
    what = checkpoint_name(first.name.job, first.name.line, first.name.step)
    _check_agreement(what, ordered, training)
    plan = plan_of(training, first.shape)
    if plan.layout.digest != first.layout:
        raise Incomplete(f"{what}: reported under layout {first.layout}; this version cuts {plan.layout.digest}")
    places: list[ChunkPlace] = []
    for blob, report in enumerate(ordered):
        seen = [(entry.chunk, entry.kind, entry.offset, entry.nbytes) for entry in report.chunks]
        table = plan.snapshot_table(report.name.rank)
        if seen != [(entry.chunk, entry.kind, entry.offset, entry.nbytes) for entry in table]:
            raise Incomplete(
                f"{what}: rank {report.name.rank} reported {len(seen)} tensors of its own table; "
                f"expected the {len(table)} that the shape gives it"
            )
        places += [ChunkPlace(blob, entry) for entry in report.chunks]
    places.sort(key=lambda place: (place.entry.chunk, KINDS.index(place.entry.kind)))
    leaves = [place.entry.digest for place in places]
    return CheckpointBody(
        job=first.name.job,
        line=first.name.line,
        step=first.name.step,
        epoch=first.name.epoch,
        shape=first.shape,
        training=training,
        layout=plan.layout,
        kernel=first.kernel,
        parent=parent,
        scalars=first.scalars,
        model_digest=model_digest(plan.layout, leaves),
        state_digest=state_digest(plan.layout, leaves, first.scalars.to_dict()),
        blobs=tuple(BlobEntry(report.shard_key, report.nbytes, report.bytes_digest) for report in ordered),
        places=tuple(places),
        verified_by=tuple(verified_by),
        loss=next((report.loss for report in ordered if report.loss is not None), None),
        bits_per_byte=next((report.bits_per_byte for report in ordered if report.bits_per_byte is not None), None),
        curve=curve,
    )


def _curve_to_json(place: CurvePlace) -> dict[str, JsonValue]:
    return {
        "bytes": place.nbytes,
        "bytes_digest": place.digest,
        "first_step": place.first_step,
        "key": place.key,
        "steps": place.steps,
        **written_later(place),
    }


def _curve_of(fields: Fields) -> CurvePlace:
    return CurvePlace(
        fields.text("key"),
        fields.digest("bytes_digest"),
        fields.count("bytes"),
        fields.count("first_step"),
        fields.count("steps"),
        **fields.later(CurvePlace),
    )


def _check_agreement(what: str, ordered: Sequence[ShardReport], training: Training) -> None:
    first = ordered[0]
    if first.training != training.digest():
        raise Incomplete(f"{what}: reported for training {first.training}; expected {training.digest()}")
    for report in ordered[1:]:
        for name, seen, expected in (
            ("job", report.name.job, first.name.job),
            ("line", report.name.line, first.name.line),
            ("step", report.name.step, first.name.step),
            ("epoch", report.name.epoch, first.name.epoch),
            ("shape", report.shape, first.shape),
            ("training", report.training, first.training),
            ("layout", report.layout, first.layout),
            ("kernel signature", report.kernel, first.kernel),
            ("scalars", report.scalars, first.scalars),
        ):
            if seen != expected:
                raise Incomplete(
                    f"{what}: rank {report.name.rank} has another {name} than rank {first.name.rank}: "
                    f"seen {seen}, expected {expected}"
                )
    ranks = [report.name.rank for report in ordered]
    if ranks != list(range(first.shape.ranks)):
        raise Incomplete(f"{what}: reports of ranks {ranks}; expected 0 to {first.shape.ranks - 1}, each once")
