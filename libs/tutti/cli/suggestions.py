"""Groups of commands that name the nearest command, or all of them, for a word that is none."""

import difflib

import click


class SuggestingGroup(click.Group):
    """A group of commands, and every group below it; a group of things is found by one of them too: `crawl status`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is None:
            many = (super(SuggestingGroup, self).get_command(ctx, cmd_name + ending) for ending in ("s", "es"))
            found = next((each for each in many if isinstance(each, click.Group)), None)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            known = self.list_commands(ctx)
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = f"the nearest is {near[0]}" if near else f"there are {', '.join(known)}"
            raise click.UsageError(f"no command {args[0]!r}; {hint}", ctx) from error


def misuse(error: click.ClickException) -> str:
    """The error of click in one line, as every failure has."""
    words = " ".join(error.format_message().split()).rstrip(".")
    words = f"{words[:1].lower()}{words[1:]}"
    context = getattr(error, "ctx", None)
    return f"{words}; see `{context.command_path} --help`" if context else words
