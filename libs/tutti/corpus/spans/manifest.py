"""The body of an index's manifest: which file it is, and how much it holds."""

from __future__ import annotations

from dataclasses import dataclass

from tutti.corpus.spans.building import IndexInfo
from tutti.records.canonical import JsonValue
from tutti.records.fields import Fields
from tutti.records.manifest import Kind, Manifest
from tutti.records.records import written


@dataclass(frozen=True, slots=True)
class IndexBody:
    """The index of the training split of a dataset, which is the manifest's only parent; `blob` is where it lies."""

    blob: str
    info: IndexInfo

    def manifest(self, *, dataset: str, producer: str) -> Manifest:
        """`dataset`: the name of the resource."""
        body: dict[str, JsonValue] = written(self)
        return Manifest(kind=Kind.INDEX, body=body, parents=(dataset,), producer=producer)

    @classmethod
    def read(cls, manifest: Manifest) -> IndexBody:
        """Raises InvalidManifest naming the field that is missing or wrong."""
        body = Fields.of(manifest, Kind.INDEX).record(cls)
        manifest.require_read(body.manifest(dataset="", producer=manifest.producer).body)
        return body
