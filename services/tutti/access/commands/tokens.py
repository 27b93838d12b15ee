"""`tutti token`: what programs and people call the platform with, from its creation to its end."""

from typing import Any

import click

from tutti.access.commands.newtokens import NewToken
from tutti.chassis.identity.auth import USERS
from tutti.chassis.rpc.usertokens import PREFIX
from tutti.cli.connection import connected, connection_options
from tutti.cli.output import JSON, output_option, print_json, print_list
from tutti.cli.suggestions import SuggestingGroup
from tutti.client.plain import Plain, plain
from tutti.client.resources import full_name
from tutti.contracts.access.v1 import (
    IssueTokenRequest,
    ListTokensRequest,
    ListUsageRequest,
    RevokeTokenRequest,
    TokenKind,
)
from tutti.contracts.access.v1 import Token as WireToken

ROLES = tuple(role.value for role in USERS)
USED = ("day", "token", "user", "requests", "prompt_tokens", "completion_tokens")
COLUMNS = ("id", "kind", "owner", "state", "created_by", "created_at", "expires_at")


@click.group(cls=SuggestingGroup, help="Tokens of users, programs and agents: create, list, revoke.")
def token() -> None: ...


@token.command("create", short_help="Print a token with which a user or a program calls the platform.")
@click.option("--role", type=click.Choice(ROLES), help="For a program with this role.")
@click.option("--user", help="For this user, with the roles of that user.")
@click.option("--days", type=click.IntRange(1, 366), default=90, show_default=True, help="Time until it expires.")
@output_option
@connection_options
def create(role: str | None, user: str | None, days: int, output: str, **where: Any) -> None:
    """Print a token for the command line and the Python client. It is shown only once; the platform stores its digest.

    \b
    tutti token create --role engineer --days 30
    tutti token create --role client -o json            # asks models for answers over HTTP, and nothing else
    TUTTI_TOKEN=... tutti runs ls --address 127.0.0.1:7000
    """
    if (role is None) == (user is None):
        raise click.UsageError("give either --role or --user")
    made = NewToken(PREFIX)
    owner = f"users/{role}" if role else full_name("users", user or "")
    request = IssueTokenRequest(token_digest=made.digest, user=owner, valid_days=days)
    made.issue(
        lambda client: client.access.IssueToken(request),
        "user",
        output,
        lambda issued, until: f"this token is of {issued.user}, until {until}",
        **where,
    )


@token.command("ls", help="List tokens with their owners and validity, newest first.")
@output_option
@connection_options
def ls(output: str, **where: Any) -> None:
    with connected(**where) as client:
        found = client.access.ListTokens(ListTokensRequest()).tokens
    nothing = "no tokens yet; `tutti token create --role engineer` prints one"
    print_list([_row(each) for each in found], COLUMNS, output, nothing=nothing)


@token.command("usage", short_help="Show what the answers of models cost, by token and day.")
@click.argument("id", default="")
@click.option("--user", default="", help="Only tokens and sessions of this user.")
@click.option("--since", default="", metavar="DAY", help="From this day on (UTC), such as 2026-11-29.")
@output_option
@connection_options
def usage(id: str, user: str, since: str, output: str, **where: Any) -> None:
    """Show the requests that were admitted, and the tokens of their prompts and answers, by token and by day (UTC).

    An answer counts its tokens when it has ended. Without ID, all tokens are listed, and sessions of users, which have
    no token. Operators see all of them, others their own.

    \b
    tutti token usage
    tutti token usage 3f9a0c1d2e4b5a67 --since 2026-11-01
    """
    request = ListUsageRequest(user=full_name("users", user) if user else "", token=id, since=since)
    with connected(**where) as client:
        found = client.access.ListUsage(request).usage
    print_list([plain(each) for each in found], USED, output, nothing="no answers were asked for")


@token.command("revoke", help="Refuse the token ID from now on.")
@click.argument("id")
@output_option
@connection_options
def revoke(id: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        found = client.access.RevokeToken(RevokeTokenRequest(id=id))
    if output == JSON:
        print_json(_row(found))
    else:
        click.echo(f"the token {found.id} of {found.owner} is revoked; services refuse it within 5 s")
        for each in found.issued:
            kind = _kind(each)
            click.echo(f"it issued the {kind} {each.id} of {each.owner}, which is still valid", err=True)


def _row(wire: WireToken) -> dict[str, Plain]:
    return plain(wire) | {"kind": _kind(wire), "issued": [_row(each) for each in wire.issued]}


def _kind(wire: WireToken) -> str:
    return TokenKind.Name(wire.kind).removeprefix("TOKEN_KIND_").lower()
