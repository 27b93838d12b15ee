"""A dataset with everything that the platform knows of it: bytes a token by language, origin, trainings on it."""

import contextlib

from tutti.chassis.errors import NotFound
from tutti.client import Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import list_all
from tutti.contracts.common.v1 import STATE_DONE, GetRequest
from tutti.contracts.lineage.v1 import DIRECTION_UP, TraceRequest
from tutti.report import mixtures

FOREBEARS = ("tokenization", "dedup", "filter", "ingest", "crawl")
RUN = "run"
LIMIT = 1000


def described(client: Client, name: str) -> Plain:
    """Everything that the platform knows of a dataset. Raises NotFound."""
    found = told(plain(client.tokenization.GetDataset(GetRequest(name=name))))
    tokenizer = client.tokenization.GetTokenizer(GetRequest(name=found["tokenizer"]))
    found |= {"vocabulary": tokenizer.vocabulary, "pattern": tokenizer.pattern}
    jobs = [
        (job.name, mixtures.mixed(job.spec.training, name)) for job in list_all(client, "jobs", fields=("name", "spec"))
    ]
    found["mixed_in"] = [{"job": job, "share": share} for job, share in jobs if share]
    found["ancestry"] = ancestry(client, name)
    return found


def told(dataset: Plain) -> Plain:
    """A dataset with bytes a token of all its texts and of each language, null where no language was told.

    `waste`: the share of the places of its training sequences where nothing is predicted.
    """
    languages = [each | {"bytes_a_token": bytes_a_token([each])} for each in dataset["languages"]]
    places = dataset["sequences"] * dataset["context"]
    waste = 1 - dataset["tokens"] / places if places else 0.0
    return dataset | {"languages": languages, "bytes_a_token": bytes_a_token(languages), "waste": waste}


def bytes_a_token(languages: list[Plain]) -> float | None:
    """UTF-8 bytes of their texts for each token of these; the end of a text is none of them."""
    tokens = sum(each["tokens"] for each in languages)
    return sum(each["text_bytes"] for each in languages) / tokens if tokens else None


def ancestry(client: Client, name: str) -> list[str]:
    """The results from which a dataset was made, and the runs that asked for it, as far as lineage knows."""
    made = list_all(client, "tokenizations", fields=("name", "state", "dataset"))
    found = set[str]()
    for each in [each.name for each in made if each.state == STATE_DONE and each.dataset == name]:
        with contextlib.suppress(NotFound):
            walked = client.lineage.Trace(TraceRequest(name=each, direction=DIRECTION_UP, limit=LIMIT))
            found |= {vertex.name for vertex in walked.vertices if vertex.kind in FOREBEARS}
            # A run that shares an earlier stage alone did not ask for this dataset.
            found |= {edge.parent for edge in walked.edges if edge.child == each and kind_of(edge.parent) == RUN}
    return sorted(found, key=lambda name: ([*FOREBEARS, RUN].index(kind_of(name)), name))


def kind_of(name: str) -> str:
    return name.partition("/")[0].removesuffix("s")
