"""The list of commands in `tutti --help`, by purpose. Commands without a section, such as new ones, are in the last."""

from collections.abc import Collection, Iterator, Mapping

import click

from tutti.cli.nouns import BY_PLURAL
from tutti.cli.suggestions import SuggestingGroup

SECTIONS: Mapping[str, Collection[str]] = {
    "Train and try": ("run", "sweep", "recipes", "sample", "trace", "report", "open"),
    "Platform": ("up", "down", "status", "doctor", "logs", "events", "agent"),
    "Resources": (*BY_PLURAL, "annotators", "documents"),
    "Users": ("users", "token", "audit"),
    "Maintenance": ("backup", "restore", "migrate", "scrub", "gc", "lineage", "export", "stack", "version"),
}
REST = "More"


def sectioned(names: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each section with those of `names` that belong to it, and the others at the end. Each name occurs once."""
    left = list(names)
    for section, listed in SECTIONS.items():
        if found := [name for name in listed if name in left]:
            left = [name for name in left if name not in found]
            yield section, found
    if left:
        yield REST, left


class SectionedGroup(SuggestingGroup):
    """A group of commands whose help lists them by section."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        longest = max(map(len, names), default=0)
        for section, listed in sectioned(names):
            with formatter.section(section):
                rows = []
                for name in listed:
                    command = self.get_command(ctx, name)
                    assert command is not None
                    room = formatter.width - 6 - longest
                    rows.append((name.ljust(longest), command.get_short_help_str(room)))
                formatter.write_dl(rows)
