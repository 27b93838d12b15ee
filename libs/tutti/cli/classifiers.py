"""Classifiers of texts: trained from labelled folders, shown with what they told of texts that they never saw."""

from pathlib import Path
from typing import Any

import click

from tutti.chassis.errors import AlreadyExists
from tutti.cli import waiting
from tutti.cli.access import reached, served
from tutti.cli.connection import connection_options
from tutti.cli.failures import Failure
from tutti.cli.identity import fresh_id
from tutti.cli.nouns import full_name
from tutti.cli.output import JSON, output_option, patiently, print_json, print_list
from tutti.cli.plain import Plain, plain
from tutti.cli.waiting import cancelling
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.ingest.v1 import Classifier, ClassifierSpec, CreateClassifierRequest


def extend(group: click.Group) -> None:
    """Add the verbs of a classifier to the group `classifiers`."""

    @group.command("train", help="Learn from FOLDER: one subfolder per label, its texts in it.")
    @click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
    @click.option("--name", required=True, help="Of the classifier, and of its rules: NAME.LABEL.")
    @click.option("--keeps", required=True, help="The label of what is wanted.")
    @click.option(
        "--most-false", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.02, show_default=True,
        help="Of what is wanted, the share that a threshold may reject.",
    )  # fmt: skip
    @output_option
    @connection_options
    def train(folder: Path, name: str, keeps: str, most_false: float, output: str, **where: Any) -> None:
        spec = ClassifierSpec(input_path=str(folder.resolve()), keeps=keeps, most_false=most_false)
        full = full_name("classifiers", name)
        with reached(**where, anew=True) as platform:
            client = platform.client
            try:
                client.ingest.CreateClassifier(CreateClassifierRequest(request_id=fresh_id(), name=full, spec=spec))
            except AlreadyExists as error:
                known = client.ingest.GetClassifier(GetRequest(name=full))
                raise Failure(
                    f"{full} exists ({plain(known)['state']}), of another folder, or with another --keeps or "
                    f"--most-false, and keeps its name: choose another --name [ALREADY_EXISTS]"
                ) from error
            with cancelling(client.ingest.CancelClassifier, full), patiently(f"{full} is trained"):
                found = waiting.done(lambda: client.ingest.GetClassifier(GetRequest(name=full)), platform.ended)
        print_classifier(found, output)

    @group.command(
        "show",
        short_help="Show one: thresholds, and how right it was.",
        help="Show a classifier: its digest, thresholds, and what held-out texts were told as.",
    )
    @click.argument("name")
    @output_option
    @connection_options
    def show(name: str, output: str, **where: Any) -> None:
        with served(**where) as client:
            found = client.ingest.GetClassifier(GetRequest(name=full_name("classifiers", name)))
        print_classifier(found, output)


def print_classifier(found: Classifier, output: str) -> None:
    """Whole as JSON; for a person a line a label, then a table of held-out texts."""
    if output == JSON:
        print_json(plain(found))
        return
    click.echo(f"{found.name}@{found.model_digest or '(no model)'}  keeps {found.spec.keeps}  {found.reason}".rstrip())
    labels = [plain(each) for each in found.labels]
    if labels:
        print_list(labels, ("label", "trained", "held_out", "threshold"), output, nothing="")
        click.echo("\nheld-out texts, told as")
        print_list(table(found), ("label", "language", *(each.label for each in found.labels)), output, nothing="none")


def table(found: Classifier) -> list[Plain]:
    """A row a label and language: how many texts were told as each label."""
    names = [each.label for each in found.labels]
    rows: dict[tuple[str, str], Plain] = {}
    for each in found.held_out:
        key = (each.label, each.language)
        row = rows.setdefault(key, {"label": each.label, "language": each.language, **dict.fromkeys(names, 0)})
        row[each.told] += each.texts
    return [rows[key] for key in sorted(rows, key=lambda key: (names.index(key[0]), key[1]))]
