"""The nouns that can be listed and shown, as data: which call, which columns."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from google.protobuf.field_mask_pb2 import FieldMask

from tutti.chassis.client import Client
from tutti.cli.connection import connected, connection_options
from tutti.cli.output import output_option, print_list, print_one
from tutti.cli.plain import Plain, plain
from tutti.cli.words import Words
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
        "Recipes carried out: list, show, follow, cancel.",
    ),
    Noun(
        "crawls", "crawls", "ingest", "Crawl", ("name", "state", "started_at", "ended_at", "site_digest", "reason"),
        "no crawls yet; a run whose recipe has `input.crawl` makes one",
        "Visits to web sites: what became of each URL.",
    ),
    Noun(
        "classifiers", "classifiers", "ingest", "Classifier",
        ("name", "state", "model_digest", "started_at", "reason"),
        "no classifiers yet; `tutti classifiers train FOLDER --name NAME --keeps LABEL` makes one",
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
NUMBERED = {"checkpoints": ("job", "line", "step"), "topologies": ("job", "version")}
BY_PLURAL = {noun.plural: noun for noun in NOUNS}


def titles(noun: Noun, client: Client) -> dict[str, str]:
    """Of a job the title of the newest run that made or reused it; other nouns need none."""
    if noun.kind != "jobs":
        return {}
    runs = sorted(BY_PLURAL["runs"].all(client), key=lambda run: run.started_at.ToNanoseconds())
    return {stage.resource: run.spec.title for run in runs for stage in run.stages}


def row(noun: Noun, message: Any, titled: Mapping[str, str]) -> Plain:
    """A resource as plain values, with what scripts rely on at the top."""
    value = plain(message)
    if noun.kind == "jobs":
        value["ranks"] = message.shape.data_parallel or message.spec.data_parallel
        value["steps"] = message.spec.steps
        version = message.topology_version
        value["topology"] = f"topologies/{message.name.removeprefix('jobs/')}/{version}" if version else ""
        value["title"] = titled.get(message.name, "")
        value["spec"]["training"] = json.loads(message.spec.training)
    if noun.kind == "runs":
        value["title"] = message.spec.title
    if noun.kind == "retractions":
        value |= value["spec"]
    if noun.kind == "topologies":
        value["ranks"] = message.shape.data_parallel
        value["nodes"] = ", ".join(sorted({placed.node for placed in message.placement}))
    return value


def in_order(noun: Noun, rows: list[Plain]) -> list[Plain]:
    """By name; what has numbers in its name by these."""
    numbers = NUMBERED.get(noun.kind, ())
    return sorted(rows, key=lambda each: (*(each[field] for field in numbers), each["name"]))


def group(noun: Noun) -> click.Group:
    """The command group of a noun with `ls` and `show`."""

    @click.group(noun.plural, cls=Words, help=noun.about or f"List and show {noun.plural}.")
    def made() -> None: ...

    @made.command("ls", help=f"List {noun.plural}.")
    @click.option("--filter", "filter_text", default="", help="`field=value` pairs joined by AND.")
    @output_option
    @connection_options
    def ls(filter_text: str, output: str, **where: Any) -> None:
        with connected(**where) as client:
            titled = titles(noun, client)
            rows = [row(noun, message, titled) for message in noun.all(client, filter_text)]
        print_list(in_order(noun, rows), noun.columns, output, nothing=noun.empty)

    @made.command("show", help=f"Show one of the {noun.plural} whole.")
    @click.argument("name")
    @output_option
    @connection_options
    def show(name: str, output: str, **where: Any) -> None:
        with connected(**where) as client:
            print_one(row(noun, noun.get(client, name), titles(noun, client)), output)

    return made
