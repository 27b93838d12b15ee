"""Visitors: whose session a request belongs to, as access says.

Promises: access is asked for every request of a person, so that a session which ended is refused at once; a token is
replaced when access says so; what is refused is in the audit trail.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.cookies import CookieError, SimpleCookie

import grpc

from tutti.chassis.errors import Problem, Refused, Unauthenticated
from tutti.chassis.identity.principal import Method, Principal
from tutti.chassis.rpc.usertokens import principal_of
from tutti.chassis.service import FrontHost
from tutti.contracts.access.v1 import (
    AuthenticateRequest,
    CloseSessionRequest,
    DescribeLinkRequest,
    DescribeLinkResponse,
    OpenSessionRequest,
    RecordRefusalRequest,
    Visitor,
)
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.web.policy import is_secure
from tutti.web.simulators import SCHEME, Credentials
from tutti.web.tokens import cookie_name, digest, new_token

NO_SESSION = "NO_SESSION"


@dataclass(frozen=True)
class Session:
    """`token` is what the browser or the simulator has; `cookie` is set where a browser has to learn a new one."""

    principal: Principal
    display_name: str
    token: str
    cookie: str = ""


class Visitors:
    def __init__(self, host: FrontHost, simulators: Credentials) -> None:
        self._secure = is_secure(host.settings)
        self._name = cookie_name(host.secret, secure=self._secure)
        self._channel: Callable[[str], grpc.Channel] = host.channel
        self._simulators = simulators

    def authenticate(self, headers: Mapping[str, str], address: str, action: str, *, replaceable: bool) -> Session:
        """The session of a request. Raises Unauthenticated, with the reason NO_SESSION where there is no cookie."""
        if (given := headers.get("authorization", "")).startswith(SCHEME):
            return self._simulator(given.removeprefix(SCHEME), headers, address, action)
        token = self._token(headers)
        if not token:
            raise Unauthenticated("this browser has no session", reason=NO_SESSION)
        following = new_token() if replaceable else ""
        asked = AuthenticateRequest(
            session_digest=digest(token),
            next_digest=digest(following) if following else "",
            visitor=_visitor(headers, address),
            action=action,
        )
        try:
            answer = self._access.Authenticate(asked)
        except Refused as problem:  # access knows us, but not this session
            raise Unauthenticated(problem.message, reason=problem.reason) from None
        expires_at = answer.expires_at.ToDatetime(tzinfo=UTC)
        cookie = self._cookie(following, expires_at) if answer.replaced else ""
        current = following if answer.replaced else token
        return Session(principal_of(answer.principal, Method.SESSION), answer.display_name, current, cookie)

    def _simulator(self, token: str, headers: Mapping[str, str], address: str, action: str) -> Session:
        principal = self._simulators.principal(token)
        if principal is None:
            self.record_refusal(headers, address, action, Unauthenticated.default_reason)
            raise Unauthenticated("this server did not make the token of this simulator")
        return Session(principal, "", token)

    def described(self, headers: Mapping[str, str], address: str, link: str) -> DescribeLinkResponse:
        """Return the user of a link, which is not spent, and that of the browser's session."""
        token = self._token(headers)
        return self._access.DescribeLink(
            DescribeLinkRequest(
                link_digest=digest(link),
                session_digest=digest(token) if token else "",
                visitor=_visitor(headers, address),
            )
        )

    def log_in(self, headers: Mapping[str, str], address: str, link: str) -> str:
        """Redeem a link; the cookie of the new session. Raises Refused."""
        token, before = new_token(), self._token(headers)
        answer = self._access.OpenSession(
            OpenSessionRequest(
                link_digest=digest(link),
                session_digest=digest(token),
                replaces=digest(before) if before else "",
                visitor=_visitor(headers, address),
            )
        )
        return self._cookie(token, answer.expires_at.ToDatetime(tzinfo=UTC))

    def log_out(self, token: str) -> str:
        """End a session; the cookie that removes its token."""
        self._access.CloseSession(CloseSessionRequest(session_digest=digest(token)))
        return self.forgotten

    def record_refusal(
        self, headers: Mapping[str, str], address: str, action: str, reason: str, user: str = ""
    ) -> None:
        """Write it into the audit trail; a refusal stands even where that fails."""
        visitor = _visitor(headers, address)
        try:
            self._access.RecordRefusal(RecordRefusalRequest(action=action, reason=reason, user=user, visitor=visitor))
        except Problem:
            return

    @property
    def forgotten(self) -> str:
        """The cookie that removes a session's token from a browser."""
        return self._cookie("", datetime.fromtimestamp(0, UTC))

    @property
    def _access(self) -> AccessServiceStub:
        return AccessServiceStub(self._channel("access"))

    def _token(self, headers: Mapping[str, str]) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._name)
        except CookieError:
            return ""
        return found.value if found else ""

    def _cookie(self, token: str, expires_at: datetime) -> str:
        expires = expires_at.strftime("%a, %d %b %Y %H:%M:%S GMT")
        secure = "; Secure" if self._secure else ""
        return f"{self._name}={token}; Path=/; HttpOnly; SameSite=Lax; Expires={expires}{secure}"


def _visitor(headers: Mapping[str, str], address: str) -> Visitor:
    return Visitor(address=address, agent_digest=digest(headers.get("user-agent", "")))
