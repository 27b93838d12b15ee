"""Releases: verified by their signature, and taken back."""

import json
from pathlib import Path
from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.identity import fresh_id
from tutti.cli.output import JSON, output_option, print_json, print_one
from tutti.client.plain import plain
from tutti.client.resources import full_name, get_one
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    GetSigningKeyRequest,
    Release,
    RevokeReleaseRequest,
    Standing,
)
from tutti.records.manifest import Kind, Manifest


def extend(group: click.Group) -> None:
    """Add the verbs to the group `releases`."""

    @group.command("verify", short_help="Check signature, content and standing of a release.")
    @click.argument("name")
    @click.option(
        "--key",
        "path",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file with the public key, instead of asking the platform for it.",
    )
    @output_option
    @connection_options
    def verify(name: str, path: Path | None, output: str, **where: Any) -> None:
        """Check that release NAME was signed by this platform, says what was signed, and is active.

        Keep the key elsewhere, so that you need not trust the platform that you ask:

        \b
        tutti releases key > release.key
        tutti releases verify NAME --key release.key
        """
        with connected(**where) as client:
            found = get_one(client, "releases", name)
            key = path.read_text().strip() if path else client.releases.GetSigningKey(GetSigningKeyRequest()).key
        if wrong := problem(found, key):
            raise Failure(f"{found.name} does not verify: {wrong}")
        told = {"release": found.name, "checkpoint": found.checkpoint, "state_digest": found.state_digest}
        judged = {"simulated": found.simulated, "mixed": found.mixed}
        print_one({**told, "key": key, "evidence": len(found.evidence), **judged}, output)

    @group.command("key", short_help="Print the public key that verifies releases.")
    @connection_options
    def key(**where: Any) -> None:
        """Print the public key of the platform: Ed25519, in hexadecimal digits."""
        with connected(**where) as client:
            click.echo(client.releases.GetSigningKey(GetSigningKeyRequest()).key)

    @group.command("revoke", short_help="Revoke a release.")
    @click.argument("name")
    @click.option("--reason", required=True, help="Reason for the revocation.")
    @output_option
    @connection_options
    def revoke(name: str, reason: str, output: str, **where: Any) -> None:
        """Take release NAME back. It does not verify any more, and stays in the list with the reason."""
        with connected(**where) as client:
            request = RevokeReleaseRequest(request_id=fresh_id(), name=full_name("releases", name), reason=reason)
            found = client.releases.RevokeRelease(request)
        if output == JSON:
            print_json(plain(found))
        else:
            click.echo(f"{found.name} is revoked")


def problem(release: Release, key: str) -> str:
    """Return why a release does not verify by this public key; "" where it does."""
    from tutti.chassis.identity import signatures  # slow to import

    if release.state != STATE_DONE or release.standing != STANDING_ACTIVE:
        standing = Standing.Name(release.standing).removeprefix("STANDING_").lower()
        return f"it is {standing}, expected active; {release.reason or 'it is not decided yet'}"
    if not signatures.verifies(signatures.RELEASE, release.statement, release.signature, key):
        return f"its statement was not signed by the key {key}; it names the key {release.key}"
    body = json.loads(release.statement)
    if Manifest(Kind.RELEASE, body, (), "").content_digest != release.result.content_digest:
        return "its content is not what was signed"
    if body["state_digest"] != release.state_digest:
        return f"it is about the state {release.state_digest}, and {body['state_digest']} was signed"
    return ""
