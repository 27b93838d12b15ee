"""The end of a platform that `tutti run` started, which others of these commands may use for runs of their own.

Guarantees: it waits for these commands and for runs that began while the platform was up, not for runs that an earlier
platform left unfinished; it says what it waits for, and that Ctrl-C stops the platform.
"""

from collections.abc import Callable, Collection

from tutti.cli import INTERRUPTED
from tutti.cli.failures import Failure
from tutti.cli.guests import Door
from tutti.cli.output import say
from tutti.cli.waiting import ENDED, POLL_SECONDS, answers
from tutti.client import Client
from tutti.client.resources import list_all


def unfinished(client: Client) -> set[str]:
    """Names of the runs that have not ended."""
    return {run.name for run in list_all(client, "runs") if run.state not in ENDED}


def needs(look: Callable[[], set[str]], left_over: Collection[str], door: Door) -> set[str]:
    """The commands that still need the platform: the runs that `look` finds except `left_over`, or else other commands.

    The door is closed once nothing does.
    """
    closed = door.close()  # first: a guest may leave a run behind
    runs = look() - set(left_over)
    if runs:
        door.open()
    return runs or (set() if closed else {"another command"})


def await_others(look: Callable[[], Collection[str]], *, gone: Callable[[], bool] = lambda: False) -> None:
    """Until `look` finds nothing. Raises Failure when interrupted, Problem when looking fails, at once when the
    platform is `gone`.
    """
    waits_for: list[str] = []
    try:
        for seen in answers(look, gone, POLL_SECONDS):
            found = sorted(seen)
            if not found:
                return
            if found != waits_for:
                waits_for = found
                say(f"the platform that this command started stays up for {', '.join(found)}; Ctrl-C stops it now")
    except KeyboardInterrupt as error:
        under = f" under {', '.join(waits_for)}; the same commands resume them" if waits_for else ""
        raise Failure(f"interrupted; the platform stops{under}", INTERRUPTED) from error
