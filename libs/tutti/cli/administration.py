"""Events, canonical export and the doctor: asked of every service, shown as one."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tutti.chassis.config.diskspace import little_left
from tutti.chassis.events import catalog
from tutti.chassis.rpc.kinds import owners
from tutti.chassis.rpc.verdict import examined
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import FAILED, MISUSE, Failure
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, print_json, print_list
from tutti.cli.suggestions import SuggestingGroup
from tutti.client import Client
from tutti.client.plain import Plain, plain
from tutti.contracts.admin.v1 import (
    DescribeRequest,
    DoctorRequest,
    DoctorResponse,
    ExportRequest,
    ListDeadLettersRequest,
    RepublishEventsRequest,
    SettleDeadLetterRequest,
    TailEventsRequest,
)
from tutti.records.counts import counted
from tutti.report.values import printable, shown

DOCTOR_SECONDS = 60.0  # longer than the looks at dependencies that hang, or that take half a second to answer


def services(client: Client) -> list[str]:
    return sorted(service.name for service in client.admin.Describe(DescribeRequest()).services)


@click.group(cls=SuggestingGroup, short_help="Show events and dead letters, and replay them.")
def events() -> None:
    """Events that services publish, and dead letters."""


@events.command("catalog")
@output_option
def show_catalog(output: str) -> None:
    """Every event: topic, key, kind, partitions, owner."""
    rows: list[Plain] = [
        {
            "type": entry.type,
            "topic": entry.topic,
            "kind": entry.kind.value,
            "key": entry.key,
            "partitions": entry.partitions,
            "owner": entry.owner,
        }
        for entry in catalog.every_event()
    ]
    print_list(rows, ("type", "topic", "kind", "key", "partitions", "owner"), output, nothing="no events")


@events.command("tail")
@click.argument("what", metavar="SERVICE|RESOURCE")
@click.option("-f", "--follow", is_flag=True, help="Continue with new events.")
@click.option("--after", default="", metavar="ID", help="Only events after the one with this id.")
@click.option("--limit", type=click.IntRange(min=1, max=10_000), default=50, show_default=True)
@output_option
@connection_options
def tail(what: str, follow: bool, after: str, limit: int, output: str, **where: Any) -> None:
    """Print the newest events of a service, or of one resource.

    \b
    tutti events tail scheduler
    tutti events tail jobs/latest --follow
    tutti events tail runs/TITLE --after ID -o json   # continue after the event with this id
    """
    plural, slash, _ = what.partition("/")
    with connected(**where) as client:
        request = TailEventsRequest(service=what, follow=follow, limit=limit, after=after)
        if slash:
            if plural not in owners():
                raise Failure(f"{what}: expected a service or a resource of {', '.join(sorted(owners()))}", MISUSE)
            request.service, request.resource = owners()[plural], resolved(client, plural, what)
        for event in client.admin.TailEvents(request):
            if output == JSON:
                click.echo(_line(plain(event)))
            else:
                sent = "" if event.published else "  (waits for the relay)"
                click.echo(f"{shown(event.time.ToJsonString())}  {printable(event.sentence)}{sent}")


def _line(value: Plain) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


@events.command("republish", short_help="Publish events of SERVICE again.")
@click.argument("service")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]),
    required=True,
    help="Events created since this time; UTC unless it has a time zone, such as 2026-01-31T12:00:00+0100.",
)
@click.option("--dry-run", is_flag=True, help="Count the events and send nothing.")
@connection_options
def republish(service: str, since: datetime, dry_run: bool, **where: Any) -> None:
    """Publish events of SERVICE again, with the same ids: consumers skip the events that they have handled."""
    request = RepublishEventsRequest(service=service, validate_only=dry_run)
    request.since.FromDatetime(since if since.tzinfo else since.replace(tzinfo=UTC))
    with connected(**where) as client:
        count = client.admin.RepublishEvents(request).events
    click.echo(f"{counted(count, 'event')} {'would be' if dry_run else 'is' if count == 1 else 'are'} sent again")


@events.group("dead", cls=SuggestingGroup, short_help="Events that a handler could not process.")
def dead() -> None:
    """Dead letters: events that a handler could not process. Later events of the same resource wait until they are
    settled.
    """


@dead.command("ls")
@output_option
@connection_options
def dead_ls(output: str, **where: Any) -> None:
    """List dead letters, oldest first."""
    with connected(**where) as client:
        rows = [plain(each) for each in client.admin.ListDeadLetters(ListDeadLettersRequest()).dead_letters]
    print_list(rows, ("service", "event_id", "type", "subject", "parked", "error"), output, nothing="no dead letters")


@dead.command("settle", short_help="Replay a dead letter, or discard it.")
@click.argument("service")
@click.argument("event_id")
@click.option("--discard", is_flag=True, help="Drop the event instead of passing it to its handler again.")
@connection_options
def dead_settle(service: str, event_id: str, discard: bool, **where: Any) -> None:
    """Replay a dead letter, or discard it. Later events of the same resource then continue."""
    with connected(**where) as client:
        request = SettleDeadLetterRequest(service=service, event_id=event_id, discard=discard)
        freed = client.admin.SettleDeadLetter(request).freed
    click.echo(f"{'discarded' if discard else 'replayed'}; {freed} events behind it go on")


@click.command(short_help="Print the state of all services in a comparable form.")
@click.option("--canonical", is_flag=True, required=True, help="State without times, random ids, epochs or placements.")
@connection_options
def export(canonical: bool, **where: Any) -> None:
    """Print the state of all services as sorted lines of canonical JSON. Equal work gives equal bytes."""
    with connected(**where) as client:
        lines = sorted(line for service in services(client) for line in exported(client, service))
    for line in lines:
        click.echo(line)


def exported(client: Client, service: str) -> Iterator[str]:
    for response in client.admin.Export(ExportRequest(service=service)):
        yield response.line


def disk(data_dir: Path) -> DoctorResponse.Finding:
    """Return the finding about the disk that a platform of this machine writes to."""
    words = little_left(data_dir)
    return DoctorResponse.Finding(service="platform", check="disk", ok=not words, message=words or "there is room")


def examination(findings: Iterable[DoctorResponse.Finding], *, every: bool) -> Iterator[str]:
    """Yield lines about each service: its problems, and how many of its checks found none, or all of these."""
    by_service: dict[str, list[DoctorResponse.Finding]] = {}
    for finding in findings:
        by_service.setdefault(finding.service, []).append(finding)
    for service, found in sorted(by_service.items()):
        for finding in sorted(found, key=lambda each: each.ok):
            if every or not finding.ok:
                mark = "ok " if finding.ok else "BAD"
                yield f"{mark}  {service:14} {finding.check}: {printable(finding.message)}"
        sound = sum(each.ok for each in found)
        if sound and not every:
            yield f"ok   {service:14} {counted(sound, 'check')}"


@click.command(short_help="Check the platform, and print problems with their remedies.")
@click.option("--all", "every", is_flag=True, help="Print every check with its result.")
@output_option
@connection_options
def doctor(every: bool, output: str, **where: Any) -> None:
    """Check the platform, and print problems with their remedies, by service, and the result last.

    -o json has every check.
    """
    with connected(**where) as client:
        found = client.admin.Doctor(DoctorRequest(), timeout=DOCTOR_SECONDS)
    if not where["address"]:
        found = examined([*found.findings, disk(where["data_dir"])])
    if output == JSON:
        print_json([plain(each) for each in found.findings])
    else:
        for line in examination(found.findings, every=every):
            click.echo(line)
        click.echo(f"\n{'ok' if found.ok else 'BAD'}: {found.verdict}")
    if not found.ok:
        raise SystemExit(FAILED)
