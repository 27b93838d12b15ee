"""The end of a command: one line of text and an exit code, whatever went wrong.

Promises: a traceback is printed only when TUTTI_DEBUG asks for it; else it is in a file that the line names.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import NoReturn

import click

from tutti.chassis.config.datadir import DataDirError
from tutti.chassis.config.diskspace import is_full
from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound, Problem, Unavailable
from tutti.chassis.rpc.channel import Unreachable, Untrusted
from tutti.cli import INTERRUPTED
from tutti.cli.nouns import BY_PLURAL
from tutti.cli.output import say
from tutti.cli.suggestions import misuse
from tutti.client.unusable import Unusable

DONE, FAILED, MISUSE, UNREACHABLE = 0, 1, 2, 3
DEBUG_VARIABLE = "TUTTI_DEBUG"
MOST_SHOWN = 200


class Failure(Exception):
    """Something did not work; the message says what to do."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def guarded(main: Callable[[], object]) -> NoReturn:
    """Run `main` and exit; what it raises becomes a line on standard error."""
    try:
        main()
    except click.exceptions.Abort:
        end("interrupted", INTERRUPTED)
    except KeyboardInterrupt:
        end("interrupted", INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(MISUSE)
    except click.ClickException as error:
        end(misuse(error), MISUSE)
    except Failure as error:
        end(str(error), error.code)
    except Unusable as error:
        end(str(error), FAILED)
    except InvalidField as error:
        end(error.message, MISUSE)
    except Untrusted as error:
        end(error.message, UNREACHABLE)
    except Unreachable as error:
        advice = "" if "tutti up" in error.message else "; is the platform running? start it with `tutti up --detach`"
        end(f"{error.message}{advice}", UNREACHABLE)
    except Unavailable as error:
        end(f"{error.message} [{error.reason}]; try again", UNREACHABLE)
    except NotFound as error:
        end(f"{error.message} [{error.reason}]{_others(error.name)}", FAILED)
    except AlreadyExists as error:
        end(
            f"{error.name} exists already, and was made from another request; choose another name [{error.reason}]",
            FAILED,
        )
    except Problem as error:
        end(f"{error.message} [{error.reason}]", FAILED)
    except UnicodeEncodeError as error:
        if not _is_undecoded(error):
            _defect(error)
        seen = error.object if len(error.object) < MOST_SHOWN else f"...{error.object[-MOST_SHOWN:]}"
        end(f"{seen!a}: expected a name in UTF-8; rename the file or folder, or give another", MISUSE)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(FAILED)
    except DataDirError as error:
        end(_one_line(error), FAILED)
    except OSError as error:
        if is_full(error):
            end(f"{_one_line(error)}: the disk is full; free some space, and try again", FAILED)
        end(f"{_one_line(error)}{kept(error)}", FAILED)
    except Exception as error:
        _defect(error)
    sys.exit(DONE)


def _defect(error: Exception) -> NoReturn:
    end(f"{type(error).__name__}: {_one_line(error)}; this is a defect of ours{kept(error)}", FAILED)


def _is_undecoded(error: UnicodeEncodeError) -> bool:
    """Return whether what cannot be written are bytes of a path or an argument that are not UTF-8 (PEP 383)."""
    return all("\udc80" <= each <= "\udcff" for each in error.object[error.start : error.end])


def kept(error: Exception) -> str:
    """Print the traceback, or keep it in a file; the words that say where it is."""
    text = "".join(traceback.format_exception(error))
    if os.environ.get(DEBUG_VARIABLE):
        click.echo(text, err=True, nl=False)
        return ""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="tutti-", suffix=".traceback", delete=False) as file:
            file.write(text)
    except OSError:
        return f"; set {DEBUG_VARIABLE}=1 to see the traceback"
    return f"; the traceback is in {file.name}"


def end(message: str, code: int) -> NoReturn:
    say(f"tutti: {message}")
    sys.exit(code)


def _others(name: str) -> str:
    """A hint how to list the resources of a kind that can be listed."""
    kind = name.partition("/")[0]
    return f"; `tutti {kind} ls` lists those that do" if kind in BY_PLURAL else ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
