"""Groups of commands that name, for a word that is none, the command that is meant, the nearest one, or all of them."""

import difflib
import shlex
from collections.abc import Mapping, Sequence

import click

INTENTS: Mapping[str, str] = {
    **dict.fromkeys(("train", "pretrain", "finetune", "fine-tune", "launch", "resume", "continue", "restart"), "run"),
    **dict.fromkeys(("ls", "list", "ps"), "runs ls"),
    **dict.fromkeys(("show", "describe", "get"), "runs show"),
    **dict.fromkeys(("compare", "diff"), "runs compare"),
    **dict.fromkeys(("grid", "search", "hparams", "multirun", "tune"), "sweep"),
    **dict.fromkeys(("watch", "follow", "attach"), "runs follow"),
    **dict.fromkeys(("cancel", "kill", "abort"), "runs cancel"),
    **dict.fromkeys(("rename", "retitle"), "runs rename"),
    **dict.fromkeys(("archive", "hide"), "runs archive"),
    "unarchive": "runs unarchive",
    "tag": "runs tag",
    **dict.fromkeys(("note", "comment"), "runs note"),
    **dict.fromkeys(("generate", "infer", "inference", "predict", "complete", "chat"), "sample"),
    **dict.fromkeys(("start", "server", "daemon"), "up"),
    **dict.fromkeys(("stop", "shutdown"), "down"),
    **dict.fromkeys(("init", "new", "create"), "recipes new"),
    **dict.fromkeys(("check", "validate", "lint"), "recipes check"),
    **dict.fromkeys(("plan", "estimate", "dry-run"), "recipes plan"),
    **dict.fromkeys(("ui", "web", "dashboard", "browse"), "open"),
    **dict.fromkeys(("tail", "log"), "logs"),
    **dict.fromkeys(("verify",), "checkpoints verify"),
    **dict.fromkeys(("health", "info"), "status"),
    **dict.fromkeys(("annotate", "judge", "label"), "campaigns ls"),
    **dict.fromkeys(("login", "adduser"), "users invite"),
}
"""Words of other tools for an action, and the command here."""


def meant(tree: click.Group, ctx: click.Context, words: Sequence[str]) -> str:
    """Return the command that is meant by words that begin with an intent, with the other words; "" if unknown."""
    path = INTENTS.get(words[0].lower(), "").split()
    if ctx.parent is not None or not path or tree.get_command(ctx, path[0]) is None:
        return ""
    return shlex.join([ctx.command_path, *path, *words[1:]])


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
            if command := meant(self, ctx, args):
                raise click.UsageError(f"no command {args[0]!r}; type `{command}`", ctx) from error
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
