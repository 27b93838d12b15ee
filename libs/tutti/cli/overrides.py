"""The option `--set KEY=VALUE` of commands that take a recipe."""

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import click

SET = "--set"
_OVERRIDE = re.compile(r"[a-z_]+(\.[\w-]+)*=.*", re.DOTALL)

set_option = click.option(
    SET, "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key, such as train.ranks=4."
)


class Overridable(click.Command):
    """A command with `--set`, which names the whole command where KEY=VALUE is given without it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given, extra, _ = self.make_parser(ctx).parse_args(args=list(args))
        arguments = [given.get(each.name) for each in self.params if isinstance(each, click.Argument)]
        bare = [each for each in (*arguments, *extra) if isinstance(each, str) and is_override(each)]
        if bare and not ctx.resilient_parsing and set(args).isdisjoint(ctx.help_option_names):
            command = shlex.join([*ctx.command_path.split(), *with_set(args, bare)])
            raise click.UsageError(f"{bare[0]!r} overrides a key; type `{command}`", ctx)
        return super().parse_args(ctx, args)


def is_override(text: str) -> bool:
    """True if a text is KEY=VALUE, and no file has this name."""
    return bool(_OVERRIDE.fullmatch(text)) and not Path(text).exists()


def with_set(args: Sequence[str], bare: Sequence[str]) -> list[str]:
    """The arguments of a command with a `--set` before each of those that lack it."""
    found = list[str]()
    for before, each in pairwise(["", *args]):
        found += [SET, each] if each in bare and before != SET else [each]
    return found
