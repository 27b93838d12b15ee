"""`tutti annotators`: who judges in a campaign, and how reliably."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.numbers import FiniteRange
from tutti.cli.output import JSON, output_option, print_json, print_list, say
from tutti.cli.suggestions import SuggestingGroup
from tutti.client.plain import Plain, plain
from tutti.contracts.annotation.v1 import (
    ANNOTATOR_STATE_INVITED,
    AnnotatorState,
    AnswerMessageRequest,
    EraseAnnotatorRequest,
    FitSource,
    ListAnnotatorsRequest,
    ListMessagesRequest,
    RequalifyAnnotatorRequest,
    RetractAnnotatorRequest,
    WeighAnnotatorRequest,
)
from tutti.judgements import LEAST_CONTROLS, LEAST_RESTYLED
from tutti.judgements.habits import unread

BIASES = {
    "position": ("controls", LEAST_CONTROLS),
    "length": ("controls", LEAST_CONTROLS),
    "format": ("restyled", LEAST_RESTYLED),
}
"""Each bias, with the field of the controls that identify it, and how many are enough."""
ESTIMATES = ("sharpness", *BIASES)
COLUMNS = ("key", "user", "state", "judged", "controls", "fast", "skipped", "hours", *ESTIMATES, "weight", "reason")


@click.group(cls=SuggestingGroup, help="Annotators of a campaign: counts, reliability, biases.")
def annotators() -> None: ...


@annotators.command("ls", short_help="List the annotators of a campaign.")
@click.argument("campaign")
@output_option
@connection_options
def ls(campaign: str, output: str, **where: Any) -> None:
    """List the annotators of CAMPAIGN.

    Sharpness says how reliably the better answer is chosen; position is the leaning to the left answer, length that to
    the longer one, format that to the one with more formatting, if answers differ in it. Each has its standard error.
    They come from the newest preferences of the campaign, or before there are any from a live fit, which is not
    published. With fewer than ten control pairs, position and length are not identified, and with fewer than five in
    two formats, format is not.

    A weight is proposed where a tenth of the judgements or more were too fast, or where a run of one score is longer
    than chance explains: the share of the other judgements. `tutti annotators weight` sets it; nothing else does.

    Annotators that judge more than 60 characters of answers a second (the median over 20 judgements or more, by their
    times of arrival) get no completion code, and the last column says so. Their judgements are kept.
    """
    with connected(**where) as client:
        request = ListAnnotatorsRequest(campaign=resolved(client, "campaigns", campaign))
        found = client.annotation.ListAnnotators(request)
    rows = [plain(each) for each in found.annotators]
    if output != JSON:
        rows = [_brief(row) for row in rows]
    print_list(rows, COLUMNS, output, nothing="nobody was invited yet; `tutti campaigns invite` does that")
    if found.HasField("fit"):
        for line in _fit(found.fit):
            say(line)


def _brief(row: Plain) -> Plain:
    """Estimates as `1.52 ± 0.30`, empty without a fit, with a remark where too few controls identify them; the weight
    that was set, with the one that is proposed.
    """
    shown = {name: _estimate(row.get(name)) for name in ESTIMATES}
    for name, (controls, least) in BIASES.items():
        if shown[name] and int(row.get(controls) or 0) < least:
            shown[name] += " (few controls)"
    weight, proposed = _set_weight(row), row.get("proposed_weight")
    is_proposed = proposed is not None and proposed < weight
    proposal, fast = row.get("proposal") if is_proposed else "", unread(row.get("characters_a_second"))
    reasons = (row.get("reason"), row.get("weight_reason"), proposal, fast)
    shown["weight"] = f"{weight:g} ({proposed:g} proposed)" if is_proposed else f"{weight:g}"
    shown["hours"] = f"{row['hours']:.2f}" if row.get("hours") is not None else ""
    return {**row, **shown, "reason": "; ".join(each for each in reasons if each)}


def _fit(source: FitSource) -> list[str]:
    """The source of estimates in words, and what their judgements cannot determine."""
    name = f"estimates of {source.preferences}" if source.preferences else "live estimates, not published"
    at = source.fitted_at.ToDatetime()
    lines = [f"{name}, fitted to {source.judgements:,} judgements at {at:%Y-%m-%d %H:%M:%S} UTC"]
    return lines + [f"not identified: {each}" for each in source.unidentified]


def _set_weight(row: Plain) -> float:
    found = row.get("set_weight")
    return 1.0 if found is None else float(found)


def _estimate(value: Any) -> str:
    return f"{value['value']:.2f} ± {value['error']:.2f}" if value else ""


@annotators.command("requalify", short_help="Let an annotator take the qualification again.")
@click.argument("campaign")
@click.argument("key")
@output_option
@connection_options
def requalify(campaign: str, key: str, output: str, **where: Any) -> None:
    """Let annotator KEY take the qualification of CAMPAIGN again, after it was not passed.

    The same pairs are shown again. The earlier answers are kept and do not count.

    \b
    tutti annotators ls trial
    tutti annotators requalify trial a003
    """
    with connected(**where) as client:
        request = RequalifyAnnotatorRequest(
            request_id=fresh_id(), campaign=resolved(client, "campaigns", campaign), key=key
        )
        found = client.annotation.RequalifyAnnotator(request)
    if output == JSON:
        print_json(plain(found))
    elif found.state == ANNOTATOR_STATE_INVITED:
        click.echo(f"annotator {found.key} of {found.campaign} takes the qualification again")
    else:
        state = AnnotatorState.Name(found.state).removeprefix("ANNOTATOR_STATE_").lower()
        click.echo(f"annotator {found.key} of {found.campaign} is {state}; nothing was changed")


@annotators.command("retract", short_help="Remove the judgements of an annotator from a campaign.")
@click.argument("campaign")
@click.argument("key")
@click.option("--reason", required=True, help="Reason, which the annotator sees.")
@output_option
@connection_options
def retract(campaign: str, key: str, reason: str, output: str, **where: Any) -> None:
    """Take the judgements of annotator KEY out of CAMPAIGN; they are kept, and counted no more.

    While the campaign is open others are given the pairs. Judgements that were published are published anew without
    them; the next run of the recipe fits preferences anew, and trains what follows from them.

    \b
    tutti annotators ls trial
    tutti annotators retract trial a003 --reason "answered without reading"
    """
    with connected(**where) as client:
        request = RetractAnnotatorRequest(
            request_id=fresh_id(), campaign=resolved(client, "campaigns", campaign), key=key, reason=reason
        )
        found = client.annotation.RetractAnnotator(request)
    if output == JSON:
        print_json(plain(found))
    else:
        click.echo(f"annotator {found.key} of {found.campaign} is retracted")


@annotators.command("weight", short_help="Set the weight of an annotator in fits.")
@click.argument("campaign")
@click.argument("key")
@click.option(
    "--weight", type=FiniteRange(0, 1), required=True,
    help="From 0, for judgements that are not fitted, to 1, for those that count fully.",
)  # fmt: skip
@click.option("--reason", default="", help="Reason, which the annotator sees; required below 1.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@output_option
@connection_options
def weight(campaign: str, key: str, weight: float, reason: str, dry_run: bool, output: str, **where: Any) -> None:
    """Set the weight that the judgements of annotator KEY of CAMPAIGN have when preferences are fitted.

    The annotator sees the weight and the reason, and can object with a message. Judgements that were published are
    published anew with the weight and the reason, so write nothing personal; the next run of the recipe fits
    preferences anew, and trains what follows from them. Undo it with --weight 1.

    \b
    tutti annotators weight trial a003 --weight 0.5 --reason "the same key for an hour" --dry-run
    tutti annotators weight trial a003 --weight 1
    """
    with connected(**where) as client:
        name = resolved(client, "campaigns", campaign)
        listed = client.annotation.ListAnnotators(ListAnnotatorsRequest(campaign=name)).annotators
        before = next((each for each in listed if each.key == key), None)
        if before is None:
            raise Failure(f"{name} has no annotator {key}: `tutti annotators ls {campaign}` lists them")
        request = WeighAnnotatorRequest(
            request_id=fresh_id(), campaign=name, key=key, weight=weight, reason=reason, validate_only=dry_run
        )
        found = client.annotation.WeighAnnotator(request)
    if output == JSON:
        print_json(plain(found))
        return
    judgements = f"{before.judged + before.controls} judgements of {key} of {name}"
    was = "would get" if dry_run else "have"
    click.echo(f"the {judgements} {was} the weight {found.set_weight:g}, instead of {_set_weight(plain(before)):g}")


@annotators.command("erase", short_help="Delete what an annotator wrote in words.")
@click.argument("campaign")
@click.argument("key")
@click.option("--dry-run", is_flag=True, help="Count, and delete nothing.")
@output_option
@connection_options
def erase(campaign: str, key: str, dry_run: bool, output: str, **where: Any) -> None:
    """Delete the comments, messages and demonstrations of annotator KEY of CAMPAIGN; this cannot be undone.

    Judgements are kept, which have no text: `tutti annotators retract` takes them out. Demonstrations that were
    published are in an immutable version.

    \b
    tutti annotators erase trial a003 --dry-run
    """
    with connected(**where) as client:
        request = EraseAnnotatorRequest(
            request_id=fresh_id(), campaign=resolved(client, "campaigns", campaign), key=key, validate_only=dry_run
        )
        found = client.annotation.EraseAnnotator(request)
    if output == JSON:
        print_json(plain(found))
    else:
        counts = f"{found.comments} comments, {found.messages} messages, {found.demonstrations} demonstrations"
        click.echo(f"{counts} of {found.key} of {found.campaign} {'would be' if dry_run else 'are'} deleted")


@annotators.command("messages", short_help="List what annotators wrote to the owner.")
@click.argument("campaign")
@output_option
@connection_options
def messages(campaign: str, output: str, **where: Any) -> None:
    """List what annotators of CAMPAIGN wrote to its owner, with the answers.

    \b
    tutti annotators messages trial
    tutti annotators answer trial ID "Both answers may be long."
    """
    with connected(**where) as client:
        request = ListMessagesRequest(campaign=resolved(client, "campaigns", campaign))
        found = client.annotation.ListMessages(request).messages
    columns = ("id", "annotator", "text", "answer")
    print_list([plain(each) for each in found], columns, output, nothing="no annotator has written")


@annotators.command("answer", short_help="Answer a message of an annotator.")
@click.argument("campaign")
@click.argument("message")
@click.argument("text")
@output_option
@connection_options
def answer(campaign: str, message: str, text: str, output: str, **where: Any) -> None:
    """Answer MESSAGE, the id of a message about CAMPAIGN; its writer sees TEXT. A later answer replaces an earlier one.

    \b
    tutti annotators messages trial
    tutti annotators answer trial ID "Both answers may be long."
    """
    with connected(**where) as client:
        request = AnswerMessageRequest(
            request_id=fresh_id(), campaign=resolved(client, "campaigns", campaign), id=message, text=text
        )
        found = client.annotation.AnswerMessage(request)
    if output == JSON:
        print_json(plain(found))
    else:
        click.echo(f"{found.annotator} of {found.campaign} is answered")
