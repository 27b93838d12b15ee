"""`tutti agent`: how another machine joins the platform as a node."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import click

from tutti.access.commands.newtokens import NewToken
from tutti.chassis.config.datadir import DataDir, config_in
from tutti.chassis.errors import Unavailable
from tutti.chassis.identity.auth import NODE, Role, Tokens
from tutti.chassis.rpc.usertokens import INVITATION, JOINED
from tutti.cli.connection import AUTHORITY, connection_options, data_dir_option, trusted
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.cli.suggestions import SuggestingGroup
from tutti.client import connect
from tutti.client.client import TOKEN_VARIABLE
from tutti.client.resources import full_name
from tutti.contracts.access.v1 import InviteNodeRequest, InviteNodeResponse, JoinNodeRequest, JoinNodeResponse
from tutti.web.tokens import digest

LOOPBACK = ("127.0.0.1", "[::1]", "localhost")
CALLED = ("committer", "sampling", "scheduler")
TOKENS, AUTHORITIES = "agent.tokens", "ca.pem"


@click.group(cls=SuggestingGroup, help="Machines that train: invite one, or join as one.")
def agent() -> None: ...


@agent.command("invite", short_help="Print an invitation for a machine that joins as NODE.")
@click.argument("node")
@click.option(
    "--minutes", type=click.IntRange(1, 7 * 24 * 60), default=60, show_default=True, help="Time until it expires."
)
@output_option
@connection_options
def invite(node: str, minutes: int, output: str, **where: Any) -> None:
    """Print a token that one machine may exchange once for the credential of NODE.

    \b
    tutti agent invite gpu-7
    TUTTI_TOKEN=... tutti agent join gpu-7 --address tutti.example:7600 --tls-ca ca.pem     # there
    """
    made = NewToken(INVITATION)
    request = InviteNodeRequest(token_digest=made.digest, node=full_name("nodes", node), valid_minutes=minutes)

    def words(invited: InviteNodeResponse, until: str) -> str:
        join = f"tutti agent join {invited.node.removeprefix('nodes/')}"
        return f"it is good once, for {invited.node}, until {until}; on that machine: TUTTI_TOKEN=… {join}"

    made.issue(lambda client: client.access.InviteNode(request), "node", output, words, **where)


@agent.command("join", short_help="Exchange an invitation for the credential of NODE, on the machine that joins.")
@click.argument("node")
@click.option("--address", required=True, envvar="TUTTI_ADDRESS", help="host:port of the platform's front door.")
@click.option(
    "--tls-ca",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="TUTTI_TLS__CA",
    help="PEM file of the authority that certified the platform.",
)
@click.option(
    "--reached-at", default="127.0.0.1", show_default=True, help="Address at which ranks of other nodes reach this one."
)
@click.option("--plaintext", is_flag=True, help="Send secrets to another machine without TLS.")
@data_dir_option
@output_option
def join(
    node: str, address: str, tls_ca: Path | None, reached_at: str, plaintext: bool, data_dir: Path, output: str
) -> None:
    """Exchange the invitation in TUTTI_TOKEN for the credential of NODE, and write the settings of its agent.

    The credential is made here and stays in the data directory (mode 0600); the platform keeps its digest. It is good
    for this node alone. The last line that is printed starts the agent.
    """
    name = node.removeprefix("nodes/")
    _check(name, address, data_dir, tls=tls_ca is not None, plaintext=plaintext)
    folder = DataDir(data_dir)
    credential = _credential(folder)
    invitation = os.environ[TOKEN_VARIABLE]
    click.get_current_context().meta[AUTHORITY] = str(tls_ca or "")
    request = JoinNodeRequest(
        invitation_digest=digest(invitation), token_digest=digest(credential), node=f"nodes/{name}"
    )
    client = connect(address=address, tls=trusted(None))
    try:
        joined = client.access.JoinNode(request)
    except Unavailable as error:
        raise Failure(f"{error.message}; repeat the command with the same invitation") from error
    finally:
        client.close()
    if tls_ca:
        folder.write(AUTHORITIES, tls_ca.read_bytes())
    folder.write_private("tutti.toml", _settings(folder, address, reached_at, joined, tls=tls_ca is not None))
    started = f"python -P -m tutti.trainer --data-dir {shlex.quote(str(data_dir))} --node {name}"
    if output == JSON:
        print_json({"node": joined.node, "expires_at": joined.expires_at.ToJsonString(), "start": started})
        return
    say(f"joined as {joined.node}, until {joined.expires_at.ToJsonString()}")
    if not joined.blobs_url:
        say(f'the platform named no blob store: add [blobs] url = "s3://…" to {folder.path / "tutti.toml"}')
    click.echo(started)


def _check(name: str, address: str, data_dir: Path, *, tls: bool, plaintext: bool) -> None:
    """Raise Failure for what would waste the invitation, or give it away."""
    if not NODE.fullmatch(name):
        raise Failure(f"{name!r} names no node: expected lower-case letters, digits and ._-", MISUSE)
    if not os.environ.get(TOKEN_VARIABLE, "").startswith(INVITATION):
        raise Failure(f"set {TOKEN_VARIABLE} to the invitation that `tutti agent invite {name}` printed", MISUSE)
    if (config := config_in(data_dir)) is not None:
        raise Failure(f"{config} exists: give another directory with --data-dir, or remove it", MISUSE)
    if not tls and not plaintext and address.rpartition(":")[0] not in LOOPBACK:
        raise Failure(
            f"{address} is another machine, and without TLS others can read the invitation and the credential on the "
            f"way: name the platform's authority with --tls-ca, or give --plaintext",
            MISUSE,
        )


def _credential(folder: DataDir) -> str:
    """The credential of this directory, kept before it is used, so that a lost answer can be asked for again."""
    path = folder.path / TOKENS
    if not path.exists():
        folder.write_private(TOKENS, Tokens({Role.AGENT: NewToken(JOINED).text}).text().encode())
    return Tokens.parse(path.read_text(), [Role.AGENT]).of(Role.AGENT)


def _settings(folder: DataDir, address: str, reached_at: str, joined: JoinNodeResponse, *, tls: bool) -> bytes:
    """The settings of the agent as TOML, whose strings are written as those of JSON."""
    tables = {"services": dict.fromkeys(CALLED, address), "trainer": {"address": reached_at}}
    tables["rpc"] = {"tokens": str(folder.path / TOKENS)}
    if tls:
        tables["tls"] = {"ca": str(folder.path / AUTHORITIES)}
    if joined.blobs_url:
        tables["blobs"] = {"url": joined.blobs_url}
    lines = []
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return ("\n".join(lines) + "\n").encode()
