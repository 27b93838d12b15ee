"""API routes: calls of programs over HTTP, answered in the event loop of the server.

Promises: no handler is called without a user's token that has one of the route's roles, and no body is received before
the token was checked; cookies count for nothing; every refusal has the error body of OpenAI's API and names the
parameter; a client that leaves cancels its handler or closes its stream; a silent stream has a comment line every 15 s;
a stream that fails ends with its error, never as if it were whole.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from tutti.chassis.errors import InvalidField, PermissionDenied, Unauthenticated, problem_of
from tutti.chassis.identity.auth import SCHEME
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.usertokens import UserTokens
from tutti.web.calls import HttpProblem, TooMany, check_role, check_size, read, written
from tutti.web.pages import Api, Ask
from tutti.web.requests import action_of
from tutti.web.responses import STATUS, json, status_of

T = TypeVar("T")
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
log = logging.getLogger(__name__)
QUIET_SECONDS = 15.0
RETRY_SECONDS = "5"
GONE = 499
"""The status of an answer to a client that left, for the metrics."""
TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
}
EVENTS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


class Apis:
    """`tokens` finds users, `in_thread` runs what blocks; `refuse`, run there, records a refusal in the audit trail."""

    def __init__(self, tokens: UserTokens, in_thread: InThread, refuse: Callable[[Request, str, str], None]) -> None:
        self._tokens, self._in_thread, self._refuse = tokens, in_thread, refuse
        self.streaming: dict[object, str] = {}
        """The streams that have not ended, by a key of their own: the requests that they answer."""
        self._folders = set[str]()
        self._closing = set[asyncio.Task[None]]()

    def endpoint(self, api: Api) -> Callable[[Request], Awaitable[Response]]:
        """The handler of a route; it raises nothing."""
        self._folders.add(_folder(api.path))

        async def answer(request: Request) -> Response:
            try:
                return await self._answered(api, request)
            except Exception as error:
                status, body = failure(error, action_of(request))
                response = json(written(body), status=status)
                if status in (429, 503):
                    response.headers["retry-after"] = RETRY_SECONDS
                if isinstance(error, TooMany):
                    response.headers.update(error.headers)
                if status == 401:
                    response.headers["www-authenticate"] = "Bearer"
                return response

        return answer

    def refusal(self, request: Request, status: int, message: str) -> Response | None:
        """The answer to a request for no route, if it is for a path beside API routes."""
        if _folder(request.url.path) not in self._folders:
            return None
        return json(written(error_body(status, message)), status=status)

    async def _answered(self, api: Api, request: Request) -> Response:
        principal = await self._principal(api, request)
        body = api.read(await _body(request, api.max_bytes)) if api.method == "POST" else None
        ask = Ask(principal, request.path_params, dict(request.query_params), dict(request.headers), body)
        reply = await _unless_gone(request, api.answer(ask), api.seconds)
        if reply is None:
            return Response(status_code=GONE)
        if isinstance(reply.body, AsyncGenerator):
            return self.stream(request, reply.body, reply.status, reply.headers)
        response = json(written(reply.body), status=reply.status)
        response.headers.update(reply.headers)
        return response

    def stream(
        self,
        request: Request,
        events: AsyncGenerator[str, None],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Events as the body of an answer."""
        return StreamingResponse(self._lines(request, events), status, {**EVENTS, **(headers or {})})

    async def _principal(self, api: Api, request: Request) -> Principal:
        """The user of the token in the header. Raises Unauthenticated, PermissionDenied."""
        header = request.headers.get("authorization", "")
        found: Principal | None = None
        if header.startswith(SCHEME):
            found = await self._in_thread(lambda: self._tokens.find(header.removeprefix(SCHEME)))
        if found is None:
            reason = Unauthenticated.default_reason
            await self._in_thread(lambda: self._refuse(request, reason, ""))
            raise Unauthenticated("this call needs the token of a user: send the header `Authorization: Bearer TOKEN`")
        try:
            check_role(found, api.roles)
        except PermissionDenied as problem:
            user, reason = found.user, problem.reason
            await self._in_thread(lambda: self._refuse(request, reason, user))
            raise
        return found

    async def _lines(self, request: Request, events: AsyncGenerator[str, None]) -> AsyncIterator[str]:
        """The events of a stream as lines, with comment lines between them, and the error that ended it."""
        key, action = object(), action_of(request)
        self.streaming[key] = action
        following: asyncio.Future[str | None] | None = None
        try:
            while True:
                following = following or asyncio.ensure_future(anext(events, None))
                await asyncio.wait({following}, timeout=QUIET_SECONDS)
                if not following.done():
                    yield ": still here\n\n"
                    continue
                said, following = following.result(), None
                if said is None:
                    return
                yield f"data: {said}\n\n"
        except Exception as error:
            yield f"data: {written(failure(error, action)[1])}\n\n"
        finally:
            # A reader that left has cancelled this task, and with it all that it awaits: another one closes the events.
            self._spawn(self._close(key, events, following))

    async def _close(
        self, key: object, events: AsyncGenerator[str, None], following: "asyncio.Future[str | None] | None"
    ) -> None:
        try:
            if following is not None:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await following
            await events.aclose()
        finally:
            del self.streaming[key]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def failure(error: Exception, action: str) -> tuple[int, dict[str, object]]:
    """The status and the body of an error. A defect has an incident number, which is in the log with its traceback."""
    if isinstance(error, HttpProblem):
        return error.status, error_body(error.status, error.message)
    if isinstance(error, TimeoutError):
        return 504, error_body(504, "there was no answer in time: ask for less, or try again", code="timeout")
    if (problem := problem_of(error)).code in STATUS:
        status, param = status_of(problem), problem.field if isinstance(problem, InvalidField) else None
        return status, error_body(status, problem.message, param=param, code=problem.reason.lower())
    incident = uuid.uuid4().hex[:12]
    log.error("%s failed, incident %s", action, incident, exc_info=error)
    return 500, error_body(500, f"a defect of ours; the log has the incident {incident}", code="internal")


def error_body(status: int, message: str, *, param: str | None = None, code: str | None = None) -> dict[str, object]:
    """The body of an error as OpenAI's API has it."""
    return {"error": {"message": message, "type": TYPES.get(status, "api_error"), "param": param, "code": code}}


def _folder(path: str) -> str:
    """The first segment of a path."""
    return path.split("/")[1]


async def _body(request: Request, most: int) -> object:
    """The JSON of a body. Raises HttpProblem."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            check_size(len(body), most)
    except ClientDisconnect:
        raise HttpProblem(400, "the request ended before it was whole") from None
    return read(bytes(body))


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T], seconds: float) -> T | None:
    """The result of `work`; None if the client left before, which cancels it. Raises TimeoutError."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        done, _ = await asyncio.wait({working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        if leaving in done:
            return None
        raise TimeoutError
    finally:
        for each in (working, leaving):
            each.cancel()
        await asyncio.wait({working, leaving})
