"""Samples as work: texts continued, or a set of conversations answered, by a checkpoint."""

import tempfile
from pathlib import Path

from tutti.chassis import version
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext
from tutti.chassis.work.work import Outcome, Work, publish, put_file
from tutti.contracts.common.v1 import Artifact
from tutti.contracts.sampling.v1 import Sample
from tutti.corpus.conversations.conversationset import ConversationsBody, Lines
from tutti.inference.engines import version_of
from tutti.records.canonical import file_digest
from tutti.records.manifest import Kind, Manifest
from tutti.sampling.answering import Answered, answer
from tutti.sampling.continuing import LOGIC_VERSION, continue_texts
from tutti.sampling.prompts import Prompts
from tutti.sampling.results import answers_manifest, sample_manifest
from tutti.sampling.rpc import sampling_of
from tutti.sampling.settings import SamplingSettings
from tutti.staging import fetching
from tutti.staging.checkpoints import Checkpoints


def work(host: Host, prompts: Prompts) -> Work[Sample]:
    """Return the work of samples; `prompts` has the private texts of each.

    Raises MissingExtra for an engine whose library is not installed.
    """
    checkpoints, producer = Checkpoints(host), version.producer("sampling")
    settings = host.settings(SamplingSettings)
    most_bytes, memory_bytes, engine = settings.model_bytes, settings.memory_bytes, settings.engine
    logic = "+".join(filter(None, (LOGIC_VERSION, version_of(engine))))

    def run(context: TaskContext, sample: Sample) -> Outcome:
        return (answered if sample.spec.HasField("prompt_set") else continued)(context, sample)

    def continued(context: TaskContext, sample: Sample) -> Outcome:
        spec, sampling = sample.spec, sampling_of(sample.spec)
        texts = host.units.run(lambda unit: prompts.of(unit, sample.name))
        found = checkpoints.find(spec.checkpoint)
        context.check()
        every = checkpoints.resident(
            context, found, most_bytes, memory_bytes, continue_texts, found.tokenizer, texts, sampling, spec.tokens
        )
        manifest = sample_manifest(found.name, found.model_digest, sampling, spec.tokens, every, producer=producer)
        return outcome(manifest, data_bytes=0, tokens=sum(each.tokens for each in every), continuations=len(every))

    def answered(context: TaskContext, sample: Sample) -> Outcome:
        spec, of, each, sampling = sample.spec, sample.spec.prompt_set, sample.spec.each or 1, sampling_of(sample.spec)
        body = ConversationsBody.read(
            fetching.manifest(host.blobs, of.manifest_key, of.content_digest, Kind.CONVERSATIONS)
        )
        found = checkpoints.find(spec.checkpoint)
        with tempfile.TemporaryDirectory(prefix="tutti-sampling-") as scratch:
            lines = fetching.blob(host.blobs, body.lines.blob, body.lines.bytes_digest, Path(scratch, "prompts.jsonl"))
            context.check()
            to, tokenizer = Path(scratch, "answers.jsonl"), found.tokenizer
            asked = (tokenizer, lines, of.part, sampling, spec.tokens, each, engine, to)
            counts: Answered = checkpoints.resident(context, found, most_bytes, memory_bytes, answer, *asked)
            key, size, digest = put_file(host.blobs, "sampling/answers", to), to.stat().st_size, file_digest(to)
        manifest = answers_manifest(
            found.model_digest,
            of.content_digest,
            of.part,
            sampling,
            tokens=spec.tokens,
            each=each,
            lines=Lines(key, digest, size, counts.answers),
            producer=producer,
        )
        return outcome(manifest, data_bytes=size, tokens=counts.tokens, continuations=counts.answers)

    def outcome(manifest: Manifest, *, data_bytes: int, tokens: int, continuations: int) -> Outcome:
        result: Artifact = publish(host.blobs, "sampling", manifest, data_bytes=data_bytes)

        def fill(unit: Unit, sample: Sample) -> None:
            sample.result.CopyFrom(result)
            sample.tokens, sample.continuations = tokens, continuations

        return fill

    return Work(host, "samples", Sample, run, logic)
