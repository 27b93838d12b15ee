"""The nouns that can be listed and shown, as data: which call, which columns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from tutti.chassis.client import Client
from tutti.contracts.common.v1 import GetRequest, ListRequest


def full_name(kind: str, name: str) -> str:
    """The name of a resource whose kind may be left out."""
    return name if name.startswith(f"{kind}/") else f"{kind}/{name}"


@dataclass(frozen=True)
class Noun:
    """`plural`: the command group; `kind`: the first segment of names; `service`: its owner; `about`: what they are."""

    plural: str
    kind: str
    service: str
    message: str
    columns: tuple[str, ...]
    empty: str
    about: str = ""

    def get(self, client: Client, name: str) -> Any:
        request = GetRequest(name=full_name(self.kind, name))
        return getattr(getattr(client, self.service), f"Get{self.message}")(request)

    def all(self, client: Client, filter_text: str = "", *, fields: Sequence[str] = ()) -> Iterator[Any]:
        """Every resource of the kind, page by page; of each these fields, or all."""
        token, mask = "", FieldMask(paths=fields)
        call: Callable[..., Any] = getattr(getattr(client, self.service), f"List{self.plural.capitalize()}")
        while True:
            page = call(ListRequest(page_size=500, page_token=token, filter=filter_text, read_mask=mask))
            yield from getattr(page, self.plural)
            token = page.next_page_token
            if not token:
                return


NOUNS = (
    Noun(
        "runs", "runs", "pipeline", "Run", ("name", "state", "title", "started_at", "reason"),
        "no runs yet; start one with `tutti run RECIPE`",
        "Recipes that were run: list, show, follow, cancel.",
    ),
    Noun(
        "crawls", "crawls", "ingest", "Crawl", ("name", "state", "started_at", "ended_at", "site_digest", "reason"),
        "no crawls yet; a run whose recipe has `input.crawl` makes one",
        "Visits to web sites: what became of each URL.",
    ),
    Noun(
        "classifiers", "classifiers", "ingest", "Classifier",
        ("name", "state", "model_digest", "started_at", "reason"),
        "no classifiers yet; `tutti classifiers train recipes/harm.yaml` makes one",
        "Classifiers of texts, learnt from labelled folders.",
    ),
    Noun(
        "jobs", "jobs", "scheduler", "Job",
        ("name", "title", "state", "step", "steps", "loss", "epoch", "ranks", "reason"),
        "no training jobs yet; `tutti run RECIPE` creates one",
        "Trainings: where each stands, how many ranks it has.",
    ),
    Noun(
        "nodes", "nodes", "scheduler", "Node", ("name", "state", "slots", "address", "reason"),
        "no node has registered; `tutti up` starts one agent",
        "Machines whose agents run ranks.",
    ),
    Noun(
        "topologies", "topologies", "scheduler", "Topology", ("name", "ranks", "nodes", "epoch", "cause"),
        "no topologies yet; a job has one from its first epoch on",
        "Which rank of a job runs on which node, epoch by epoch.",
    ),
    Noun(
        "datasets", "datasets", "tokenization", "Dataset",
        ("name", "tokens", "sequences", "validation_tokens", "context", "bytes"),
        "no datasets yet; `tutti run RECIPE` makes one",
        "Tokens to train on: sizes, languages, ancestry; export texts.",
    ),
    Noun(
        "tokenizers", "tokenizers", "tokenization", "Tokenizer", ("name", "vocabulary"),
        "no tokenizers yet; `tutti run RECIPE` trains one",
        "Tokenizers that runs trained: list, show, compare.",
    ),
    Noun(
        "indexes", "indexes", "tokenization", "Index", ("name", "state", "dataset", "tokens", "documents", "reason"),
        "no indexes yet; a run whose recipe has `index: true` makes one",
        "Where passages stand in the texts of a dataset.",
    ),
    Noun(
        "checkpoints", "checkpoints", "committer", "Checkpoint",
        ("name", "state", "step", "epoch", "model_digest", "state_digest", "bytes", "decided_at"),
        "no checkpoints yet; training writes one every `train.checkpoint_every` steps",
        "What trainings committed: list, verify, export, prune.",
    ),
    Noun(
        "samples", "samples", "sampling", "Sample", ("name", "state", "tokens", "started_at", "ended_at", "reason"),
        "no samples yet; `tutti sample CHECKPOINT` makes one",
        "Texts that checkpoints continued.",
    ),
)  # fmt: skip
BY_PLURAL = {noun.plural: noun for noun in NOUNS}

RETRACTIONS = Noun(
    "retractions", "retractions", "ingest", "Retraction",
    ("name", "source", "document", "withdrawn", "retracted_at", "reason"),
    "nothing is retracted; `tutti documents retract` does that",
)  # fmt: skip
"""Below `tutti documents`."""
