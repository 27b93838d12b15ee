"""The calls that access answers.

Promises: a link opens one session; whatever is refused is in the audit trail, with the reason; a valid link is never
refused because of the failures of others.
"""

import hashlib
from datetime import datetime, timedelta

from tutti.access import sessions
from tutti.access.allowances import Rates
from tutti.access.reservations import Reservations
from tutti.access.reserving import ReservationCalls
from tutti.access.sessions import Reason, Terms
from tutti.access.settings import AccessSettings
from tutti.access.tables import VALID, Link, Personal, Tables
from tutti.access.tokens import TAKEN, TokenCalls, check_digest, timestamp, wire_of
from tutti.chassis.enums import named
from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.identity import principal
from tutti.chassis.identity.auth import USERS, Role
from tutti.chassis.identity.principal import DEFAULT_TENANT, Method
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.store import audit, crud
from tutti.chassis.store.limits import Limit
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit
from tutti.contracts.access.v1 import (
    USER_STATE_ACTIVE,
    USER_STATE_DISABLED,
    USER_STATE_INVITED,
    AuthenticateRequest,
    AuthenticateResponse,
    CheckCredentialRequest,
    CheckCredentialResponse,
    CloseSessionRequest,
    CloseSessionResponse,
    CreateUserRequest,
    CreateUserResponse,
    DescribeLinkRequest,
    DescribeLinkResponse,
    DisableUserRequest,
    ErasedUser,
    EraseUserRequest,
    IssueLinkRequest,
    IssueLinkResponse,
    ListUsersResponse,
    OpenSessionRequest,
    OpenSessionResponse,
    RecordRefusalRequest,
    RecordRefusalResponse,
    User,
)
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.options.v1 import Role as WireRole

LINK_REFUSED, TOO_MANY_FAILURES = "LINK_REFUSED", "TOO_MANY_FAILURES"
ROLES = tuple(WireRole.Value(f"ROLE_{role.name}") for role in USERS)
LONGEST_NAME = 200
LOGIN, LOGOUT, ISSUE_LINK, ERASE = "log in", "log out", "issue a login link", "erase a user"
BUILT_IN = frozenset(f"users/{role.value}" for role in USERS)
declare(
    {
        LINK_REFUSED: "the login link is unknown, expired or used",
        TOO_MANY_FAILURES: "too many failed logins from this address; the message says how long to wait",
        Reason.UNKNOWN.value: "no session has this token",
        Reason.EXPIRED.value: "the session was not used for too long, or is too old",
        Reason.CLOSED.value: "the session was logged out",
        Reason.STOLEN.value: "the session's token was used by two browsers; the session ended for both",
        Reason.DISABLED.value: "the user was disabled",
        Reason.REVOKED.value: "the token by which the session was opened was revoked",
    }
)


class AccessApi(TokenCalls, ReservationCalls):
    def __init__(
        self, host: Host, tables: Tables, settings: AccessSettings, reservations: Reservations, rates: Rates
    ) -> None:
        TokenCalls.__init__(self, host.units, tables, settings.agent_blobs)
        ReservationCalls.__init__(self, host.units, tables, reservations, rates)
        self._settings = settings
        longest, rotation = timedelta(days=settings.session_days), timedelta(minutes=settings.rotate_minutes)
        self._terms = Terms(timedelta(hours=settings.idle_hours), longest, rotation)
        self._annotator_terms = Terms(timedelta(days=settings.annotator_idle_days), longest, rotation)
        self._failures = Limit(settings.failed_logins, settings.failed_logins_per_minute / 60)

    def CreateUser(self, request: CreateUserRequest, call: Call) -> CreateUserResponse:
        required(request, "display_name", "roles")
        _check_display_name(request.display_name)
        for role in request.roles:
            if role not in ROLES:
                raise InvalidField(
                    "roles", seen=named(WireRole, role), expected="operator, engineer, annotator or client"
                )
        tenant = check_name("tenants", request.tenant or DEFAULT_TENANT)

        def create(unit: Unit) -> User:
            user = User(
                name=f"users/{_opaque(request.request_id or unit.new_id())}",
                roles=sorted(set(request.roles)),
                tenant=tenant,
                state=USER_STATE_INVITED,
                created_at=timestamp(unit),
            )
            if request.validate_only:
                return user
            made = self._tables.users.create(unit, user, request)
            if made.state != USER_STATE_DISABLED:  # a request that is repeated does not bring back an erased name
                self._tables.name_person(unit, made.name, request.display_name.strip())
            return made

        return CreateUserResponse(user=self._units.run(create))

    def ListUsers(self, request: ListRequest, call: Call) -> ListUsersResponse:
        page = crud.list_page(self._units, self._tables.users, request, ListUsersResponse, call.principal)
        users = [user.name for user in page.users]
        page.display_names.update(self._units.run(lambda unit: self._tables.display_names(unit, users)))
        return page

    def DisableUser(self, request: DisableUserRequest, call: Call) -> User:
        check_name("users", request.name)

        def disable(unit: Unit) -> User:
            user = self._tables.users.lock(unit, request.name)
            user.state = USER_STATE_DISABLED
            if request.validate_only:
                return user
            self._tables.expel(unit, user.name)
            return self._tables.users.put(unit, user)

        return self._units.run(disable)

    def EraseUser(self, request: EraseUserRequest, call: Call) -> ErasedUser:
        name = check_name("users", request.name)
        if name in BUILT_IN:
            raise InvalidField("name", seen=name, expected="the user of a person; this one has no personal data")

        def erase(unit: Unit) -> Personal:
            user = self._tables.users.lock(unit, name)
            found = self._tables.personal(unit, name)
            if request.validate_only or (found == Personal() and user.erased):
                return found
            self._tables.erase(unit, name)
            user.state, user.erased = USER_STATE_DISABLED, True
            self._tables.users.put(unit, user)
            if not unit.wrote(name):
                audit.changed(unit, call.principal, ERASE, name)
            return found

        found = self._units.run(erase)
        return ErasedUser(
            name=name,
            display_name=found.display_name,
            sessions=found.sessions,
            links=found.links,
            tokens=found.tokens,
        )

    def IssueLink(self, request: IssueLinkRequest, call: Call) -> IssueLinkResponse:
        check_digest(request, "link_digest")
        name = self._named(call, request.user)

        def create(unit: Unit) -> Link:
            user = self._enabled(unit, call, name)
            found = self._tables.link(unit, request.link_digest)
            if found is not None and found.user != name:
                raise Refused(TAKEN, f"this link_digest belongs to a link of {found.user}: make a new token")
            until = self._no_longer(unit, call, name, unit.now + self._validity(request, user))
            link = found or Link(request.link_digest, name, until, "", call.principal.credential)
            if found is None:
                self._tables.keep_link(unit, link)
                audit.changed(unit, call.principal, ISSUE_LINK, name)
            return link

        link = self._units.run(create)
        response = IssueLinkResponse(user=link.user, used=bool(link.used_by))
        response.expires_at.FromDatetime(link.expires_at)
        return response

    def CheckCredential(self, request: CheckCredentialRequest, call: Call) -> CheckCredentialResponse:
        return CheckCredentialResponse()  # the server has checked it

    def DescribeLink(self, request: DescribeLinkRequest, call: Call) -> DescribeLinkResponse:
        check_digest(request, "link_digest")

        def describe(unit: Unit) -> DescribeLinkResponse:
            link, user = self._tables.link(unit, request.link_digest), ""
            if link is not None and unit.now < link.expires_at and not link.used_by:
                user = link.user if self._tables.users.get(unit, link.user).state != USER_STATE_DISABLED else ""
            other = self._user_of_session(unit, request.session_digest, request.visitor.agent_digest)
            names = self._tables.display_names(unit, [each for each in (user, other) if each])
            return DescribeLinkResponse(
                user=user,
                display_name=names.get(user, ""),
                session_user=other,
                session_display_name=names.get(other, ""),
            )

        return self._units.run(describe)

    def _user_of_session(self, unit: Unit, session_digest: str, agent_digest: str) -> str:
        """Return the user of a session that is valid, "" for any other; nothing of the session changes."""
        session = self._tables.session(unit, session_digest) if session_digest else None
        if session is None:
            return ""
        terms = self._terms_of(self._tables.users.get(unit, session.user))
        verdict = sessions.presented(session, session_digest, "", agent_digest, unit.now, terms)
        return "" if verdict.refused else session.user

    def _terms_of(self, user: User) -> Terms:
        return self._annotator_terms if _only_annotates(user) else self._terms

    def OpenSession(self, request: OpenSessionRequest, call: Call) -> OpenSessionResponse:
        for field in ("link_digest", "session_digest"):
            check_digest(request, field)

        def open_(unit: Unit) -> OpenSessionResponse | Reason | None:
            link = self._tables.link(unit, request.link_digest)
            if link is None or unit.now >= link.expires_at or link.used_by not in ("", request.session_digest):
                return None
            issuer = self._tables.token(unit, link.issuer) if link.issuer else None
            own = issuer is not None and issuer.user == link.user
            if own and issuer is not None and issuer.state(unit.now) != VALID:
                return None
            user = self._tables.users.lock(unit, link.user)
            if user.state == USER_STATE_DISABLED:
                return Reason.DISABLED
            if link.used_by:  # the answer to the same request was lost
                found = self._tables.session(unit, request.session_digest)
                return _opened(user, found.expires_at(self._terms_of(user))) if found and not found.ended else None
            self._tables.spend_link(unit, link.digest, request.session_digest)
            if request.replaces and (before := self._tables.session(unit, request.replaces)):
                self._tables.put_session(unit, sessions.closed(before))
            agent = request.visitor.agent_digest
            session = sessions.opened(
                unit.new_id(),
                user.name,
                agent,
                request.session_digest,
                unit.now,
                issuer=link.issuer if own else "",
                until=issuer.expires_at if own and issuer is not None else None,
            )
            self._tables.keep_session(unit, session)
            audit.changed(unit, principal_of(user), LOGIN, user.name, address=request.visitor.address)
            user.state = USER_STATE_ACTIVE
            return _opened(self._tables.users.put(unit, user), session.expires_at(self._terms_of(user)))

        found = self._units.run(open_)
        if isinstance(found, OpenSessionResponse):
            return found
        raise self._failed_login(request.visitor.address, found.value if found else LINK_REFUSED)

    def Authenticate(self, request: AuthenticateRequest, call: Call) -> AuthenticateResponse:
        check_digest(request, "session_digest")
        visitor = request.visitor

        def authenticate(unit: Unit) -> AuthenticateResponse | Reason:
            session = self._tables.session(unit, request.session_digest)
            if session is None:
                reason: Reason | None = Reason.UNKNOWN
            else:
                user = self._tables.users.get(unit, session.user)
                terms = self._terms_of(user)
                verdict = sessions.presented(
                    session, request.session_digest, request.next_digest, visitor.agent_digest, unit.now, terms
                )
                reason = verdict.refused
                if verdict.session != session:
                    self._tables.put_session(unit, verdict.session)
            if reason is not None or session is None:
                refused = reason or Reason.UNKNOWN
                who = session.user if session else ""
                method = Method.SESSION.value if session else ""
                audit.refused(unit, request.action, refused.value, user=who, method=method, address=visitor.address)
                return refused
            names = self._tables.display_names(unit, [user.name])
            answer = AuthenticateResponse(principal=wire_of(user), replaced=verdict.replaced)
            answer.display_name = names.get(user.name, "")
            answer.expires_at.FromDatetime(verdict.session.expires_at(terms))
            return answer

        found = self._units.run(authenticate)
        if isinstance(found, Reason):
            raise Refused(found.value, "the session is not valid: log in again")
        return found

    def CloseSession(self, request: CloseSessionRequest, call: Call) -> CloseSessionResponse:
        check_digest(request, "session_digest")

        def close(unit: Unit) -> None:
            session = self._tables.session(unit, request.session_digest)
            if session is not None and not session.ended:
                self._tables.put_session(unit, sessions.closed(session))
                audit.changed(unit, principal_of(self._tables.users.get(unit, session.user)), LOGOUT, session.user)

        self._units.run(close)
        return CloseSessionResponse()

    def RecordRefusal(self, request: RecordRefusalRequest, call: Call) -> RecordRefusalResponse:
        required(request, "action", "reason")
        address, user = request.visitor.address, request.user
        method = Method.SESSION.value if user else ""
        self._units.run(
            lambda unit: audit.refused(unit, request.action, request.reason, user=user, method=method, address=address)
        )
        return RecordRefusalResponse()

    def _validity(self, request: IssueLinkRequest, user: User) -> timedelta:
        longest = timedelta(days=self._settings.invitation_days)
        if request.valid_seconds:
            asked = timedelta(seconds=request.valid_seconds)
            if asked > longest:
                expected = f"at most {longest.total_seconds():.0f}"
                raise InvalidField("valid_seconds", seen=request.valid_seconds, expected=expected)
            return asked
        if user.state == USER_STATE_INVITED:
            return longest
        if _only_annotates(user):
            return timedelta(hours=self._settings.annotator_link_hours)
        return timedelta(minutes=self._settings.link_minutes)

    def _failed_login(self, address: str, reason: str) -> Refused:
        """Record a failed login; the error that its caller gets."""

        def fail(unit: Unit) -> float:
            wait = self._tables.limits.charge(unit, f"login/{address}", self._failures)
            audit.refused(unit, LOGIN, TOO_MANY_FAILURES if wait else reason, address=address)
            return wait

        if wait := self._units.run(fail):
            message = f"too many failed logins from this address: wait {wait:.0f} s"
            return Refused(TOO_MANY_FAILURES, message, {"retry_after": f"{wait:.0f}"})
        return Refused(reason, "the link is unknown, expired or used: ask who sent it for another (`tutti open`)")


def _opaque(seed: str) -> str:
    """An id that says nothing about its user; a request that is repeated gets the same."""
    return f"u{hashlib.sha256(seed.encode()).hexdigest()[:19]}"


def _only_annotates(user: User) -> bool:
    """True for a user with the role of an annotator and no other one, who works for days with one login."""
    return list(user.roles) == [WireRole.ROLE_ANNOTATOR]


def _opened(user: User, expires_at: datetime) -> OpenSessionResponse:
    response = OpenSessionResponse(principal=wire_of(user))
    response.expires_at.FromDatetime(expires_at)
    return response


def principal_of(user: User) -> principal.Principal:
    """A user who has a session."""
    roles = frozenset(Role(WireRole.Name(role).removeprefix("ROLE_").lower()) for role in user.roles)
    return principal.Principal(user.name, roles, user.tenant, Method.SESSION)


def _check_display_name(name: str) -> None:
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidField("display_name", seen=name, expected=f"1 to {LONGEST_NAME} printable characters")
