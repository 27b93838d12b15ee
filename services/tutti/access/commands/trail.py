"""`tutti audit`: who changed what, who was refused, what failed, and whether anybody changed that record."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.output import JSON, output_option, print_json, print_list, say, say_damaged
from tutti.cli.suggestions import SuggestingGroup
from tutti.client.plain import plain
from tutti.contracts.admin.v1 import (
    AcknowledgeAuditRequest,
    DescribeRequest,
    ListAuditRecordsRequest,
    VerifyAuditRequest,
)

COLUMNS = ("at", "user", "outcome", "action", "resource", "address", "reason", "times")
VERDICTS = ("service", "verdict", "batches", "records", "unsealed", "acknowledged", "head")
DIFFERENCES = ("place", "fits", "message")
VERIFY_SECONDS = 300.0


@click.group(cls=SuggestingGroup, invoke_without_command=True, short_help="Show who changed what, and who was refused.")
@click.option("--service", default="", help="Only the records of this service.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Records a service.")
@output_option
@connection_options
@click.pass_context
def audit(context: click.Context, /, service: str, limit: int, output: str, **where: Any) -> None:
    """Show the newest records of the audit trail, newest first.

    A change is recorded with the user who asked for it, also where one service asked another; so is one that was
    refused or failed, with the reason. Those that repeat within a minute are counted in one record. `tutti audit
    verify` says whether records were changed or removed.
    """
    if context.invoked_subcommand is not None:
        return
    with connected(**where) as client:
        found = client.admin.ListAuditRecords(ListAuditRecordsRequest(service=service, limit=limit))
    print_list([plain(each) for each in found.records], COLUMNS, output, nothing="nothing was recorded yet")
    for each in found.damaged:
        say_damaged(each)


@audit.command("verify", short_help="Compare the audit trail with its seals.")
@click.option("--service", default="", help="Only the trail of this service.")
@click.option("--expect", multiple=True, metavar="SERVICE=HEAD", help="A head that an earlier verification printed.")
@output_option
@connection_options
def verify(service: str, expect: tuple[str, ...], output: str, **where: Any) -> None:
    """Compare the records of each service with the batches in the blob store, in which each names the one before.

    Exits with 1 where a record or a batch was changed or removed. Write the heads down elsewhere: with --expect, a
    later verification also finds that the newest batches were removed.

    \b
    tutti audit verify
    tutti audit verify --service scheduler --expect scheduler=12:blake3:9b…
    """
    heads = dict(each.partition("=")[::2] for each in expect)
    if bad := [each for each in expect if ":" not in each.partition("=")[2]]:
        raise click.UsageError(f"--expect {bad[0]}: expected SERVICE=NUMBER:DIGEST")
    with connected(**where) as client:
        names = (
            [service] if service else sorted(each.name for each in client.admin.Describe(DescribeRequest()).services)
        )
        found = [
            client.admin.VerifyAudit(VerifyAuditRequest(service=name, head=heads.get(name, "")), timeout=VERIFY_SECONDS)
            for name in names
        ]
    problems = [f"{each.service}: {problem}" for each in found for problem in each.problems]
    if output == JSON:
        print_json([plain(each) for each in found])
    else:
        rows = [plain(each) | {"verdict": "CHANGED" if each.problems else "unchanged"} for each in found]
        print_list(rows, VERDICTS, output, nothing="no service answers")
    if problems:
        raise Failure("the audit trail was changed:\n  " + "\n  ".join(problems))


@audit.command("acknowledge", short_help="Say that differences in the audit trail are known.")
@click.argument("service")
@click.option("--differences", default="", metavar="DIGEST", help="Acknowledge them: the digest that was printed.")
@output_option
@connection_options
def acknowledge(service: str, differences: str, output: str, **where: Any) -> None:
    """Show the differences between the audit trail of SERVICE and its seals, or acknowledge them.

    A service seals nothing while there is a difference. Where the blob store or the database can be restored, do that
    instead. What is acknowledged is recorded in the audit trail with your name, and is no problem any more.

    \b
    tutti audit acknowledge scheduler                              # changes nothing
    tutti audit acknowledge scheduler --differences blake3:9b…     # as printed by the command above
    """
    with connected(**where) as client:
        if differences:
            request = AcknowledgeAuditRequest(service=service, differences_digest=differences)
            found = [plain(each) for each in client.admin.AcknowledgeAudit(request, timeout=VERIFY_SECONDS).differences]
            digest = ""
        else:
            verdict = client.admin.VerifyAudit(VerifyAuditRequest(service=service), timeout=VERIFY_SECONDS)
            found, digest = [plain(each) for each in verdict.differences], verdict.differences_digest
    if output == JSON:
        print_json({"differences": found, "digest": digest, "acknowledged": bool(differences)})
        return
    print_list(found, DIFFERENCES, output, nothing=f"the audit trail of {service} is unchanged")
    if digest:
        say(f"to acknowledge: tutti audit acknowledge {service} --differences {digest}")
