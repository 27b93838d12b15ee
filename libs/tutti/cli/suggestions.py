"""Groups of commands that name, for a word that is none, the command that is meant, the nearest one, or all of them."""

import difflib
import shlex
from collections.abc import Mapping, Sequence

import click

REMOVING, PRUNING = ("rm", "remove", "delete", "del"), ("prune", "clean", "purge")
DELETIONS = (*REMOVING, *PRUNING)
"""Words that are answered below `runs` too, which has no such command."""
INTENTS: Mapping[str, str | tuple[str, ...]] = {
    **dict.fromkeys(("train", "pretrain", "finetune", "fine-tune", "launch", "resume", "continue", "restart"), "run"),
    **dict.fromkeys(("ls", "list", "ps"), "runs ls"),
    **dict.fromkeys(("show", "describe", "get"), "runs show"),
    **dict.fromkeys(("compare", "diff"), "runs compare"),
    **dict.fromkeys(("grid", "search", "hparams", "multirun", "tune"), "sweep"),
    **dict.fromkeys(("watch", "follow", "attach"), "runs follow"),
    **dict.fromkeys(("cancel", "kill", "abort"), "runs cancel"),
    **dict.fromkeys(("rename", "retitle"), "runs rename"),
    **dict.fromkeys(("archive", "hide"), "runs archive"),
    **dict.fromkeys(REMOVING, ("runs archive", "checkpoints prune")),
    **dict.fromkeys(PRUNING, "checkpoints prune"),
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
    "health": "status",
    "info": ("status", "runs show"),
    **dict.fromkeys(("annotate", "judge", "label"), "campaigns ls"),
    **dict.fromkeys(("login", "adduser"), "users invite"),
}
"""Words of other tools for an action, and the command here, or several."""


def meant(ctx: click.Context, words: Sequence[str]) -> list[str]:
    """Return the commands that are meant by words that begin with an intent, with the other words; none if unknown.

    If there are other words, a command that takes no arguments is named without them, and only if no other is meant.
    """
    word, root = words[0].lower(), ctx.find_root()
    if ctx.parent is not None and (ctx.info_name != "runs" or word not in DELETIONS):
        return []
    intents = INTENTS.get(word, ())
    paths = [each.split() for each in ((intents,) if isinstance(intents, str) else intents)]
    known = [(path, command) for path in paths if (command := _command(root, path)) is not None]
    if len(words) == 1 or words[1].startswith("-"):
        return [shlex.join([root.command_path, *path, *words[1:]]) for path, _ in known]
    taking = [path for path, command in known if _takes_names(command)]
    named = [shlex.join([root.command_path, *path, *words[1:]]) for path in taking]
    return named or [shlex.join([root.command_path, *path]) for path, _ in known]


def _command(root: click.Context, path: Sequence[str]) -> click.Command | None:
    """Return the command at a path below the root, if there is one."""
    found: click.Command | None = root.command
    for name in path:
        found = found.get_command(root, name) if isinstance(found, click.Group) else None
    return found


def _takes_names(command: click.Command) -> bool:
    return any(isinstance(each, click.Argument) for each in command.params)


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
            if commands := meant(ctx, args):
                typed = " or ".join(f"`{each}`" for each in commands)
                raise click.UsageError(f"no command {args[0]!r}; type {typed}", ctx) from error
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
