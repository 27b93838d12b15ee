"""Commands by their words: a word that is none is answered with the nearest, or with those that there are."""

import difflib

import click


class Words(click.Group):
    """A group of commands, and every group below it."""

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
    """What click refused, in the one line that every failure has."""
    words = " ".join(error.format_message().split()).rstrip(".")
    words = f"{words[:1].lower()}{words[1:]}"
    context = getattr(error, "ctx", None)
    return f"{words}; see `{context.command_path} --help`" if context else words
