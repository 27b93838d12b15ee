"""The command tree."""

import click

from tutti.chassis.version import VERSION
from tutti.cli import (
    administration,
    annotators,
    backups,
    campaigns,
    checkpoints,
    classifiers,
    crawls,
    datasets,
    documents,
    experiences,
    exporting,
    garbage,
    jobs,
    logs,
    pages,
    planning,
    platform,
    preferences,
    recipes,
    releases,
    retractions,
    runs,
    sampling,
    scrubbing,
    stack,
    status,
    tokenizers,
    tracing,
    users,
)
from tutti.cli.failures import guarded
from tutti.cli.groups import group
from tutti.cli.nouns import BY_PLURAL
from tutti.cli.output import JSON, output_option, print_json
from tutti.cli.report.command import report
from tutti.cli.words import Words


@click.group(cls=Words, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, message="%(version)s")
def tutti() -> None:
    """Pages become a model: crawl, ingest, filter, dedup, tokenize, train, checkpoint, trace.

    \b
    tutti run recipes/tiny.yaml      run a recipe; starts and stops the platform by itself
    tutti up                         start the platform, until Ctrl-C; --detach leaves it running
    tutti status                     what runs, what waits, what needs attention
    tutti checkpoints ls             what was committed
    tutti trace checkpoints/x/0/20   where it came from
    tutti sample checkpoints/x/0/20  what it writes
    tutti report                     a page about the newest run
    tutti open                       the runs in a browser

    Exit codes: 0 done, 1 failed, 2 misuse, 3 not reachable, 130 interrupted.
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
    """The tree with every noun and verb."""
    groups = {plural: group(noun) for plural, noun in BY_PLURAL.items()}
    crawls.extend(groups["crawls"])
    classifiers.extend(groups["classifiers"])
    datasets.extend(groups["datasets"])
    exporting.extend(groups["datasets"])
    tokenizers.extend(groups["tokenizers"])
    jobs.extend(groups["jobs"])
    checkpoints.extend(groups["checkpoints"])
    sampling.extend(groups["checkpoints"])
    experiences.extend(groups["experiences"])
    runs.extend(groups["runs"])
    campaigns.extend(groups["campaigns"])
    preferences.extend(groups["preferences"])
    releases.extend(groups["releases"])
    for made in groups.values():
        tutti.add_command(made)
    for command in (runs.run, platform.up, platform.down, tracing.trace, administration.events, administration.export):
        tutti.add_command(command)
    tutti.add_command(sampling.sample)
    tutti.add_command(logs.logs)
    tutti.add_command(report)
    tutti.add_command(pages.open_)
    tutti.add_command(users.users)
    tutti.add_command(users.audit)
    tutti.add_command(annotators.annotators)
    tutti.add_command(status.status)
    tutti.add_command(stack.stack)
    tutti.add_command(scrubbing.scrub)
    tutti.add_command(backups.backup)
    tutti.add_command(backups.restore)
    tutti.add_command(administration.doctor)
    documents.documents.add_command(retractions.retract)
    documents.documents.add_command(retractions.recorded())
    tutti.add_command(documents.documents)
    planning.extend(recipes.recipes)
    tutti.add_command(recipes.recipes)
    tutti.add_command(garbage.collect)
    return tutti


def run() -> None:
    guarded(lambda: build()(standalone_mode=False))
