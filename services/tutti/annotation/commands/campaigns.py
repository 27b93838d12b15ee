"""Campaigns: created, paused, resumed, closed, and annotators invited to them."""

import difflib
import math
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from tutti.annotation.commands.labels import LabelPart, labels_in
from tutti.chassis.enums import word
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.numbers import FiniteRange
from tutti.cli.output import JSON, output_option, print_json, print_list, print_one, say
from tutti.cli.pages import new_link, pages_of
from tutti.client import Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import full_name, get_one
from tutti.contracts.access.v1 import USER_STATE_DISABLED, CreateUserRequest
from tutti.contracts.annotation.v1 import (
    CROWD_IMPORTED,
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
    InviteAnnotatorRequest,
    ListGuidelinesRequest,
    Overlap,
    PauseCampaignRequest,
    Qualification,
    ReadGuidelineRequest,
    ResumeCampaignRequest,
    RetractGuidelineRequest,
    SettlePairRequest,
    SimulatedCrowd,
    UpdateGuidelineRequest,
)
from tutti.contracts.common.v1 import CancelRequest, GetRequest
from tutti.contracts.options.v1 import ROLE_ANNOTATOR
from tutti.corpus.conversations.labels import EXPECTED
from tutti.records.canonical import content_digest

TEXT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
HOUR, LONGEST_HOURS = 3600, 366 * 24
USERS = "users/"


def extend(group: click.Group) -> None:
    """Add what changes a campaign to the group `campaigns`."""
    for command in (
        create,
        import_,
        clone,
        invite,
        pause,
        resume,
        extend_,
        close,
        cancel,
        guideline,
        guidelines,
        retract_guideline,
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
    _print(made, output, f"{made.name} was created; {invite_first}`tutti campaigns show {name}` says how it goes on")


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
        guideline=_text(guideline),
        axes=[Axis(name=name, rule=rule) for name, _, rule in (each.partition("=") for each in axes)],
        crowd=CROWD_SIMULATED if crowd else CROWD_PEOPLE,
        overlap=Overlap(least=least, most=most or 0),
        controls=controls,
        judgements=judgements,
        deadline_seconds=round(deadline_hours * HOUR),
        seed=secrets.randbelow(1 << 53) if seed is None else seed,
        qualification=Qualification(pairs=qualification[0], right=qualification[1]),
        qualifying=_text(qualifying) if qualifying else "",
        filler=filler,
        warning=warning,
    )
    if crowd is not None:
        spec.simulated.CopyFrom(SimulatedCrowd(annotators=annotators, crowd=_text(crowd)))
    return spec


def _source(client: Client, name: str) -> AnswerSource:
    sample = get_one(client, "samples", resolved(client, "samples", name))
    if not sample.result.content_digest:
        raise Failure(f"{sample.name} is not done: wait for it, or choose another one of `tutti samples ls`", MISUSE)
    return AnswerSource(
        sample=sample.name, manifest_key=sample.result.manifest_key, content_digest=sample.result.content_digest
    )


def _filled(path: Path) -> str:
    if not (text := _text(path)).strip():
        raise Failure(f"{path} is empty: expected JSON lines with `prompt` and two `answers`", MISUSE)
    return text


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read as text: {error}", MISUSE) from error


IMPORTED = "Judgements that were made elsewhere."
"""The guideline of an import without one: it names no file, so that a renamed file gives the same judgements."""


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
    text = _text(guideline) if guideline else IMPORTED
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


@click.command("invite", short_help="Print a link for each annotator.")
@click.argument("campaign")
@click.argument("names", nargs=-1, required=True)
@output_option
@connection_options
def invite(campaign: str, names: tuple[str, ...], output: str, **where: Any) -> None:
    """Invite annotators to CAMPAIGN and print a link for each: it logs in once and opens the campaign.

    NAMES are people, for whom users are created, or users that exist (users/…). A link expires after seven days, or
    after ten minutes for a user who has logged in before.

    \b
    tutti campaigns invite trial "Ada Example" "Bob Example"
    tutti campaigns invite trial users/u4k2m7qx9c
    """
    from tutti.chassis.config.datadir import LOOPBACK

    rows = list[Plain]()
    with connected(**where) as client:
        base = pages_of(client, "annotation")
        found = get_one(client, "campaigns", resolved(client, "campaigns", campaign))
        _check_invited(client, found, names)
        try:
            for each in names:
                rows.append(_invited(client, base, found, each))
                if output != JSON:
                    _print_link(rows[-1])
            if urlsplit(base).hostname in LOOPBACK:
                say("these links open on the machine of the platform only; for other machines, set web.public_url")
        finally:  # a link is shown once: those that were made are not lost with the rest
            if output == JSON:
                print_json(rows)


def _check_invited(client: Client, campaign: Campaign, names: Sequence[str]) -> None:
    """Raises Failure for a user who could not open the campaign, Problem where nobody can be invited, before anybody
    is.
    """
    for name in names:
        if not name.startswith(USERS):
            continue
        user = client.access.GetUser(GetRequest(name=name))
        if user.tenant != campaign.tenant:
            words = f"{name} belongs to {user.tenant}, {campaign.name} to {campaign.tenant}"
            raise Failure(f"{words}: invite somebody of that tenant", MISUSE)
        if user.state == USER_STATE_DISABLED:
            raise Failure(f"{name} is disabled: invite somebody else", MISUSE)
    anybody = InviteAnnotatorRequest(campaign=campaign.name, user="users/anybody", validate_only=True)
    client.annotation.InviteAnnotator(anybody)


def _invited(client: Client, base: str, campaign: Campaign, name: str) -> Plain:
    user = name if name.startswith(USERS) else _user(client, campaign, name)
    request = InviteAnnotatorRequest(request_id=fresh_id(), campaign=campaign.name, user=user)
    made = client.annotation.InviteAnnotator(request)
    link = new_link(client, base, f"/annotation/{campaign.name.removeprefix('campaigns/')}", user)
    return {"annotator": made.key, "name": name, "user": user, "url": link.url, "expires_at": link.expires_at}


def _print_link(row: Plain) -> None:
    click.echo(row["url"])
    say(f"this link is for {row['name']}, annotator {row['annotator']}; it works once, until {row['expires_at']}")


def _user(client: Client, campaign: Campaign, name: str) -> str:
    request = CreateUserRequest(
        request_id=fresh_id(), display_name=name, roles=[ROLE_ANNOTATOR], tenant=campaign.tenant
    )
    return str(client.access.CreateUser(request).user.name)


@click.command("pause", help="Give out no new pairs; accept judgements of given ones.")
@click.argument("campaign")
@output_option
@connection_options
def pause(campaign: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        request = PauseCampaignRequest(request_id=fresh_id(), name=resolved(client, "campaigns", campaign))
        found = client.annotation.PauseCampaign(request)
    _print(found, output, f"{found.name} is paused; `tutti campaigns resume {campaign}` goes on")


@click.command("resume", help="Give out pairs again.")
@click.argument("campaign")
@output_option
@connection_options
def resume(campaign: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        request = ResumeCampaignRequest(request_id=fresh_id(), name=resolved(client, "campaigns", campaign))
        found = client.annotation.ResumeCampaign(request)
    _print(found, output, f"{found.name} is open")


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
    _print(found, output, f"{found.name} {'would collect' if dry_run else 'collects'} {words}")


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
    _print(made, output, f"{made.name} {words}")


@click.command("close", help="Stop accepting judgements, and publish the existing ones.")
@click.argument("campaign")
@output_option
@connection_options
def close(campaign: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        request = CloseCampaignRequest(request_id=fresh_id(), name=resolved(client, "campaigns", campaign))
        found = client.annotation.CloseCampaign(request)
    _print(found, output, f"{found.name} is closed with {found.judgements:,} judgements")


@click.command("cancel", help="End a campaign without a result; its judgements are kept.")
@click.argument("campaign")
@output_option
@connection_options
def cancel(campaign: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        request = CancelRequest(request_id=fresh_id(), name=resolved(client, "campaigns", campaign))
        found = client.annotation.CancelCampaign(request)
    state = word(CampaignState.DESCRIPTOR, CampaignState.Name(found.state))
    _print(found, output, f"{found.name} is {state}" + ("" if state == "cancelled" else "; nothing was changed"))


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
    text = _text(file)
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
    _print(found, output, f"{found.name} {words}")


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


def _print(campaign: Campaign, output: str, words: str) -> None:
    if output == JSON:
        print_one(plain(campaign), output)
    else:
        click.echo(words)
