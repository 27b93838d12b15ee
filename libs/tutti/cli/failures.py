"""How the command ends: one line of words and an exit code, whatever went wrong."""

import sys
from collections.abc import Callable
from typing import NoReturn

import click

from tutti.chassis.errors import InvalidField, Problem, Unavailable

DONE, FAILED, MISUSE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130


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
    except click.ClickException as error:
        error.show()
        sys.exit(MISUSE)
    except Failure as error:
        end(str(error), error.code)
    except InvalidField as error:
        end(error.message, MISUSE)
    except Unavailable as error:
        end(f"{error.message}; is the platform running? start it with `tutti up`", UNREACHABLE)
    except Problem as error:
        end(f"{error.message} [{error.reason}]", FAILED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(FAILED)
    sys.exit(DONE)


def end(message: str, code: int) -> NoReturn:
    click.echo(f"tutti: {message}", err=True)
    sys.exit(code)
