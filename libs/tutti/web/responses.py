"""HTTP responses of pages, errors and files."""

from collections.abc import Mapping
from urllib.parse import quote

from starlette.responses import Response

from tutti.chassis.errors import Problem
from tutti.web.calls import RATE_LIMIT_EXCEEDED

URL = "%/?#[]@!$&'()*+,;=:~"
"""Characters that a URL has beside letters and digits; `%` begins one that is escaped already."""
HTML, JSON = "text/html; charset=utf-8", "application/json"
STATUS: Mapping[str, int] = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 413,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
TITLES: Mapping[int, str] = {
    400: "This request cannot be understood",
    401: "You are not logged in",
    403: "You may not see this",
    404: "There is nothing here",
    405: "This cannot be done here",
    409: "This cannot be done now",
    413: "This is too much at once",
    415: "This request cannot be understood",
    429: "Too many attempts",
    501: "Nobody serves this",
    503: "Part of the platform is away",
    504: "This takes too long",
}
LIMITED = frozenset({"TOO_MANY_FAILURES", "TOO_MANY_REQUESTS", RATE_LIMIT_EXCEEDED})
OUR_FAULT = "Something went wrong here"


def status_of(problem: Problem) -> int:
    if problem.reason in LIMITED:
        return 429
    return STATUS.get(problem.code, 500)


def html(text: str, *, status: int = 200) -> Response:
    """A page: never stored, since it shows what one person may see."""
    return Response(text, status, {"content-type": HTML, "cache-control": "no-store"})


def json(text: str, *, status: int = 200) -> Response:
    return Response(text, status, {"content-type": JSON, "cache-control": "no-store"})


def redirect(path: str) -> Response:
    """The browser goes on with GET; a path with letters of any language is escaped, since headers have none."""
    return Response(status_code=303, headers={"location": quote(path, safe=URL), "cache-control": "no-store"})
