"""Annotators invited to a campaign: `tutti campaigns invite`."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.cli.pages import new_link, pages_of
from tutti.client import Client
from tutti.client.plain import Plain
from tutti.client.resources import get_one
from tutti.contracts.access.v1 import USER_STATE_DISABLED, CreateUserRequest
from tutti.contracts.annotation.v1 import (
    Campaign,
    InviteAnnotatorRequest,
)
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.options.v1 import ROLE_ANNOTATOR

USERS = "users/"


def extend(group: click.Group) -> None:
    """Add the commands to the group `campaigns`."""
    group.add_command(invite)


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
