"""The sampling service: lets a checkpoint continue texts, and writes it for others to read.

Promises: the same prompts, sampling and checkpoint give the same texts under one kernel signature; an export holds the
parameters of the checkpoint and the tokenizer that it was trained with, checked by digest.
"""

import tempfile
from pathlib import Path

from tutti.chassis import version
from tutti.chassis.rpc import standard
from tutti.chassis.service import Host, Service
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext
from tutti.chassis.work import staging
from tutti.chassis.work.checkpoints import Checkpoints
from tutti.chassis.work.work import Outcome, Work, publish, put_content, put_file
from tutti.contracts.sampling.v1 import Export, ExportedFile, Sample
from tutti.contracts.sampling.v1.sampling_pb2 import DESCRIPTOR
from tutti.corpus.conversationset import ConversationsBody, Lines
from tutti.corpus.manifest import Kind
from tutti.records.canonical import file_digest
from tutti.sampling import answering, continuing, exporting
from tutti.sampling.experiences import Experiences
from tutti.sampling.pages import RolloutPages
from tutti.sampling.prompts import Prompts
from tutti.sampling.results import File, answers_manifest, export_manifest, sample_manifest
from tutti.sampling.rpc import SamplingApi, sampling_of


def build(host: Host) -> Service:
    prompts, checkpoints = Prompts(host.metadata), Checkpoints(host)
    producer = version.producer("sampling")

    def sample(context: TaskContext, sample: Sample) -> Outcome:
        spec, sampling = sample.spec, sampling_of(sample.spec)
        if spec.HasField("prompt_set"):
            return answer(context, sample)
        texts = host.units.run(lambda unit: prompts.of(unit, sample.name))
        with tempfile.TemporaryDirectory(prefix="tutti-sampling-") as scratch:
            fetched = checkpoints.fetch(spec.checkpoint, Path(scratch))
            context.check()
            found = context.pool(
                continuing.continue_texts, fetched.folder, fetched.tokenizer, texts, sampling, spec.tokens
            )
        manifest = sample_manifest(fetched.name, fetched.model_digest, sampling, spec.tokens, found, producer=producer)
        result = publish(host.blobs, "sampling", manifest, data_bytes=0)

        def fill(unit: Unit, sample: Sample) -> None:
            sample.result.CopyFrom(result)
            sample.tokens = sum(each.tokens for each in found)
            sample.continuations = len(found)

        return fill

    def answer(context: TaskContext, sample: Sample) -> Outcome:
        spec, prompts, each = sample.spec, sample.spec.prompt_set, sample.spec.each or 1
        body = ConversationsBody.read(
            staging.manifest(host.blobs, prompts.manifest_key, prompts.content_digest, Kind.CONVERSATIONS)
        )
        with tempfile.TemporaryDirectory(prefix="tutti-sampling-") as scratch:
            asked = staging.blob(host.blobs, body.lines.blob, body.lines.bytes_digest, Path(scratch, "prompts.jsonl"))
            fetched = checkpoints.fetch(spec.checkpoint, Path(scratch, "checkpoint"))
            context.check()
            said, sampling = Path(scratch, "answers.jsonl"), sampling_of(spec)
            found = context.pool(
                answering.answer,
                fetched.folder,
                fetched.tokenizer,
                asked,
                prompts.part,
                sampling,
                spec.tokens,
                each,
                said,
            )
            key, size, digest = put_file(host.blobs, "sampling/answers", said), said.stat().st_size, file_digest(said)
        manifest = answers_manifest(
            fetched.model_digest,
            prompts.content_digest,
            prompts.part,
            sampling,
            tokens=spec.tokens,
            each=each,
            lines=Lines(key, digest, size, found.answers),
            producer=producer,
        )
        result = publish(host.blobs, "sampling", manifest, data_bytes=size)

        def fill(unit: Unit, sample: Sample) -> None:
            sample.result.CopyFrom(result)
            sample.tokens, sample.continuations = found.tokens, found.answers

        return fill

    def export(context: TaskContext, export: Export) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="tutti-sampling-") as scratch:
            fetched = checkpoints.fetch(export.spec.checkpoint, Path(scratch, "checkpoint"))
            context.check()
            paths = context.pool(exporting.export, fetched.folder, fetched.tokenizer, Path(scratch, "exported"))
            files = []
            for path in paths:
                context.check()
                files.append(File(path.name, path.stat().st_size, file_digest(path)))
                put_content(host.blobs, files[-1].key, path, files[-1].bytes_digest)
        manifest = export_manifest(fetched.name, fetched.model_digest, files, producer=producer)
        result = publish(host.blobs, "sampling", manifest, data_bytes=sum(file.bytes for file in files))

        def fill(unit: Unit, export: Export) -> None:
            export.result.CopyFrom(result)
            export.files.extend(
                ExportedFile(name=file.name, bytes=file.bytes, bytes_digest=file.bytes_digest) for file in files
            )

        return fill

    samples = Work(host, "samples", Sample, sample, continuing.LOGIC_VERSION)
    exports = Work(host, "exports", Export, export, exporting.LOGIC_VERSION)
    experiences = Experiences(host)
    api = SamplingApi(host, samples, exports, prompts)
    return Service(
        name="sampling",
        resources=[samples.resource, exports.resource, experiences.resource],
        tables=[prompts.table],
        serves=[
            standard.served(DESCRIPTOR.services_by_name["SamplingService"], api, samples, exports),
            experiences.served(),
        ],
        tasks=[samples.task(), exports.task(), experiences.task()],
        migrations=Path(__file__).with_name("migrations"),
        pages=RolloutPages(host, experiences).site,
    )
