"""The sampling service: lets a checkpoint continue texts, and writes it for others to read.

Promises: the same prompts, sampling and checkpoint give the same texts under one kernel signature; an export holds the
parameters of the checkpoint and the tokenizer that it was trained with, checked by digest.
"""

from pathlib import Path

from tutti.chassis.rpc import standard
from tutti.chassis.service import Host, Service
from tutti.contracts.sampling.v1 import ExperienceCommitted
from tutti.contracts.sampling.v1.sampling_pb2 import DESCRIPTOR
from tutti.sampling import exports, samples
from tutti.sampling.experiences import STORED, Experiences
from tutti.sampling.pages import RolloutPages
from tutti.sampling.prompts import Prompts
from tutti.sampling.rpc import SamplingApi


def build(host: Host) -> Service:
    prompts = Prompts(host.metadata)
    sampled, exported = samples.work(host, prompts), exports.work(host)
    experiences = Experiences(host)
    api = SamplingApi(host, sampled, exported, prompts)
    return Service(
        name="sampling",
        reads=["annotation", "committer", "ingest", "tokenization", "trainer"],
        deletes=[STORED],
        resources=[sampled.resource, exported.resource, experiences.resource],
        facts=[ExperienceCommitted],
        tables=[prompts.table],
        serves=[
            standard.served(DESCRIPTOR.services_by_name["SamplingService"], api, sampled, exported),
            experiences.served(),
        ],
        tasks=[sampled.task(), exported.task(), experiences.task()],
        remakes=[sampled, exported],
        migrations=Path(__file__).with_name("migrations"),
        pages=RolloutPages(host, experiences).site,
    )
