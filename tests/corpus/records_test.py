"""Records grow: a field that is added to any record leaves all records of earlier versions as they are.

`records/<version>` holds manifests and shard reports as that version wrote them.
"""

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tutti.checkpoints.digests import model_root
from tutti.checkpoints.imported import FolderFile, ImportBody
from tutti.checkpoints.manifest import CheckpointBody, CurvePlace
from tutti.checkpoints.places import BlobEntry, ChunkPlace
from tutti.checkpoints.report import ChunkEntry, ShardReport
from tutti.checkpoints.scalars import StateScalars
from tutti.corpus.documents.documentshard import DocumentShardInfo
from tutti.corpus.documents.stages import CrawlBody, DedupBody, DocumentShardEntry, FilterBody, IngestBody
from tutti.corpus.spans.building import IndexInfo
from tutti.corpus.spans.manifest import IndexBody
from tutti.corpus.tokens.dataset import DatasetBody, Rejected, ShardEntry, Split
from tutti.corpus.tokens.ledger import Ledger, SkippedStep
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.model.chunks import Kind as Tensor
from tutti.model.chunks import Layout
from tutti.model.kernel import KernelSignature
from tutti.model.machine import MachineSignature
from tutti.model.plan import Shape
from tutti.model.programs import records
from tutti.model.results import Scalars
from tutti.model.spec import ModelSpec, OptimizerSpec, RopeScaling, SpecError, StepSpec
from tutti.model.spikes import Watch
from tutti.model.training import Initial, RoleModel, Training, WeightedDataset
from tutti.records import fields
from tutti.records.canonical import canonical_json, parse_json
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind, Manifest
from tutti.records.records import later

FOLDER = Path(__file__).parent / "records"
FILES = sorted(FOLDER.glob("*/*.json"))
DIGEST, OTHER = "blake3:" + "1" * 64, "blake3:" + "2" * 64
ADDED = 7


@dataclasses.dataclass(frozen=True)
class Spelling:
    """How a record that stands alone is read from canonical JSON and written again."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


def of_manifest(kind: type[Any]) -> Spelling:
    def read(data: bytes) -> Any:
        manifest = Manifest.decode(data, expected=tuple(Kind))
        return manifest, kind.read(manifest)

    def write(found: Any) -> bytes:
        manifest, body = found
        if issubclass(kind, DatasetBody):
            again = body.to_json()
        else:
            named = {"dataset": manifest.parents[0]} if issubclass(kind, IndexBody) else {}
            again = body.manifest(producer=manifest.producer, **named).body
        return Manifest(manifest.kind, again, manifest.parents, manifest.producer).encode()

    return Spelling(read, write)


def of_dict(kind: type[Any]) -> Spelling:
    return Spelling(lambda data: kind.from_dict(parse_json(data)), lambda made: canonical_json(made.to_dict()))


BODIES: Mapping[Kind, type[Any]] = {
    Kind.CRAWL: CrawlBody,
    Kind.INGEST: IngestBody,
    Kind.FILTER: FilterBody,
    Kind.DEDUP: DedupBody,
    Kind.DATASET: DatasetBody,
    Kind.INDEX: IndexBody,
    Kind.CHECKPOINT: CheckpointBody,
    Kind.IMPORT: ImportBody,
}
PARTS: Mapping[type[Any], type[Any]] = {
    # record: the record that stands alone and holds it
    **{kind: kind for kind in (*BODIES.values(), ShardReport, Training, StateScalars)},
    **{kind: kind for kind in (Shape, KernelSignature, MachineSignature)},
    **{kind: Training for kind in (ModelSpec, RopeScaling, OptimizerSpec, StepSpec)},
    **{kind: Training for kind in (WeightedDataset, Initial, RoleModel)},
    **{kind: Training for kind in records().values() if kind is not None},
    **{kind: StateScalars for kind in (Scalars, Watch, Ledger, Span, DatasetShare, SkippedStep)},
    **{kind: CheckpointBody for kind in (BlobEntry, CurvePlace)},
    FolderFile: ImportBody,
    **{kind: IngestBody for kind in (DocumentShardEntry, DocumentShardInfo, Rejected)},
    **{kind: DatasetBody for kind in (Split, ShardEntry)},
    IndexInfo: IndexBody,
}


def spelling(whole: type[Any]) -> Spelling:
    if issubclass(whole, ShardReport):
        return Spelling(whole.decode, lambda report: report.encode())
    return of_manifest(whole) if issubclass(whole, tuple(BODIES.values())) else of_dict(whole)


def samples(whole: type[Any]) -> list[bytes]:
    """Canonical JSON of this record: what earlier versions wrote, and what exists in no fixture."""
    found = []
    for path in FILES:
        data = path.read_bytes()
        if whole is ShardReport and "reports" in path.name:
            found.append(data)
        elif whole in BODIES.values() and "manifests" in path.name:
            if BODIES[Kind(json.loads(data)["kind"])] is whole:
                found.append(data)
        elif "committer" in path.name:
            body = json.loads(data)["body"]
            inner = {Training: "training", StateScalars: "scalars", Shape: "shape", KernelSignature: "kernel"}
            if whole in inner:
                found.append(canonical_json(body[inner[whole]]))
    return found + made(whole)


def made(whole: type[Any]) -> list[bytes]:
    if whole is Training:
        mixture = (WeightedDataset(DIGEST, 3), WeightedDataset(OTHER, 1))
        model = ModelSpec(vocabulary=97, width=32, layers=1, heads=2, kv_heads=2, hidden=64, context=16)
        mixed = Training(
            model,
            OptimizerSpec(1e-3, 4),
            StepSpec(),
            DIGEST,
            2,
            mixture=mixture,
            initial=Initial("checkpoints/a/0/1", OTHER),
            tokenizer=DIGEST,
            template=OTHER,
            part="train",
            models=(RoleModel("reference", "checkpoints/a/0/1", OTHER),),
        )
        programs = [
            dataclasses.replace(mixed, program=name, program_parameters=example(record))
            for name, record in records().items()
            if record is not None
        ]
        scaled = dataclasses.replace(mixed, model=dataclasses.replace(model, rope_scaling=RopeScaling.of("yarn", 4, 8)))
        return [canonical_json(each.to_dict()) for each in (mixed, scaled, *programs)]
    if whole is StateScalars:
        ledger = Ledger((Span(0, (DatasetShare(DIGEST, 10, 1, 0),), 0, 2, 2),), (SkippedStep(1, "not finite"),))
        watching = Scalars(3, (2,), watch=Watch((3.25, 3.0), (1.5, 0.75), first=3, loss=1.5, norm=2.0))
        return [canonical_json(StateScalars(each, 12, ledger).to_dict()) for each in (Scalars(3, (2,)), watching)]
    if whole is MachineSignature:
        return [canonical_json(MachineSignature("x", "y", "", "cpu", "2", "2", "").to_dict())]
    if whole is ImportBody:
        layout = Layout(ModelSpec(vocabulary=97, width=32, layers=1, heads=2, kv_heads=2, hidden=64, context=16))
        places, end = list[ChunkPlace](), 0
        for chunk in layout.chunks:
            entry = ChunkEntry(chunk.index, Tensor.PARAMETER, end, 4 * chunk.length, bytes([chunk.index] * 32))
            places.append(ChunkPlace(0, entry))
            end += entry.nbytes
        root, blobs = model_root(layout, [place.entry.digest for place in places]), (BlobEntry("a", end, DIGEST),)
        files = (FolderFile("config.json", DIGEST, "b"), FolderFile("model.safetensors", OTHER, ""))
        imported = ImportBody(layout, files, DIGEST, "", "mit", "float32", root, blobs, tuple(places), ("c",))
        return [imported.manifest(producer="tutti.committer 0.3.0").encode()]
    if whole is IngestBody:
        shard = DocumentShardInfo(DIGEST, OTHER, bytes=1, documents=1, text_bytes=1, first_doc_id="a", last_doc_id="a")
        rejected = (Rejected("binary", 1),)
        body = IngestBody((DocumentShardEntry("a", shard),), (), DIGEST, 2, 1, rejected, "b", 1, 1)
        return [body.manifest(producer="tutti.ingest 0.2.0").encode()]
    if whole is CrawlBody:
        return [CrawlBody(("a",), DIGEST, (("kept", 1),)).manifest(producer="tutti.ingest 0.2.0").encode()]
    if whole is IndexBody:
        info = IndexInfo(content_digest=DIGEST, bytes_digest=OTHER, bytes=1, tokens=1, suffixes=1, documents=1)
        return [IndexBody("a", info).manifest(dataset="datasets/a", producer="tutti.tokenization 0.2.0").encode()]
    return []


def example(record: type[Any]) -> Any:
    """Parameters of a program, with numbers for what has no default."""
    values = {"int": 4, "float": 0.5}
    lacking = [each for each in dataclasses.fields(record) if each.default is dataclasses.MISSING]
    return record(**{each.name: values[getattr(each.type, "__name__", str(each.type))] for each in lacking})


def grow(monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> type[Any]:
    """Add the field `added`, an integer that is 0 by default, to a record, wherever its class is used."""
    added = ("added", int, later(0, since="9.9"))
    grown = dataclasses.make_dataclass(kind.__name__, [added], bases=(kind,), frozen=True)
    for module in list(sys.modules.values()):
        if (getattr(module, "__name__", "") or "").startswith("tutti.") and vars(module).get(kind.__name__) is kind:
            monkeypatch.setattr(module, kind.__name__, grown)
    kept = fields.annotations_of  # by class
    monkeypatch.setattr(fields, "annotations_of", getattr(kept, "__wrapped__", kept))
    return grown


def filled(value: Any, grown: type[Any]) -> Any:
    """The same value with `added` set in every record of this class."""
    if isinstance(value, tuple):
        after = tuple(filled(each, grown) for each in value)
        return value if all(one is other for one, other in zip(value, after, strict=True)) else after
    if isinstance(value, Manifest) or not dataclasses.is_dataclass(value):
        return value
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        if field.init and (after := filled(getattr(value, field.name), grown)) is not getattr(value, field.name):
            changes[field.name] = after
    if isinstance(value, grown):
        changes["added"] = ADDED
    return dataclasses.replace(value, **changes) if changes else value  # type: ignore[type-var]


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_a_record_to_which_a_field_is_added_reads_and_writes_what_earlier_versions_wrote(
    kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = samples(PARTS[kind])
    assert known
    whole = PARTS[kind]
    before = spelling(whole)
    grown = grow(monkeypatch, kind)
    after = spelling(grown if whole is kind else whole)
    grew = False
    for data in known:
        assert after.write(after.read(data)) == before.write(before.read(data))
        with_it = filled(after.read(data), grown)
        longer = after.write(with_it)
        if longer == after.write(after.read(data)):
            continue  # holds no record of this kind
        grew = True
        assert after.write(after.read(longer)) == longer
        with pytest.raises((CorpusError, SpecError), match="added"):
            after.read(resealed(longer.replace(b'"added":7', b'"added":0')))
        monkeypatch.undo()
        with pytest.raises((CorpusError, SpecError), match="added"):
            before.read(longer)
        grown = grow(monkeypatch, kind)
        after = spelling(grown if whole is kind else whole)
    assert grew


def resealed(data: bytes) -> bytes:
    """A changed manifest under the digest of what it says now; other records have none."""
    value: Any = json.loads(data)
    if "content_digest" not in value or "producer" not in value:
        return data
    return Manifest(Kind(value["kind"]), value["body"], tuple(value["parents"]), value["producer"]).encode()


def test_an_unknown_field_is_refused_with_the_version_that_wrote_it() -> None:
    for path in FILES:
        if "manifests" not in path.name:
            continue
        value = json.loads(path.read_bytes())
        kind = BODIES[Kind(value["kind"])]
        data = resealed(canonical_json({**value, "body": {**value["body"], "surprise": 1}}))
        with pytest.raises(CorpusError, match=rf"surprise.*{value['producer']}"):
            kind.read(Manifest.decode(data, expected=tuple(Kind)))


def test_the_page_of_contracts_lists_every_record() -> None:
    page = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text()
    section = page.split("\n## Records\n")[1].split("\n## ")[0].split("\n- ", 1)[1]
    programs = set(records().values())  # the page names them all at once
    assert set(re.findall(r"`(\w+)`", section)) == {kind.__name__ for kind in PARTS if kind not in programs}
