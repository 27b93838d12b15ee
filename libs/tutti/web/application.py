"""The ASGI application: from a request to the handler of a service and back.

Promises: nobody reaches a handler without a session whose user has one of the route's roles, nor a form's handler
without the token of that session; every answer carries the headers of `policy`; a defect is answered with an incident
number that is in the log, never with a traceback.
"""

import asyncio
import contextvars
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from json import dumps
from typing import TypeVar
from urllib.parse import parse_qsl, quote

from opentelemetry.trace import SpanKind
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from tutti.chassis.config.sections import WebSettings
from tutti.chassis.errors import PermissionDenied, Problem, Refused, Unauthenticated, problem_of
from tutti.chassis.identity.auth import USERS, Role
from tutti.chassis.metrics import metrics
from tutti.chassis.rpc.usertokens import UserTokens
from tutti.chassis.service import FrontHost
from tutti.chassis.telemetry import span_from
from tutti.web.apis import Apis
from tutti.web.assets import TYPES, Assets
from tutti.web.calls import HttpProblem, check_role, check_size, read, written
from tutti.web.pages import Api, Call, Follow, Get, Post, Site, Visit, menu_of
from tutti.web.policy import WORKER_POLICY, is_ours, is_same_origin, local_path
from tutti.web.policy import headers as policy_headers
from tutti.web.rendering import Templates, as_json
from tutti.web.requests import LOG_IN, action_of, address_of, error_body, on_behalf_of, remembering, shown_name
from tutti.web.responses import OUR_FAULT, TITLES, html, json, redirect, status_of
from tutti.web.simulators import Credentials
from tutti.web.streams import Streams
from tutti.web.tokens import FIELD, HEADER, PLATFORM, form_token, platform_id, same
from tutti.web.visitors import NO_SESSION, Session, Visitors

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)
FORGED = "FORGED_FORM"
MOST_LOGIN_BYTES = 16 << 10  # from somebody without a session
YEAR = "public, max-age=31536000, immutable"


class BadSite(Exception):
    """Two services serve the same path."""


class Application:
    """`draining` ends the streams; set it in the loop that the application runs in. `former` has the URLs at which the
    pages were before, and are not any more.
    """

    def __init__(self, sites: Sequence[Site], host: FrontHost, simulators: Credentials) -> None:
        self._settings: WebSettings = host.settings
        self._reasons = host.reasons
        self._assets = Assets({"web": "tutti.web", **{site.name: site.package for site in sites}})
        self._templates = Templates(sites, self._assets)
        self._visitors = Visitors(host, simulators)
        self._threads = ThreadPoolExecutor(self._settings.threads, thread_name_prefix="page")
        self.draining = asyncio.Event()
        self.former: Sequence[str] = ()
        self._apis = Apis(UserTokens(host.channel), self._in_thread, self._record)
        self._streams = Streams(self.draining, self._settings.streams)
        self._inside: dict[asyncio.Task[object], str] = {}
        self._platform = platform_id(host.secret)
        headers = {**policy_headers(host.settings), PLATFORM: self._platform}
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._seconds = metrics.histogram(
            "http_server_seconds", "Time to answer a request", "seconds", ["route", "status"]
        )
        routes = [
            Route("/", self._caught("/", self._home), methods=["GET"]),
            Route("/healthz", self._caught("/healthz", self._health), methods=["GET"]),
            Route("/static/{path:path}", self._caught("/static", self._static), methods=["GET"]),
            Route("/login", self._caught("/login", self._log_in), methods=["POST"]),
            Route("/login/{token}", self._caught("/login/{token}", self._login_page), methods=["GET"]),
            Route("/logout", self._caught("/logout", self._log_out), methods=["POST"]),
        ]
        self._entries = menu_of(sites)
        taken = {route.path: "the server itself" for route in routes}
        for site in sites:
            if site.worker:
                path = f"/{site.name}/worker.js"
                routes.append(Route(path, self._caught(path, self._worker(site)), methods=["GET"]))
                taken[path] = site.name
            for each in site.routes:
                if each.path in taken and not isinstance(each, Post):
                    raise BadSite(
                        f"{each.path} is served by {taken[each.path]} already: {site.name} needs another path"
                    )
                taken[each.path] = site.name
                routes += self._routes(site, each)
        self._router = Router(routes, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; every answer carries the headers of the policy."""
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", [])
                names = {name for name, _ in own}
                message["headers"] = [*own, *(each for each in self._headers if each[0] not in names)]
            await send(message)

        request = Request(scope, receive)
        scope["app"] = self  # or the router would answer unknown paths by itself
        try:
            if not is_ours(request.headers.get("host", ""), self._settings):
                raise HttpProblem(421, "this server does not answer under this name: set web.public_url if it should")
            if "\0" in scope["path"]:  # which no name has, and no database stores
                raise HttpProblem(404, "no page is at this path")
            await self._router(scope, receive, with_headers)
        except (HTTPException, HttpProblem) as error:
            status = error.status if isinstance(error, HttpProblem) else error.status_code
            words = error.message if isinstance(error, HttpProblem) else f"no page is at {request.url.path}"
            response = self._apis.refusal(request, status, words) or self._refusal(request, status, words, None)
            await response(scope, receive, with_headers)

    def unfinished(self) -> list[str]:
        """The requests that have not been answered, or whose stream has not ended."""
        return sorted({*self._inside.values(), *self._apis.streaming.values()})

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _routes(self, site: Site, each: Get | Post | Call | Api | Follow) -> list[Route]:
        if isinstance(each, Follow):
            return [Route(each.path, self._caught(each.path, self._follow(each), is_json=True), methods=["GET"])]
        if isinstance(each, Api):
            return [Route(each.path, self._caught(each.path, self._apis.endpoint(each)), methods=[each.method])]
        if isinstance(each, Call):
            return [Route(each.path, self._caught(each.path, self._call(each), is_json=True), methods=[each.method])]
        if isinstance(each, Post):
            return [Route(each.path, self._caught(each.path, self._form(each)), methods=["POST"])]
        found = [
            Route(f"{each.path}.json", self._caught(f"{each.path}.json", self._json(each)), methods=["GET"]),
            Route(each.path, self._caught(each.path, self._page(site, each)), methods=["GET"]),
        ]
        if each.version is not None:
            path = f"{each.path}.events"
            found.insert(0, Route(path, self._caught(path, self._stream(each, each.version)), methods=["GET"]))
        return found

    def _page(self, site: Site, get: Get) -> Endpoint:
        async def answer(request: Request) -> Response:
            session, visit = await self._admitted(request, get.roles, replaceable=True)

            def make() -> str:
                version = get.version(visit) if get.version else None
                values = {
                    "live": None if version is None else {"version": version, "path": f"{request.url.path}.events"},
                    "here": request.url.path,
                    "form_token": form_token(session.token),
                    "platform": self._platform,
                    "former": self.former,
                }
                return self._templates.page(site.name, get.answer(visit), session, values)

            response = html(await self._in_thread(on_behalf_of(request, session, make)))
            if site.worker:
                response.headers["content-security-policy"] = WORKER_POLICY
            return remembering(response, session)

        return answer

    def _worker(self, site: Site) -> Endpoint:
        content = self._assets.worker(f"{site.name}/{site.worker}")

        async def answer(request: Request) -> Response:
            return Response(content, headers={"content-type": TYPES[".js"], "cache-control": "no-cache"})

        return answer

    def _json(self, get: Get) -> Endpoint:
        async def answer(request: Request) -> Response:
            session, visit = await self._admitted(request, get.roles)
            return json(await self._in_thread(on_behalf_of(request, session, lambda: as_json(get.answer(visit).view))))

        return answer

    def _stream(self, get: Get, version: Callable[[Visit], str]) -> Endpoint:
        async def answer(request: Request) -> Response:
            session, visit = await self._admitted(request, get.roles)

            async def look() -> str:
                return await self._in_thread(on_behalf_of(request, session, lambda: version(visit)))

            async def check() -> None:
                await self._admitted(request, get.roles)

            return self._streams.answer(visit.principal.user, look, check)

        return answer

    def _form(self, post: Post) -> Endpoint:
        async def answer(request: Request) -> Response:
            session, visit = await self._admitted(request, post.roles, form=True)
            work = self._recorded(request, session, lambda: post.answer(visit))
            followed = await self._in_thread(on_behalf_of(request, session, work))
            return redirect(local_path(followed.path))

        return answer

    def _call(self, call: Call) -> Endpoint:
        async def answer(request: Request) -> Response:
            session, visit = await self._admitted(request, call.roles, call=call)

            def ask() -> object:
                return call.answer(visit)

            work = self._recorded(request, session, ask) if call.method == "POST" else ask
            found = await self._in_thread(on_behalf_of(request, session, work))
            response = json(written(found))
            response.headers[HEADER] = form_token(session.token)
            return response

        return answer

    def _follow(self, follow: Follow) -> Endpoint:
        async def answer(request: Request) -> Response:
            _, visit = await self._admitted(request, follow.roles)

            async def check() -> None:
                await self._admitted(request, follow.roles)

            return self._apis.stream(
                request, self._streams.following(visit.principal.user, follow.answer(visit), check)
            )

        return answer

    async def _home(self, request: Request) -> Response:
        session, _ = await self._admitted(request, frozenset(USERS))
        entry = next((each for each in self._entries if session.principal.may(each.roles)), None)
        if entry is None:
            raise PermissionDenied("no page of this platform is for your role")
        return redirect(entry.path)

    async def _health(self, request: Request) -> Response:
        reasons = {name: reason for name, reason in self._reasons().items() if reason}
        if self.draining.is_set():
            reasons["pages"] = "drains"
        return json(dumps(reasons), status=503 if reasons else 200)

    async def _static(self, request: Request) -> Response:
        asset = self._assets.find(request.url.path)
        if asset is None:
            raise HttpProblem(404, "no such file: the page that named it is older than this server; load it again")
        return Response(asset.content, headers={"content-type": asset.type, "cache-control": YEAR})

    async def _login_page(self, request: Request) -> Response:
        """Show whom the link logs in; a click spends it.

        Programs that fetch links (mail scanners, chats) do not spend it, and no page of another site makes a browser
        somebody else's.
        """
        link, following = request.path_params["token"], local_path(request.query_params.get("next", "/"))
        users = await self._in_thread(lambda: self._visitors.described(request.headers, address_of(request), link))
        values = {
            "token": link,
            "next": following,
            "user": shown_name(users.user, users.display_name),
            "session_user": shown_name(users.session_user, users.session_display_name),
            "other": users.session_user not in ("", users.user),
        }
        return html(self._templates.shared("login.html", "Log in", None, values))

    async def _log_in(self, request: Request) -> Response:
        form = await self._checked_form(request, MOST_LOGIN_BYTES)
        link, response = form.get("token", ""), redirect(local_path(form.get("next", "/")))
        try:
            cookie = await self._in_thread(lambda: self._visitors.log_in(request.headers, address_of(request), link))
        except Refused as refused:
            try:  # somebody who is logged in opens the link again
                await self._admitted(request, frozenset(USERS))
            except (Unauthenticated, PermissionDenied):
                raise refused from None
            return response
        response.headers["set-cookie"] = cookie
        return response

    async def _log_out(self, request: Request) -> Response:
        session, _ = await self._admitted(request, frozenset(USERS), form=True)
        cookie = await self._in_thread(lambda: self._visitors.log_out(session.token))
        response = html(self._templates.shared("logged-out.html", "You are logged out", None, {}))
        response.headers["set-cookie"] = cookie
        return response

    async def _admitted(
        self,
        request: Request,
        roles: frozenset[Role],
        *,
        replaceable: bool = False,
        form: bool = False,
        call: Call | None = None,
    ) -> tuple[Session, Visit]:
        """Return the session and the visit of a request. Raises Unauthenticated, PermissionDenied, HttpProblem."""
        address, action = address_of(request), action_of(request)
        changes = call is not None and call.method == "POST"
        if form or changes:
            await self._check_origin(request)

        def authenticate() -> Session:
            found = self._visitors.authenticate(request.headers, address, action, replaceable=replaceable)
            try:
                check_role(found.principal, roles)
            except PermissionDenied as problem:
                self._record(request, problem.reason, found.principal.user)
                raise
            return found

        session = await self._in_thread(authenticate)
        # No body is received for somebody without a session.
        fields = await self._checked_form(request) if form else {}
        body = await self._checked_json(request, call.max_bytes) if call is not None and changes else None
        shown = request.headers.get(HEADER, "") if changes else fields.get(FIELD, "")
        if (form or changes) and not same(shown, form_token(session.token)):
            await self._in_thread(lambda: self._record(request, FORGED, session.principal.user))
            raise HttpProblem(403, "this form was not made for your session: load its page again")
        asked = request.query_params
        several = {name: asked.getlist(name) for name in asked}
        return session, Visit(session.principal, request.path_params, dict(asked), fields, body, several)

    async def _checked_form(self, request: Request, most: int = 0) -> dict[str, str]:
        """The fields of a form that a page of this server sent. Raises HttpProblem."""
        body = await self._checked_body(request, most or self._settings.max_body_bytes)
        try:
            fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000))
        except ValueError:
            raise HttpProblem(400, "the form is not UTF-8 text, or has more than 1000 fields") from None
        if any("\0" in text for text in fields.values()):  # which no database stores
            raise HttpProblem(400, "a field of the form has the character NUL")
        return fields

    async def _checked_json(self, request: Request, most: int) -> object:
        """The JSON that a script of this server sent. Raises HttpProblem."""
        body = await self._checked_body(request, most)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HttpProblem(415, "the body is not declared as application/json")
        return read(body)

    async def _checked_body(self, request: Request, most: int) -> bytes:
        """Return the body of a form that a page of this server sent. Raises HttpProblem."""
        await self._check_origin(request)
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                check_size(len(body), most)
        except ClientDisconnect:
            raise HttpProblem(400, "the request ended before it was whole") from None
        return bytes(body)

    async def _check_origin(self, request: Request) -> None:
        """Raise HttpProblem unless a page of this server sent the request."""
        if not is_same_origin(request.headers):
            await self._in_thread(lambda: self._record(request, FORGED))
            raise HttpProblem(403, "this form was sent by a page of another site, or by no browser")

    def _record(self, request: Request, reason: str, user: str = "") -> None:
        self._visitors.record_refusal(request.headers, address_of(request), action_of(request), reason, user)

    def _recorded(self, request: Request, session: Session, work: Callable[[], T]) -> Callable[[], T]:
        """`work`, which may change something; what refuses it, or makes it fail, is recorded."""

        def run() -> T:
            try:
                return work()
            except Exception as error:
                self._record(request, problem_of(error).reason, session.principal.user)
                raise

        return run

    def _caught(self, route: str, answer: Endpoint, *, is_json: bool = False) -> Endpoint:
        """`answer` inside its span; whatever it raises becomes a page or JSON."""

        async def endpoint(request: Request) -> Response:
            request.state.is_json = is_json or request.url.path.endswith(".json")
            task, started = asyncio.current_task(), time.perf_counter()
            assert task is not None
            self._inside[task] = f"{request.method} {route}"
            response: Response | None = None
            try:
                with span_from("", f"{request.method} {route}", kind=SpanKind.SERVER):
                    response = await self._answered(request, answer)
                return response
            finally:
                del self._inside[task]
                status = str(response.status_code) if response else "cancelled"
                self._seconds.labels(route, status).observe(time.perf_counter() - started)

        return endpoint

    async def _answered(self, request: Request, answer: Endpoint) -> Response:
        try:
            return await answer(request)
        except HttpProblem as problem:
            return self._refusal(request, problem.status, problem.message, None)
        except TimeoutError:
            return self._refusal(request, 504, "the page was not made in time: load it again", None)
        except Exception as error:
            if (found := problem_of(error)).code != "INTERNAL":
                return self._refusal(request, status_of(found), found.message, found)
            incident = uuid.uuid4().hex[:12]
            log.error("%s failed, incident %s", action_of(request), incident, exc_info=error)
            return self._refusal(request, 500, f"a defect of ours; the log has the incident {incident}", None)

    def _refusal(self, request: Request, status: int, words: str, problem: Problem | None) -> Response:
        reason = problem.reason if problem else ""
        if getattr(request.state, "is_json", request.url.path.endswith(".json")):
            response = json(error_body(status, words, problem), status=status)
        else:
            values: Mapping[str, object] = {
                "status": status,
                "words": words,
                "log_in": LOG_IN if isinstance(problem, Unauthenticated) else (),
                "here": quote(request.url.path),
            }
            title = TITLES.get(status, OUR_FAULT)
            response = html(self._templates.shared("error.html", title, None, values), status=status)
        # A page's own requests may be answered after the browser has logged in anew: they must not remove that session.
        navigates = request.headers.get("sec-fetch-mode", "navigate") == "navigate"
        if isinstance(problem, Unauthenticated) and reason != NO_SESSION and navigates:
            response.headers["set-cookie"] = self._visitors.forgotten
        if isinstance(problem, Refused) and (wait := problem.metadata.get("retry_after")):
            response.headers["retry-after"] = wait
        return response

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Raises TimeoutError at the deadline; the thread goes on."""
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, lambda: context.run(work))
        return await asyncio.wait_for(running, self._settings.deadline_seconds)
