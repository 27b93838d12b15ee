"""Pages of a service, as values: routes, templates, entries of the menu.

A service declares a `Site`. Its handlers are functions from a `Visit` to a `Page` or a `Redirect`; they may raise
Problem, and run in threads. Beside each page is its JSON: `/runs/x` and `/runs/x.json` are made of one view. Programs
of the service itself send calls with `Site.simulate`, as the script of a page does.

Promises: nothing here imports the HTTP server, so that a service can be built without the extra `web`.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from json import loads
from typing import TYPE_CHECKING, Any, Literal

from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.chassis.identity.principal import Principal
from tutti.chassis.service import Front, FrontHost, Pages
from tutti.web.calls import HttpProblem, check_role, check_size, read, segments, written

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
else:
    DataclassInstance = Any


@dataclass(frozen=True)
class Visit:
    """One request. `path` holds the parts of the route in braces, `form` the fields of a POST, `body` the JSON of a
    call. `several` has every value of each field of the query, `query` the last one.
    """

    principal: Principal
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    several: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """`template` is a file in the folder `templates` of the site's package; it is given `view` and `title`."""

    template: str
    title: str
    view: DataclassInstance


@dataclass(frozen=True)
class Redirect:
    """`path` on this server, where the browser goes on with GET."""

    path: str


@dataclass(frozen=True)
class Get:
    """A page. `version` makes it live: a browser that shows the page loads it again when this text changes.

    `version` is called about once a second for each viewer, so it has to be cheaper than `answer`.
    """

    path: str
    answer: Callable[[Visit], Page]
    roles: frozenset[Role]
    version: Callable[[Visit], str] | None = None


@dataclass(frozen=True)
class Post:
    """A form. It is only called for forms that this server made for this session."""

    path: str
    answer: Callable[[Visit], Redirect]
    roles: frozenset[Role]


@dataclass(frozen=True)
class Call:
    """A call of a page's script. `answer` returns what is sent back as JSON; errors are JSON too.

    A POST has a JSON body of at most `max_bytes`, and the form token of its session in the header `x-form-token`. Every
    answer has that token in the same header, so that a script learns the one that replaced it.
    """

    path: str
    answer: Callable[[Visit], object]
    roles: frozenset[Role]
    method: Literal["GET", "POST"] = "GET"
    max_bytes: int = 64 << 10


@dataclass(frozen=True)
class Ask:
    """A call of a program. `headers` have lower-case names; `body` is the value that the route's `read` returned."""

    principal: Principal
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any = None


@dataclass(frozen=True)
class Reply:
    """`body` is sent as JSON; an asynchronous generator of texts is sent as a stream of server-sent events."""

    body: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Api:
    """A call of a program, with the token of a user in the header `authorization`; cookies count for nothing.

    `answer` runs in the event loop of the server, so it must not block; it has `seconds` until its reply, and a stream
    as long as it takes. It may raise Problem. A POST has a JSON body of at most `max_bytes`; `read` makes a typed value
    of it, and raises InvalidField.
    """

    path: str
    answer: Callable[[Ask], Coroutine[Any, Any, Reply]]
    roles: frozenset[Role]
    method: Literal["GET", "POST"] = "GET"
    read: Callable[[object], object] = lambda body: body
    max_bytes: int = 1 << 20
    seconds: float = 600.0


@dataclass(frozen=True)
class Follow:
    """A stream that a page's script reads with GET, as server-sent events whose data `answer` yields.

    `answer` runs in the event loop of the server, so it must not block. It may raise Problem, which becomes the last
    event. The stream ends soon after its session.
    """

    path: str
    answer: Callable[[Visit], AsyncGenerator[str, None]]
    roles: frozenset[Role]


@dataclass(frozen=True)
class Entry:
    """An entry of the menu, shown to these roles. A `first` entry is before the others, and `/` leads there."""

    title: str
    path: str
    roles: frozenset[Role]
    first: bool = False


def menu_of(sites: "Sequence[Site]") -> list[Entry]:
    """The entries of the menu of several sites, in order."""
    return sorted((entry for site in sites for entry in site.menu), key=lambda entry: not entry.first)


@dataclass
class Server:
    """The server of a site in this process. `post` sends it a call of a simulator; None while there is no server."""

    post: Callable[[str, str, object], Any] | None = None


@dataclass(frozen=True)
class Site(Pages):
    """The pages of one service. `package` has the folders `templates` and `static`; `filters` are for its templates.

    `worker` is a file in `static` that browsers can run as the service worker of the pages below `/NAME/`: it is served
    as `/NAME/worker.js`, and scripts register it by the Trusted Types policy `policy.WORKER`.
    """

    name: str
    package: str
    routes: Sequence[Get | Post | Call | Api | Follow]
    menu: Sequence[Entry] = ()
    filters: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    worker: str = ""
    server: Server = field(default_factory=Server)

    def front(self, every: Sequence[Pages], host: FrontHost) -> Front:
        """Raises ImportError without the extra `web`."""
        from tutti.web.front import WebFront  # the HTTP server is an extra

        return WebFront([each for each in every if isinstance(each, Site)], host)

    def simulate(self, user: str, path: str, body: object) -> Any:
        """The answer to a call of a script that the simulator `user` sends. Raises Problem.

        It is sent over HTTP to the server of this process. Where there is none, in a simulation or without the extra
        `web`, it is answered here, by the same routes.
        """
        if self.server.post is not None:
            return self.server.post(user, path, body)
        return self.answer(Principal.of_simulator(user), "POST", path, written(body).encode())

    def answer(self, principal: Principal, method: str, path: str, sent: bytes = b"") -> Any:
        """The answer to a call of a script that no server received. Raises Problem, HttpProblem."""
        for each in self.routes:
            parts = segments(each.path, path)
            if parts is None or not isinstance(each, Call) or each.method != method:
                continue
            check_size(len(sent), each.max_bytes)
            body = read(sent) if method == "POST" else None
            check_role(principal, each.roles)
            with caused_by(Cause(principal=principal, action=f"{method} {path}")):
                return loads(written(each.answer(Visit(principal, parts, body=body))))
        raise HttpProblem(404, f"no page is at {path}")
