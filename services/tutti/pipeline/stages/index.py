"""The stage `index`: makes the index that finds verbatim spans of a dataset."""

from collections.abc import Iterator, Mapping
from typing import Any

from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.contracts.tokenization.v1 import Dataset, Index, IndexSpec, Tokenizer
from tutti.corpus.spans.building import MOST_TOKENS
from tutti.corpus.spans.manifest import IndexBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import MAKE_RUN, Role, StageContext, StageDef
from tutti.pipeline.definitions.tokenized import dataset_row
from tutti.pipeline.recipes.sections import IndexSection
from tutti.pipeline.recipes.values import Inputs, Measure, Resident, Result
from tutti.pipeline.recipes.view import View
from tutti.records.counts import counted
from tutti.records.manifest import Manifest


class IndexStage(StageDef):
    name = "index"
    work = Index
    roles = (Role("dataset", Dataset, default="tokenization"),)
    section = IndexSection
    measured = Measure(MAKE_RUN, 1.1, 649, 7_225_000)
    resident = Resident("benchmarks.spans", 147_000_000)

    def request(self, asked: StageContext) -> IndexSpec:
        dataset = asked.one("dataset")
        return IndexSpec(
            manifest_key=dataset.manifest_key, content_digest=dataset.content_digest, logic_version=asked.logic_version
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        return {}

    def today(self, asked: StageContext, host: Host) -> Inputs:
        self.fits(asked.view, asked.one("dataset"), host)
        return asked.inputs

    def fits(self, view: View, dataset: Result, host: Host) -> None:
        found = dataset_row(host, dataset)
        if found is None:
            return
        if kind_of(Tokenizer).get(host.channel("tokenization"), found.tokenizer).lossy:
            expected = "false: its tokenizer does not give texts back, so none is found verbatim"
            raise view.refused("", seen=f"true, of {found.name}", expected=expected)
        if found.tokens >= MOST_TOKENS:
            raise view.refused(
                "",
                seen=f"true, of {found.tokens:,} tokens to train on",
                expected=f"false, or a dataset of fewer than {MOST_TOKENS:,} tokens: no index of more can be made",
            )

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        index = IndexBody.read(manifest)
        yield Expected(index.blob, index.info.bytes, index.info.bytes_digest)

    def summary(self, work: Any) -> str:
        return f"{counted(work.documents, 'document')}, {counted(work.tokens, 'token')}"


STAGE = IndexStage()
