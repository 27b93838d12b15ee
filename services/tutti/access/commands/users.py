"""`tutti users`: who may use the pages."""

from typing import Any

import click

from tutti.chassis.identity.auth import USERS
from tutti.cli.connection import connected, connection_options
from tutti.cli.identity import fresh_id
from tutti.cli.output import JSON, output_option, print_json, print_list, say, say_damaged
from tutti.cli.pages import new_link, pages_of
from tutti.cli.suggestions import SuggestingGroup
from tutti.client import Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import full_name
from tutti.contracts.access.v1 import CreateUserRequest, DisableUserRequest, EraseUserRequest
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.options.v1 import Role

ROLES = tuple(role.value for role in USERS)


@click.group(cls=SuggestingGroup, help="Users of the web pages: add, list, invite, disable, erase.")
def users() -> None: ...


@users.command("add", short_help="Create a user and print an invitation link.")
@click.argument("name")
@click.option(
    "--role", "roles", multiple=True, type=click.Choice(ROLES), required=True, help="May be given more than once."
)
@click.option(
    "--tenant", default="", help="Tenant of the user; a name that nobody used is a new one.  [default: default]"
)
@output_option
@connection_options
def add(name: str, roles: tuple[str, ...], tenant: str, output: str, **where: Any) -> None:
    """Create a user called NAME and print a link that logs the user in once.

    The link expires after seven days; `tutti users invite` prints another one. NAME is shown on pages only: everywhere
    else the user is known by an opaque id.

    \b
    tutti users add "Ada Example" --role engineer
    """
    with connected(**where) as client:
        wanted = [Role.Value(f"ROLE_{role.upper()}") for role in roles]
        request = CreateUserRequest(
            request_id=fresh_id(),
            display_name=name,
            roles=wanted,
            tenant=full_name("tenants", tenant) if tenant else "",
        )
        user = client.access.CreateUser(request).user
        _show_invitation(client, user.name, output)


@users.command("invite", help="Print another login link for a user.")
@click.argument("user")
@output_option
@connection_options
def invite(user: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        _show_invitation(client, full_name("users", user), output)


@users.command("ls", help="List users.")
@output_option
@connection_options
def ls(output: str, **where: Any) -> None:
    rows, token = list[Plain](), ""
    with connected(**where) as client:
        while True:
            page = client.access.ListUsers(ListRequest(page_size=500, page_token=token))
            rows += [plain(user) | {"display_name": page.display_names.get(user.name, "")} for user in page.users]
            for each in page.damaged:
                say_damaged(each)
            if not (token := page.next_page_token):
                break
    if output != JSON:
        rows = [row | {"roles": ", ".join(row["roles"])} for row in rows]
    columns = ("name", "display_name", "roles", "tenant", "state", "created_at")
    print_list(rows, columns, output, nothing="no users yet; `tutti open` and `tutti users add` create them")


@users.command("disable", help="End all sessions of a user, and refuse the user from now on.")
@click.argument("user")
@output_option
@connection_options
def disable(user: str, output: str, **where: Any) -> None:
    with connected(**where) as client:
        found = client.access.DisableUser(DisableUserRequest(request_id=fresh_id(), name=full_name("users", user)))
    if output == JSON:
        print_json(plain(found))
    else:
        click.echo(f"{found.name} is disabled")


@users.command("erase", short_help="Delete the name and conversations of a user, and refuse the user from now on.")
@click.argument("user")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@output_option
@connection_options
def erase(user: str, dry_run: bool, output: str, **where: Any) -> None:
    """Delete the name of USER, and all sessions, links and tokens; this cannot be undone.

    The conversations of USER are deleted soon after; they are not counted. The opaque id stays in the audit trail and
    at what the user made, and names nobody any more. Before, delete what an annotator wrote in words with `tutti
    annotators erase`.

    \b
    tutti users erase users/u2607c6b0da92696202f --dry-run
    """
    with connected(**where) as client:
        request = EraseUserRequest(request_id=fresh_id(), name=full_name("users", user), validate_only=dry_run)
        found = client.access.EraseUser(request)
    if output == JSON:
        print_json(plain(found))
        return
    name = f'the name "{found.display_name}"' if found.display_name else "no name"
    counts = f"{name}, {found.sessions} sessions, {found.links} links and {found.tokens} tokens"
    click.echo(f"{counts} of {found.name} {'would be' if dry_run else 'are'} deleted")


def _show_invitation(client: Client, user: str, output: str) -> None:
    link = new_link(client, pages_of(client, "pipeline"), "/", user)
    if output == JSON:
        print_json({"user": user, "url": link.url, "expires_at": link.expires_at})
        return
    click.echo(link.url)
    say(f"this link logs {user} in once, until {link.expires_at}")
