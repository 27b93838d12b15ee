"""Campaigns: created, paused, resumed, closed, and annotators invited to them."""

import math
import secrets
import time
from pathlib import Path
from typing import Any

import click

from tutti.chassis.enums import word
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.numbers import FiniteRange
from tutti.cli.output import JSON, output_option, print_json, print_one
from tutti.client import Client
from tutti.client.plain import plain
from tutti.client.resources import full_name, get_one
from tutti.contracts.annotation.v1 import (
    CROWD_PEOPLE,
    CROWD_SIMULATED,
    VERDICT_KEPT,
    VERDICT_LEFT_OUT,
    AnswerSource,
    Axis,
    Campaign,
    CampaignSpec,
    CampaignState,
    CloneCampaignRequest,
    CloseCampaignRequest,
    CreateCampaignRequest,
    ExtendCampaignRequest,
    Overlap,
    PauseCampaignRequest,
    Qualification,
    ResumeCampaignRequest,
    SettlePairRequest,
    SimulatedCrowd,
)
from tutti.contracts.common.v1 import CancelRequest

TEXT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
HOUR, LONGEST_HOURS = 3600, 366 * 24


def extend(group: click.Group) -> None:
    """Add what changes a campaign to the group `campaigns`."""
    for command in (
        create,
        clone,
        pause,
        resume,
        extend_,
        close,
        cancel,
        settle,
    ):
        group.add_command(command)


@click.command("create", short_help="Create a campaign in which people or simulated annotators compare answers.")
@click.argument("name")
@click.option("--sample", "samples", multiple=True, help="Sample whose answers are compared; repeatable.")
@click.option("--pairs", type=TEXT_FILE, help="JSON lines with `prompt` and two `answers`, instead of samples.")
@click.option("--guideline", type=TEXT_FILE, required=True, help="Guideline for annotators: text or Markdown.")
@click.option("--axis", "axes", multiple=True, required=True, help="NAME or NAME=RULE; repeatable.")
@click.option("--crowd", type=TEXT_FILE, help="Simulated annotators, as YAML (default: people judge).")
@click.option(
    "--annotators", type=click.IntRange(1, 1000), default=20, show_default=True, help="Number of simulated annotators."
)
@click.option("--least", type=click.IntRange(1, 100), default=1, show_default=True, help="Minimum judgements per pair.")
@click.option("--most", type=click.IntRange(1, 100), help="Maximum judgements per pair (default: --least).")
@click.option(
    "--judgements", type=click.IntRange(0), default=0, help="Number of judgements to collect; 0: --least for each pair."
)
@click.option("--controls", type=FiniteRange(0, 0.5, max_open=True), default=0.1, show_default=True,
              help="Share of control pairs among those that annotators judge.")  # fmt: skip
@click.option("--filler", default="", help="Neutral text for control pairs, in the language of the answers.")
@click.option("--warning", default="", help="Content warning that annotators see before they begin.")
@click.option("--qualifying", type=TEXT_FILE, help="JSON lines with `prompt`, `answers`, `better`, `explanation`.")
@click.option("--qualification", nargs=2, type=click.IntRange(0, 50), default=(5, 4), show_default=True,
              help="Pairs that count, and right answers among them.")  # fmt: skip
@click.option(
    "--deadline-hours",
    type=FiniteRange(0, LONGEST_HOURS),
    default=0.0,
    help="Hours until the campaign closes; 0: never.",
)
@click.option("--seed", type=click.IntRange(0, (1 << 53) - 1), help="Seed of all random choices (default: random).")
@output_option
@connection_options
def create(name: str, output: str, **given: Any) -> None:
    """Create campaign NAME from samples or from pairs of your own.

    \b
    tutti campaigns create trial --pairs pairs.jsonl --guideline guideline.md \\
      --axis "helpful=Which answer helps more?" --least 2
    tutti campaigns invite trial "Ada Example"

    A line of pairs: {"prompt": [{"role": "user", "content": "…"}], "answers": ["…", "…"]}
    """
    where = {key: given.pop(key) for key in ("data_dir", "address") if key in given}
    if bool(given["samples"]) == bool(given["pairs"]):
        raise Failure("give the answers to compare: either --sample, or --pairs with a file of JSON lines", MISUSE)
    with connected(**where) as client:
        spec = _spec(client, **given)
        request = CreateCampaignRequest(request_id=fresh_id(), name=full_name("campaigns", name), spec=spec)
        made = client.annotation.CreateCampaign(request).campaign
    invite_first = f"`tutti campaigns invite {name} NAME` invites an annotator, " if given["crowd"] is None else ""
    print_campaign(
        made, output, f"{made.name} was created; {invite_first}`tutti campaigns show {name}` says how it goes on"
    )


def _spec(
    client: Client,
    *,
    samples: tuple[str, ...],
    pairs: Path | None,
    guideline: Path,
    axes: tuple[str, ...],
    crowd: Path | None,
    annotators: int,
    least: int,
    most: int | None,
    judgements: int,
    controls: float,
    filler: str,
    warning: str,
    qualifying: Path | None,
    qualification: tuple[int, int],
    deadline_hours: float,
    seed: int | None,
) -> CampaignSpec:
    spec = CampaignSpec(
        answers=[_source(client, each) for each in samples],
        pairs=_filled(pairs) if pairs else "",
        guideline=text_of(guideline),
        axes=[Axis(name=name, rule=rule) for name, _, rule in (each.partition("=") for each in axes)],
        crowd=CROWD_SIMULATED if crowd else CROWD_PEOPLE,
        overlap=Overlap(least=least, most=most or 0),
        controls=controls,
        judgements=judgements,
        deadline_seconds=round(deadline_hours * HOUR),
        seed=secrets.randbelow(1 << 53) if seed is None else seed,
        qualification=Qualification(pairs=qualification[0], right=qualification[1]),
        qualifying=text_of(qualifying) if qualifying else "",
        filler=filler,
        warning=warning,
    )
    if crowd is not None:
        spec.simulated.CopyFrom(SimulatedCrowd(annotators=annotators, crowd=text_of(crowd)))
    return spec


def _source(client: Client, name: str) -> AnswerSource:
    sample = get_one(client, "samples", resolved(client, "samples", name))
    if not sample.result.content_digest:
        raise Failure(f"{sample.name} is not done: wait for it, or choose another one of `tutti samples ls`", MISUSE)
    if not sample.spec.HasField("prompt_set"):
        raise Failure(
            f"{sample.name} continues texts: expected a sample of answers to conversations (a stage `sample` with "
            f"`prompts` in `from`); `tutti runs show` names the result of each stage",
            MISUSE,
        )
    return AnswerSource(
        sample=sample.name, manifest_key=sample.result.manifest_key, content_digest=sample.result.content_digest
    )


def _filled(path: Path) -> str:
    if not (text := text_of(path)).strip():
        raise Failure(f"{path} is empty: expected JSON lines with `prompt` and two `answers`", MISUSE)
    return text


def text_of(path: Path) -> str:
    """Return the text of a file that a user named. Raises Failure."""
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read as text: {error}", MISUSE) from error


@click.command("pause", help="Give out no new pairs; accept judgements of given ones.")
@click.argument("campaign")
@output_option
@connection_options
def pause(campaign: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        request = PauseCampaignRequest(request_id=fresh_id(), name=resolved(client, "campaigns", campaign))
        found = client.annotation.PauseCampaign(request)
    print_campaign(found, output, f"{found.name} is paused; `tutti campaigns resume {campaign}` goes on")


@click.command("resume", help="Give out pairs again.")
@click.argument("campaign")
@output_option
@connection_options
def resume(campaign: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        request = ResumeCampaignRequest(request_id=fresh_id(), name=resolved(client, "campaigns", campaign))
        found = client.annotation.ResumeCampaign(request)
    print_campaign(found, output, f"{found.name} is open")


@click.command("extend", short_help="Collect more judgements, or close later.")
@click.argument("campaign")
@click.option("--judgements", type=click.IntRange(1), default=0, help="Number of judgements to collect in all.")
@click.option("--most", type=click.IntRange(1, 100), default=0, help="Maximum judgements per pair.")
@click.option("--hours", type=FiniteRange(0, LONGEST_HOURS, min_open=True), help="Hours from now until it closes.")
@click.option("--dry-run", is_flag=True, help="Check, and change nothing.")
@output_option
@connection_options
def extend_(
    campaign: str, judgements: int, most: int, hours: float | None, dry_run: bool, output: str, **where: Any
) -> None:
    """Let CAMPAIGN, which is open or paused, collect more judgements or close later. No number can become lower.

    \b
    tutti campaigns extend trial --judgements 200 --most 4
    tutti campaigns extend trial --hours 24
    """
    if not (judgements or most or hours):
        raise Failure("give what changes: --judgements, --most or --hours", MISUSE)
    with connected(**where) as client:
        found = get_one(client, "campaigns", resolved(client, "campaigns", campaign))
        deadline = 0
        if hours and found.HasField("started_at"):
            deadline = math.ceil(time.time() - found.started_at.ToSeconds() + hours * HOUR)
        request = ExtendCampaignRequest(
            request_id=fresh_id(),
            name=found.name,
            judgements=judgements,
            most=most,
            deadline_seconds=deadline,
            validate_only=dry_run,
        )
        found = client.annotation.ExtendCampaign(request)
    closes = ""
    if found.spec.deadline_seconds:
        closes = f", or closes {found.spec.deadline_seconds / HOUR:g} hours after its opening"
    most = found.spec.overlap.most
    words = f"{found.wanted:,} judgements, at most {most} of a pair{closes}"
    print_campaign(found, output, f"{found.name} {'would collect' if dry_run else 'collects'} {words}")


@click.command("clone", short_help="Create a campaign like another one.")
@click.argument("source")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Check, and create nothing.")
@output_option
@connection_options
def clone(source: str, name: str, dry_run: bool, output: str, **where: Any) -> None:
    """Create campaign NAME with the answers, the numbers, the seed and the current guideline of SOURCE.

    Nobody is invited to it. SOURCE may be in any state.

    \b
    tutti campaigns clone trial trial-2
    """
    with connected(**where) as client:
        request = CloneCampaignRequest(
            request_id=fresh_id(),
            name=full_name("campaigns", name),
            source=resolved(client, "campaigns", source),
            validate_only=dry_run,
        )
        made = client.annotation.CloneCampaign(request)
    words = "would be created" if dry_run else f"was created; `tutti campaigns invite {name} NAME` invites an annotator"
    print_campaign(made, output, f"{made.name} {words}")


@click.command("close", help="Stop accepting judgements, and publish the existing ones.")
@click.argument("campaign")
@output_option
@connection_options
def close(campaign: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        request = CloseCampaignRequest(request_id=fresh_id(), name=resolved(client, "campaigns", campaign))
        found = client.annotation.CloseCampaign(request)
    print_campaign(found, output, f"{found.name} is closed with {found.judgements:,} judgements")


@click.command("cancel", help="End a campaign without a result; its judgements are kept.")
@click.argument("campaign")
@output_option
@connection_options
def cancel(campaign: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        request = CancelRequest(request_id=fresh_id(), name=resolved(client, "campaigns", campaign))
        found = client.annotation.CancelCampaign(request)
    state = word(CampaignState.DESCRIPTOR, CampaignState.Name(found.state))
    print_campaign(
        found, output, f"{found.name} is {state}" + ("" if state == "cancelled" else "; nothing was changed")
    )


@click.command("settle", short_help="Decide whether the judgements of a pair count.")
@click.argument("campaign")
@click.argument("pair")
@click.option("--leave-out/--keep", required=True, help="Whether its judgements count no more, or count.")
@click.option("--reason", default="", help="Reason; required with --leave-out.")
@click.option("--dry-run", is_flag=True, help="Check, and change nothing.")
@output_option
@connection_options
def settle(campaign: str, pair: str, leave_out: bool, reason: str, dry_run: bool, output: str, **where: Any) -> None:
    """Decide about a PAIR of CAMPAIGN that annotators flagged, or on which they differ.

    A pair that is left out is given to nobody any more and its judgements do not count, and those of controls that show
    its answers neither. Judgements that were published are published anew. The campaign's page shows such pairs with
    their ids and texts, and can settle them too. A later decision replaces an earlier one.

    \b
    tutti campaigns settle trial 7f3a5be2c1d04e88 --leave-out --reason "the second answer is cut off"
    tutti campaigns settle trial 7f3a5be2c1d04e88 --keep
    """
    with connected(**where) as client:
        request = SettlePairRequest(
            request_id=fresh_id(),
            campaign=resolved(client, "campaigns", campaign),
            pair=pair,
            verdict=VERDICT_LEFT_OUT if leave_out else VERDICT_KEPT,
            reason=reason,
            validate_only=dry_run,
        )
        found = client.annotation.SettlePair(request)
    if output == JSON:
        print_json(plain(found))
    else:
        done = "is left out" if leave_out else "counts"
        click.echo(f"the pair {found.pair} of {found.campaign} {'would be settled: it ' if dry_run else ''}{done}")


def print_campaign(campaign: Campaign, output: str, words: str) -> None:
    """Print a campaign as JSON, or `words` about it."""
    if output == JSON:
        print_one(plain(campaign), output)
    else:
        click.echo(words)
