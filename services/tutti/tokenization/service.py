"""The tokenization service: trains a tokenizer or takes one, writes token shards of documents, and makes their indexes.

Promises: tokenizer and dataset are named by their content; the same kept documents and parameters give the same names,
whatever was left out before.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tutti.backbone import Blobs
from tutti.chassis import version
from tutti.chassis.rpc import standard
from tutti.chassis.service import Host, Service
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import CancellablePool, TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish, put_content
from tutti.contracts.common.v1 import Artifact
from tutti.contracts.tokenization.v1 import (
    Dataset,
    Index,
    Tokenization,
    TokenizationSpec,
    TokenizedLanguage,
    Tokenizer,
)
from tutti.contracts.tokenization.v1.tokenization_pb2 import DESCRIPTOR
from tutti.corpus.documents.stages import DedupBody, IngestBody
from tutti.corpus.tokens import loader
from tutti.corpus.tokens.bytepairs import native
from tutti.corpus.tokens.dataset import DatasetBody, Packing
from tutti.records.manifest import Kind
from tutti.staging import fetching
from tutti.tokenization import indexing, making
from tutti.tokenization.rpc import TokenizationApi
from tutti.tokenization.tokenizers import resource_of, stored
from tutti.upkeep import kernels

LEAST_DOCUMENTS = 2


@dataclass(frozen=True)
class Tokenized:
    """The result of a tokenization; all of it is in the store."""

    tokenizer: Tokenizer
    dataset: Dataset
    result: Artifact


def tokenize(context: TaskContext, spec: TokenizationSpec) -> Tokenized:
    """Read the kept documents, make tokenizer and token shards, store them. Raises WorkFailed."""
    blobs = context.host.blobs
    kept = DedupBody.read(fetching.manifest(blobs, spec.manifest_key, spec.content_digest, Kind.DEDUP))
    if kept.documents < LEAST_DOCUMENTS:
        raise WorkFailed(too_few(kept))
    made = stored_shards(context, spec, kept)
    tokenizer = resource_of(made, spec.pattern)
    put_content(blobs, tokenizer.key, made.artefact, made.tokenizer_version)
    body = DatasetBody(
        tokenizer_version=made.tokenizer_version,
        vocabulary=made.vocabulary,
        eos=made.eos,
        context=spec.context,
        train=made.train,
        validation=made.validation,
        packing=Packing(spec.packing or Packing.STREAM),
    )
    manifest = body.manifest(parents=(tokenizer.name,), producer=version.producer("tokenization"))
    size = sum(shard.bytes for split in (made.train, made.validation) for shard in split.shards)
    result = publish(blobs, "tokenization", manifest, data_bytes=size)
    dataset = described(body, made, result.manifest_key, manifest.content_digest, tokenizer.name, size)
    return Tokenized(tokenizer, dataset, result)


def too_few(kept: DedupBody) -> str:
    """A message that says why documents cannot be split, and why there are no more of them."""
    stay = "one document stays" if kept.documents == 1 else f"{kept.documents} documents stay"
    left_out = [(each.reason, each.count) for each in kept.rejected]
    left_out += [("contaminated", kept.contaminated), ("duplicate", kept.duplicates)]
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out if count)
    return (
        f"{stay}{f' (left out: {reasons})' if reasons else ''}; expected at least {LEAST_DOCUMENTS}, one to train on "
        "and one to validate on: add documents, or cut the text in two"
    )


def stored_shards(context: TaskContext, spec: TokenizationSpec, kept: DedupBody) -> making.TokenizedDataset:
    """Make token shards of kept documents in the pool, and store them. Raises WorkFailed."""
    blobs = context.host.blobs
    try:
        with tempfile.TemporaryDirectory(prefix="tutti-tokenization-") as scratch:
            wanted = making.Making(
                shards=tuple(path for path, _ in fetching.shards(blobs, kept.shards, Path(scratch))),
                dropped=fetching.dropped(blobs, kept.clusters) | fetching.rejected(blobs, kept.decisions),
                vocabulary=spec.vocabulary,
                pattern=spec.pattern,
                context=spec.context,
                validation_fraction=spec.validation_fraction,
                seed=spec.seed,
                shard_sequences=spec.shard_sequences,
                scratch=Path(scratch),
                packing=Packing(spec.packing or Packing.STREAM),
                reserved=tuple(spec.reserved),
                tokenizer=stored(blobs, spec.tokenizer) if spec.tokenizer else None,
                measures=measures(blobs, spec, Path(scratch)),
                cuts=fetching.named(blobs, kept.cuts, Path(scratch)) if kept.cuts else None,
                workers=len(os.sched_getaffinity(0)) if isinstance(context.host.pool, CancellablePool) else 1,
            )
            made = context.pool(making.make, wanted)
            for shard in made.files:
                context.check()
                put_content(blobs, shard.key, shard.path, shard.bytes_digest)
    except making.MakingError as error:
        raise WorkFailed(str(error)) from error
    return made


def measures(blobs: Blobs, spec: TokenizationSpec, scratch: Path) -> tuple[Path, ...]:
    """The files with the languages of the documents, fetched; empty if the spec names none. Raises WorkFailed."""
    if not spec.measures_key:
        return ()
    body = IngestBody.read(fetching.manifest(blobs, spec.measures_key, spec.measures_digest, Kind.INGEST))
    return tuple(fetching.named(blobs, key, scratch) for key in dict.fromkeys(body.measures))


def build(host: Host) -> Service:
    datasets: Resource[Dataset] = Resource(host.metadata, "datasets", Dataset)
    tokenizers: Resource[Tokenizer] = Resource(host.metadata, "tokenizers", Tokenizer)

    def keep(unit: Unit, dataset: Dataset) -> None:
        if datasets.find(unit, dataset.name) is None:
            datasets.create(unit, dataset)
            return
        known = datasets.lock(unit, dataset.name)
        if dataset.languages and known.languages != dataset.languages:  # they were told anew, or for the first time
            del known.languages[:]
            known.MergeFrom(measured(dataset))
            datasets.put(unit, known)

    def run(context: TaskContext, tokenization: Tokenization) -> Outcome:
        made = tokenize(context, tokenization.spec)
        tokenizer, dataset = made.tokenizer, made.dataset

        def fill(unit: Unit, tokenization: Tokenization) -> None:
            if tokenizers.find(unit, tokenizer.name) is None:
                tokenizers.create(unit, tokenizer)
            keep(unit, dataset)
            tokenization.result.CopyFrom(made.result)
            tokenization.dataset, tokenization.tokenizer = dataset.name, tokenizer.name
            tokenization.tokens, tokenization.sequences = dataset.tokens, dataset.sequences
            tokenization.validation_tokens = dataset.validation_tokens

        return fill

    def run_index(context: TaskContext, index: Index) -> Outcome:
        made = indexing.index(context, index.spec)

        def fill(unit: Unit, index: Index) -> None:
            index.result.CopyFrom(made.result)
            index.dataset, index.tokens, index.documents = made.dataset, made.info.tokens, made.info.documents
            if datasets.find(unit, made.dataset) is not None:
                dataset = datasets.lock(unit, made.dataset)
                dataset.index = index.name
                datasets.put(unit, dataset)

        return fill

    def export(unit: Unit) -> Iterator[CanonicalLine]:
        yield from work.export(unit)
        yield from indexes.export(unit)
        for dataset in datasets.select(unit):
            yield CanonicalLine(dataset.name, {"tokens": dataset.tokens, "tokenizer": dataset.tokenizer})
        for tokenizer in tokenizers.select(unit):
            yield CanonicalLine(tokenizer.name, {"vocabulary": tokenizer.vocabulary})

    work = Work(host, "tokenizations", Tokenization, run, making.LOGIC_VERSION)
    indexes = Work(host, "indexes", Index, run_index, indexing.LOGIC_VERSION)
    kept = (standard.Stored(host.units, datasets), standard.Stored(host.units, tokenizers))
    api = TokenizationApi(host, work, indexes, datasets, tokenizers)
    return Service(
        name="tokenization",
        reads=["dedup", "ingest"],
        resources=[work.resource, datasets, tokenizers, indexes.resource],
        serves=[standard.served(DESCRIPTOR.services_by_name["TokenizationService"], api, work, indexes, *kept)],
        tasks=[work.task(), indexes.task()],
        remakes=[work, indexes],
        export=export,
        checks=[
            kernels.check("texts are encoded", "by tokenizers, slower", (native,)),
            kernels.check("a training's rows are gathered", "by numpy, somewhat slower", (loader.native,)),
        ],
        migrations=Path(__file__).with_name("migrations"),
    )


def measured(dataset: Dataset) -> Dataset:
    """The fields of a dataset's resource that earlier versions did not have, or that newer measures give."""
    return Dataset(
        documents=dataset.documents,
        validation_documents=dataset.validation_documents,
        text_bytes=dataset.text_bytes,
        languages=dataset.languages,
    )


def described(
    body: DatasetBody, made: making.TokenizedDataset, key: str, digest: str, tokenizer: str, size: int
) -> Dataset:
    """The resource of a dataset."""
    return Dataset(
        name=f"datasets/{digest.removeprefix('blake3:')}",
        manifest_key=key,
        content_digest=digest,
        tokenizer=tokenizer,
        tokens=body.train.targets,
        sequences=body.train.sequences,
        validation_tokens=body.validation.targets,
        validation_bytes=body.validation.text_bytes,
        context=body.context,
        unigram_bits_per_byte=made.baselines.unigram,
        bigram_bits_per_byte=made.baselines.kneser_ney_bigram,
        xz_bits_per_byte=made.baselines.xz_primed,
        bytes=size,
        documents=body.train.documents,
        validation_documents=body.validation.documents,
        text_bytes=body.train.text_bytes,
        packing=body.packing.value,
        languages=[
            TokenizedLanguage(
                language=each.code, documents=each.documents, text_bytes=each.text_bytes, tokens=each.tokens
            )
            for each in made.languages
        ],
    )
