"""The tokenization service: trains a tokenizer on kept documents, writes token shards, and makes indexes of them.

Promises: tokenizer and dataset are named by their content; the same kept documents and parameters give the same names,
whatever was left out before.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tutti.chassis import staging, version
from tutti.chassis.canonical import CanonicalLine
from tutti.chassis.resources import Resource
from tutti.chassis.service import Host, Served, Service
from tutti.chassis.tasks import CancellablePool, TaskContext, WorkFailed
from tutti.chassis.unit import Unit
from tutti.chassis.work import Outcome, Work, publish, put_content
from tutti.contracts.common.v1 import Artifact
from tutti.contracts.tokenization.v1 import Dataset, Index, Tokenization, TokenizationSpec, Tokenizer
from tutti.contracts.tokenization.v1.tokenization_pb2 import DESCRIPTOR
from tutti.corpus.bytepairs import LLAMA3_PATTERN
from tutti.corpus.dataset import DatasetBody
from tutti.corpus.manifest import Kind
from tutti.corpus.stages import DedupBody
from tutti.tokenization import indexing, making
from tutti.tokenization.baselines import Baselines
from tutti.tokenization.rpc import TokenizationApi


@dataclass(frozen=True)
class Tokenized:
    """What a tokenization made: all of it is in the store."""

    tokenizer: Tokenizer
    dataset: Dataset
    result: Artifact


def tokenize(context: TaskContext, spec: TokenizationSpec) -> Tokenized:
    """Read the kept documents, make tokenizer and token shards, store them. Raises WorkFailed."""
    blobs = context.host.blobs
    kept = DedupBody.read(staging.manifest(blobs, spec.manifest_key, spec.content_digest, Kind.DEDUP))
    made = stored_shards(context, spec, kept)
    tokenizer = named_tokenizer(made, spec.pattern or LLAMA3_PATTERN)
    put_content(blobs, tokenizer.key, made.artefact, made.tokenizer_version)
    body = DatasetBody(
        tokenizer_version=made.tokenizer_version,
        vocabulary=made.vocabulary,
        eos=made.eos,
        context=spec.context,
        train=made.train,
        validation=made.validation,
    )
    manifest = body.manifest(parents=(tokenizer.name,), producer=version.producer("tokenization"))
    size = sum(shard.bytes for split in (made.train, made.validation) for shard in split.shards)
    result = publish(blobs, "tokenization", manifest, data_bytes=size)
    dataset = described(body, made.baselines, result.manifest_key, manifest.content_digest, tokenizer.name, size)
    return Tokenized(tokenizer, dataset, result)


def stored_shards(context: TaskContext, spec: TokenizationSpec, kept: DedupBody) -> making.Made:
    """Make token shards of kept documents in the pool, and store them. Raises WorkFailed."""
    blobs = context.host.blobs
    try:
        with tempfile.TemporaryDirectory(prefix="tutti-tokenization-") as scratch:
            wanted = making.Making(
                shards=tuple(path for path, _ in staging.shards(blobs, kept.shards, Path(scratch))),
                dropped=staging.dropped(blobs, kept.clusters) | staging.rejected(blobs, kept.decisions),
                vocabulary=spec.vocabulary,
                pattern=spec.pattern,
                context=spec.context,
                validation_fraction=spec.validation_fraction,
                seed=spec.seed,
                shard_sequences=spec.shard_sequences,
                scratch=Path(scratch),
                workers=len(os.sched_getaffinity(0)) if isinstance(context.host.pool, CancellablePool) else 1,
            )
            made = context.pool(making.make, wanted)
            for shard in made.files:
                context.check()
                put_content(blobs, shard.key, shard.path, shard.bytes_digest)
    except making.MakingError as error:
        raise WorkFailed(str(error)) from error
    return made


def named_tokenizer(made: making.Made, pattern: str) -> Tokenizer:
    """The resource of a tokenizer."""
    hexadecimal = made.tokenizer_version.removeprefix("blake3:")
    return Tokenizer(
        name=f"tokenizers/{hexadecimal}",
        key=f"tokenization/tokenizers/{hexadecimal}.json",
        content_digest=made.tokenizer_version,
        vocabulary=made.vocabulary,
        pattern=pattern,
    )


def build(host: Host) -> Service:
    datasets: Resource[Dataset] = Resource(host.metadata, "datasets", Dataset)
    tokenizers: Resource[Tokenizer] = Resource(host.metadata, "tokenizers", Tokenizer)

    def run(context: TaskContext, tokenization: Tokenization) -> Outcome:
        made = tokenize(context, tokenization.spec)
        tokenizer, dataset = made.tokenizer, made.dataset

        def fill(unit: Unit, tokenization: Tokenization) -> None:
            if tokenizers.find(unit, tokenizer.name) is None:
                tokenizers.create(unit, tokenizer)
            if datasets.find(unit, dataset.name) is None:
                datasets.create(unit, dataset)
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
    api = TokenizationApi(host, work, indexes, datasets, tokenizers)
    return Service(
        name="tokenization",
        resources=[work.resource, datasets, tokenizers, indexes.resource],
        serves=[Served(DESCRIPTOR.services_by_name["TokenizationService"], api)],
        tasks=[work.task(), indexes.task()],
        export=export,
    )


def described(body: DatasetBody, measured: Baselines, key: str, digest: str, tokenizer: str, size: int) -> Dataset:
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
        unigram_bits_per_byte=measured.unigram,
        bigram_bits_per_byte=measured.kneser_ney_bigram,
        xz_bits_per_byte=measured.xz_primed,
        bytes=size,
    )
