"""The guideline of a campaign and its versions."""

import difflib
from pathlib import Path
from typing import Any

import click

from tutti.annotation.commands.campaigns import TEXT_FILE, print_campaign, text_of
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, print_json, print_list
from tutti.client.plain import plain
from tutti.contracts.annotation.v1 import (
    ListGuidelinesRequest,
    ReadGuidelineRequest,
    RetractGuidelineRequest,
    UpdateGuidelineRequest,
)


def extend(group: click.Group) -> None:
    """Add the commands to the group `campaigns`."""
    group.add_command(guideline)
    group.add_command(guidelines)
    group.add_command(retract_guideline)


@click.command("guideline", short_help="Replace the guideline; annotators read it first.")
@click.argument("campaign")
@click.argument("file", type=TEXT_FILE)
@click.option("--requalify", is_flag=True, help="Let everybody pass the qualification again before the next pair.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@output_option
@connection_options
def guideline(campaign: str, file: Path, requalify: bool, dry_run: bool, output: str, **where: Any) -> None:
    """Replace the guideline of CAMPAIGN by the text of FILE; annotators read what is new before they go on.

    \b
    tutti campaigns guideline trial better.md --dry-run
    tutti campaigns guideline trial better.md --requalify
    """
    text = text_of(file)
    with connected(**where) as client:
        name = resolved(client, "campaigns", campaign)
        before = client.annotation.ReadGuideline(ReadGuidelineRequest(name=name))
        request = UpdateGuidelineRequest(
            request_id=fresh_id(), name=name, text=text, requalify=requalify, validate_only=dry_run
        )
        found = client.annotation.UpdateGuideline(request)
    if output != JSON:
        lines = difflib.unified_diff(before.text.splitlines(), text.splitlines(), "before", str(file), lineterm="")
        for line in lines:
            click.echo(line)
    words = "would have this guideline" if dry_run else f"has the guideline {found.guideline}"
    print_campaign(found, output, f"{found.name} {words}")


@click.command("guidelines", short_help="List the versions of the guideline of a campaign.")
@click.argument("campaign")
@output_option
@connection_options
def guidelines(campaign: str, output: str, **where: Any) -> None:
    """List the versions of the guideline of CAMPAIGN, the oldest first, with the judgements that were made under each.

    \b
    tutti campaigns guidelines trial
    tutti campaigns retract-guideline trial blake3:4a1c --reason "it preferred long answers"
    """
    with connected(**where) as client:
        request = ListGuidelinesRequest(campaign=resolved(client, "campaigns", campaign))
        found = client.annotation.ListGuidelines(request).guidelines
    columns = ("version", "current", "judgements", "title", "retracted")
    print_list([plain(each) for each in found], columns, output, nothing="the campaign has no guideline")


@click.command("retract-guideline", short_help="Remove what was judged under a version of the guideline.")
@click.argument("campaign")
@click.argument("version")
@click.option("--reason", required=True, help="Reason, which other owners see.")
@click.option("--dry-run", is_flag=True, help="Check, and change nothing.")
@output_option
@connection_options
def retract_guideline(campaign: str, version: str, reason: str, dry_run: bool, output: str, **where: Any) -> None:
    """Take out of CAMPAIGN what was judged under a VERSION of its guideline, or its beginning; it counts no more.

    While the campaign is open the same annotators are given the pairs again; replace the guideline first. Judgements
    that were published are published anew without them; the next run of the recipe fits preferences anew, and trains
    what follows from them.

    \b
    tutti campaigns guidelines trial
    tutti campaigns guideline trial better.md
    tutti campaigns retract-guideline trial blake3:4a1c --reason "it preferred long answers"
    """
    with connected(**where) as client:
        name = resolved(client, "campaigns", campaign)
        every = client.annotation.ListGuidelines(ListGuidelinesRequest(campaign=name)).guidelines
        meant = [each for each in every if each.version.startswith(version)]
        if len(meant) > 1:
            raise Failure(f"{version} is the beginning of {len(meant)} versions: give more of it", MISUSE)
        request = RetractGuidelineRequest(
            request_id=fresh_id(),
            campaign=name,
            version=meant[0].version if meant else version,
            reason=reason,
            validate_only=dry_run,
        )
        found = client.annotation.RetractGuideline(request)
    if output == JSON:
        print_json(plain(found))
        return
    count = meant[0].judgements if meant else 0
    told = f"the guideline {found.version} of {found.campaign}"
    if dry_run:
        click.echo(f"{told} would be retracted with {count:,} judgements")
    else:
        click.echo(f"{told} is retracted with {count:,} judgements")
