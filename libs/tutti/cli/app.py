"""The command tree."""

from importlib.metadata import entry_points

import click

from tutti.chassis.version import VERSION
from tutti.cli import (
    administration,
    backups,
    logs,
    migrating,
    pages,
    platform,
    recipes,
    runs,
    scrubbing,
    stack,
    status,
    sweeps,
)
from tutti.cli.failures import guarded
from tutti.cli.groups import group
from tutti.cli.nouns import BY_PLURAL
from tutti.cli.output import JSON, output_option, print_json
from tutti.cli.reports import report
from tutti.cli.sections import SectionedGroup
from tutti.platform.garbage import kept

COMMANDS = "tutti.commands"
"""The group of entry points by which services add commands: `extend(tree)`, called once."""


@click.group(cls=SectionedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, message="%(version)s")
def tutti() -> None:
    """Train language models: crawl, filter, deduplicate, tokenize, train, tune, evaluate, trace.

    \b
    tutti run --data FOLDER          train on your texts; starts and stops the platform if needed
    tutti up                         start the platform, until Ctrl-C; --detach leaves it running
    tutti status                     running and waiting work, and problems
    tutti checkpoints ls             committed checkpoints
    tutti trace checkpoints/x/0/20   the inputs of a checkpoint
    tutti sample checkpoints/x/0/20  text that it generates
    tutti report                     the report of the newest run
    tutti open                       the runs in a browser

    Exit codes: 0 done, 1 failed, 2 usage error, 3 not reachable, 130 interrupted.
    """


@tutti.command()
@output_option
def version(output: str) -> None:
    """Print the version."""
    if output == JSON:
        print_json({"version": VERSION})
    else:
        click.echo(VERSION)


def build() -> click.Group:
    """Return the tree with every noun and verb: those of the platform here, those of a service by its entry point."""
    groups = {plural: group(noun) for plural, noun in BY_PLURAL.items()}
    runs.extend(groups["runs"])
    for made in groups.values():
        tutti.add_command(made)
    for command in (
        runs.run,
        sweeps.sweep,
        platform.up,
        platform.down,
        status.status,
        report,
        pages.open_,
        logs.logs,
        administration.events,
        administration.export,
        administration.doctor,
        recipes.recipes,
        stack.stack,
        scrubbing.scrub,
        backups.backup,
        backups.restore,
        migrating.migrate,
    ):
        tutti.add_command(command)
    for point in sorted(entry_points(group=COMMANDS), key=lambda point: point.name):
        point.load()(tutti)
    return tutti


def run() -> None:
    guarded(_run)


def _run() -> None:
    with kept():
        tree = build()
    tree(standalone_mode=False)
