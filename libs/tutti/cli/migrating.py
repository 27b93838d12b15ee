"""`tutti migrate`: upgrade the tables of all services before the services of this version need them."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tutti.cli.connection import data_dir_option
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.cli.stack import settled
from tutti.report.hints import typed

if TYPE_CHECKING:
    from tutti.upkeep.upgrades import Step, Upgrade


@click.command("migrate", short_help="Upgrade the tables of the services to this version.")
@click.argument("services", nargs=-1)
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if tables have to be upgraded.")
@click.option("--dry-run", is_flag=True, help="Change nothing; print what would be upgraded.")
@output_option
@data_dir_option
def migrate(services: Sequence[str], check: bool, dry_run: bool, output: str, data_dir: Path) -> None:
    """Upgrade the tables in a data directory, or on the server that its settings name, to this version.

    SERVICES limits it (default: all). Each service is upgraded in one transaction: after an interruption, run the
    command again. A service without tables is skipped, because it creates them when it starts. Tables of a newer
    version are refused. An embedded platform must not run.
    """
    from tutti.chassis.config.settings import installed_services
    from tutti.upkeep import upgrades
    from tutti.upkeep.backup.databases import on_server

    known = installed_services()
    if unknown := sorted(set(services) - set(known)):
        raise Failure(f"{unknown[0]} is not a service; expected one of {', '.join(known)}", MISUSE)
    with settled(data_dir) as (home, values), contextlib.ExitStack() as owned:
        url = values.database.url or home.database_url
        if not on_server(url):
            owned.callback(home.lock("tutti migrate").release)
        found = upgrades.planned(url, home.path / "db", services or known)
        due = [each for each in found if each.due]
        if output != JSON:
            for each in found:
                if not each.due:
                    click.echo(f"{_line(each)}, the newest")
                elif check or dry_run:
                    click.echo(f"{_line(each)}, due")
        if not (check or dry_run):
            for each in upgrades.perform(url, found):
                if output != JSON:
                    click.echo(_line(each))
    if output == JSON:
        print_json([{"service": each.service, **_plain(each.own), "chassis": _plain(each.chassis)} for each in found])
    elif not found:
        say("no service has tables yet; it creates them when it starts")
    if check and due:
        services_due = "1 service has" if len(due) == 1 else f"{len(due)} services have"
        raise Failure(f"the tables of {services_due} to be upgraded: {typed('tutti migrate', data_dir)}")


def _line(upgrade: "Upgrade") -> str:
    return f"{upgrade.service:14}{upgrade.own}, chassis {upgrade.chassis}"


def _plain(step: "Step") -> dict[str, object]:
    return {"before": step.before, "after": step.after, "due": list(step.due)}
