"""A request: who sent it, what it asks for, and the error that answers it."""

from collections.abc import Callable
from json import dumps
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from tutti.chassis.errors import InvalidField, Problem, Unauthenticated
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.web.visitors import Session

T = TypeVar("T")
LOG_IN = (
    "tutti open",
    "on the machine of the platform: it prints a link that logs you in once. Others need a link from whoever runs it",
)
"""The command that logs in, and the words behind it."""
FOR_PROGRAMS = "Programs use commands such as `tutti runs ls -o json`, or the API with a token"


def on_behalf_of(request: Request, session: Session, work: Callable[[], T]) -> Callable[[], T]:
    """`work` on behalf of the session's user, under whose name every change that it makes is recorded."""

    def run() -> T:
        with caused_by(Cause(principal=session.principal, action=action_of(request), address=address_of(request))):
            return work()

    return run


def remembering(response: Response, session: Session) -> Response:
    if session.cookie:
        response.headers["set-cookie"] = session.cookie
    return response


def shown_name(user: str, display_name: str) -> str:
    """Return how a user is named on a page; "" for nobody."""
    ident = user.removeprefix("users/")
    return f"{display_name} ({ident})" if display_name and display_name != ident else ident


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def action_of(request: Request) -> str:
    return f"{request.method} {request.url.path}"


def error_body(status: int, words: str, problem: Problem | None) -> str:
    """An error as JSON; one about a field has its name, the value that was seen and what was expected."""
    field = problem.metadata if isinstance(problem, InvalidField) else {}
    reason = problem.reason if problem else ""
    if isinstance(problem, Unauthenticated):
        command, links = LOG_IN
        words = f"{words}. Run `{command}` {links}. {FOR_PROGRAMS}"
    return dumps({"error": {"status": status, "reason": reason, "message": words, **field}}, ensure_ascii=False)
