"""Campaigns from judgements that exist already: `tutti campaigns import`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tutti.annotation.commands.campaigns import TEXT_FILE, text_of
from tutti.annotation.commands.labels import LabelPart, labels_in
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.client.plain import plain
from tutti.client.resources import full_name
from tutti.contracts.annotation.v1 import (
    CROWD_IMPORTED,
    Axis,
    Campaign,
    CampaignSpec,
    CreateCampaignRequest,
    Qualification,
)
from tutti.corpus.conversations.labels import EXPECTED
from tutti.records.canonical import content_digest

IMPORTED = "Judgements that were made elsewhere."
"""The guideline of an import without one: it names no file, so that a renamed file gives the same judgements."""


def extend(group: click.Group) -> None:
    """Add the commands to the group `campaigns`."""
    group.add_command(import_)


@click.command("import", short_help="Create campaigns from judgements that exist already.")
@click.argument("name")
@click.argument("file", type=TEXT_FILE)
@click.option("--axis", "axes", multiple=True, default=("helpful",), show_default=True,
              help="NAME or NAME=RULE of what was judged; repeatable.")  # fmt: skip
@click.option("--guideline", type=TEXT_FILE, help="Guideline by which the pairs were judged, if there was one.")
@click.option("--seed", type=click.IntRange(0, (1 << 53) - 1), default=0, show_default=True,
              help="Seed of the order of the two answers.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Check, and create nothing.")
@output_option
@connection_options
def import_(
    name: str,
    file: Path,
    axes: tuple[str, ...],
    guideline: Path | None,
    seed: int,
    dry_run: bool,
    output: str,
    **where: Any,
) -> None:
    """Create campaign NAME from the pairs and judgements in FILE, and publish it.

    FILE has JSON lines, a list in JSON or rows of Parquet, of TRL, UltraFeedback or HH (`chosen` and `rejected`, with
    or without `prompt`; equal scores are a tie), or of our own:

    \b
    {"prompt": "…", "answers": ["…", "…"], "score": -1, "annotator": "ada"}

    A score is from -2 (the first answer is much better) to 2, or both_bad; `scores` has them by axis. Records that are
    no judgement, or whose rejected answer has the higher score, are counted and quoted. `fit: certain@1` in the stage
    preferences takes the judgements as certain. A campaign holds 3 MiB; of a larger file, further campaigns NAME-2, …
    are made.

    \b
    tutti campaigns import helpful labels.jsonl --axis "helpful=Which answer helps more?"
    """
    names = [axis.partition("=")[0] for axis in axes]
    found = labels_in(file, names)
    for words in found.quoted:
        say(words)
    if not found.parts:
        raise Failure(f"{file} has no judgement of a pair; expected {EXPECTED}", MISUSE)
    text = text_of(guideline) if guideline else IMPORTED
    made = list[Campaign]()
    with connected(**where) as client:
        for place, part in enumerate(found.parts, 1):
            full = full_name("campaigns", name if place == 1 else f"{name}-{place}")
            spec = imported_spec(part, axes, text, seed)
            request = CreateCampaignRequest(
                request_id=f"import/{full}/{content_digest(part.text, kind='import')}",
                name=full,
                spec=spec,
                validate_only=dry_run,
            )
            made.append(client.annotation.CreateCampaign(request).campaign)
            if output != JSON:
                does = "would get" if dry_run else "has"
                click.echo(f"{full} {does} {part.pairs:,} pairs with {part.judgements:,} judgements")
    if output == JSON:
        print_json([plain(each) for each in made])
    elif not dry_run:
        say(f"fit preferences to them with `from: {{judged: [{', '.join(each.name for each in made)}]}}`")


def imported_spec(part: LabelPart, axes: Sequence[str], guideline: str = IMPORTED, seed: int = 0) -> CampaignSpec:
    """The campaign that holds judgements which exist already; `axes` are NAME or NAME=RULE."""
    return CampaignSpec(
        pairs=part.text,
        guideline=guideline,
        axes=[Axis(name=axis, rule=rule) for axis, _, rule in (each.partition("=") for each in axes)],
        crowd=CROWD_IMPORTED,
        controls=0,
        qualification=Qualification(),
        seed=seed,
    )
