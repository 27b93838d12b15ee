"""Classifiers of texts: trained by recipes, shown with what they told of texts that they never saw."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tutti.cli.access import reached
from tutti.cli.connection import connected, connection_options
from tutti.cli.naming import LATEST, resolved
from tutti.cli.output import JSON, output_option, print_json, print_list, say
from tutti.cli.overrides import Overridable
from tutti.client.plain import Plain, plain
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.ingest.v1 import Classifier
from tutti.judgements.intervals import Proportion

RIGHT = "told right"


def extend(group: click.Group) -> None:
    """Add the verbs of a classifier to the group `classifiers`."""

    @group.command("train", cls=Overridable, short_help="Train a classifier on labelled folders, by a recipe.")
    @click.argument("source", metavar="RECIPE|FOLDER", type=click.Path(exists=True, path_type=Path))
    @click.option("--name", help="With a FOLDER: name of the classifier and prefix of its rules NAME.LABEL.")
    @click.option("--keeps", metavar="LABEL", help="With a FOLDER: label of the texts to keep.")
    @click.option(
        "--most-false", type=float, metavar="SHARE",
        help="With a FOLDER: maximum share of texts to keep that a threshold may reject (default: 0.02).",
    )  # fmt: skip
    @click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key, such as name=other.")
    @output_option
    @connection_options
    def train(
        source: Path,
        name: str | None,
        keeps: str | None,
        most_false: float | None,
        overrides: Sequence[str],
        output: str,
        **where: Any,
    ) -> None:
        """Learn to tell labels apart: the names of the folders of a folder, their texts in them.

        \b
        tutti classifiers train recipes/harm.yaml
        tutti classifiers train datasets/harm --name harm --keeps harmless   # the same

        docs/recipes.md has the keys of a RECIPE. The same recipe over the same texts is the same NAME@DIGEST: what was
        trained before is not trained again. A name keeps its classifier.
        """
        # It brings pydantic, for which few other commands wait.
        from tutti.cli import training

        options = {"name": name and name.removeprefix("classifiers/"), "keeps": keeps, "most_false": most_false}
        if source.is_dir():
            wanted = training.of_folder(source, overrides, **options)
        elif given := [f"--{key.replace('_', '-')}" for key, value in options.items() if value is not None]:
            raise click.UsageError(f"{', '.join(given)}: of a FOLDER; to change a RECIPE: --set KEY=VALUE")
        else:
            wanted = training.of_file(source, overrides)
        with reached(**where) as platform:
            found, before = training.trained(platform, wanted)
        if before:
            reference = f"{wanted.name}@{found.model_digest}"
            say(f"{reference} was trained before, from the same texts by {found.spec.logic_version}; nothing was done")
        print_classifier(found, output)

    @group.command(
        "show",
        short_help="Show a classifier: thresholds and accuracy.",
        help="Show a classifier: its digest, thresholds and confusion matrix on held-out texts.",
    )
    @click.argument("name", default=LATEST)
    @output_option
    @connection_options
    def show(name: str, output: str, **where: Any) -> None:
        with connected(**where) as client:
            found = client.ingest.GetClassifier(GetRequest(name=resolved(client, "classifiers", name)))
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
        columns = ("label", "language", *(each.label for each in found.labels), RIGHT)
        print_list(table(found), columns, output, nothing="none")


def table(found: Classifier) -> list[Plain]:
    """A row a label and language: how many texts were told as each label, and the share that was told right."""
    names = [each.label for each in found.labels]
    rows: dict[tuple[str, str], Plain] = {}
    for each in found.held_out:
        key = (each.label, each.language)
        row = rows.setdefault(key, {"label": each.label, "language": each.language, **dict.fromkeys(names, 0)})
        row[each.told] += each.texts
    for (label, _), row in rows.items():
        row[RIGHT] = str(Proportion.of(row[label], sum(row[name] for name in names)))
    return [rows[key] for key in sorted(rows, key=lambda key: (names.index(key[0]), key[1]))]
