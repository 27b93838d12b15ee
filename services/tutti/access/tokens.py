"""The calls about tokens: users', agents', and the invitations of machines that join.

Promises: a token is known by its digest alone; one that expired, was revoked or was used is refused, and the refusal is
in the audit trail; an invitation is exchanged once, for the credential of the node that it names.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from tutti.access.sessions import Reason
from tutti.access.tables import EXPIRED, REVOKED, USED, VALID, Tables, Token
from tutti.chassis.errors import InvalidField, NotFound, PermissionDenied, Refused, declare
from tutti.chassis.identity.auth import NODE, USERS, Role
from tutti.chassis.identity.principal import DEFAULT_TENANT
from tutti.chassis.rpc.call import Call
from tutti.chassis.store import audit
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit, Units
from tutti.contracts.access.v1 import (
    TOKEN_KIND_INVITATION,
    TOKEN_KIND_LINK,
    TOKEN_KIND_NODE,
    TOKEN_KIND_USER,
    USER_STATE_ACTIVE,
    USER_STATE_DISABLED,
    AuthenticateTokenRequest,
    AuthenticateTokenResponse,
    InviteNodeRequest,
    InviteNodeResponse,
    IssueTokenRequest,
    IssueTokenResponse,
    JoinNodeRequest,
    JoinNodeResponse,
    ListTokensRequest,
    ListTokensResponse,
    Principal,
    RevokeTokenRequest,
    User,
)
from tutti.contracts.access.v1 import Token as WireToken
from tutti.contracts.options.v1 import ROLE_AGENT, ROLE_JOINER
from tutti.contracts.options.v1 import Role as WireRole
from tutti.web.tokens import ID_DIGITS

DIGEST = re.compile(r"[0-9a-f]{64}")
ID = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")
TOKEN_DAYS, LONGEST_TOKEN_DAYS = 90, 366
INVITATION_MINUTES, LONGEST_INVITATION_MINUTES = 60, 7 * 24 * 60
NODE_DAYS = 366
ISSUE, REVOKE, INVITE, JOIN = "issue a token", "revoke a token", "invite a node", "join as a node"
TOKEN_REFUSED = "TOKEN_REFUSED"  # noqa: S105 - the name of a reason
TAKEN, INVITATION_REFUSED = "DIGEST_TAKEN", "INVITATION_REFUSED"
declare(
    {
        TOKEN_REFUSED: "the token is unknown, expired or revoked",
        TAKEN: "the digest of a link or token belongs to another user's",
        INVITATION_REFUSED: "the invitation was used, has expired or was revoked; the message says which",
    }
)


class TokenCalls:
    """`agent_blobs` is the URL of the blob store that machines get when they join."""

    def __init__(self, units: Units, tables: Tables, agent_blobs: str) -> None:
        self._units, self._tables, self._agent_blobs = units, tables, agent_blobs

    def IssueToken(self, request: IssueTokenRequest, call: Call) -> IssueTokenResponse:
        check_digest(request, "token_digest")
        name = self._named(call, request.user)
        if request.valid_days > LONGEST_TOKEN_DAYS:
            raise InvalidField("valid_days", seen=request.valid_days, expected=f"at most {LONGEST_TOKEN_DAYS}")

        def issue(unit: Unit) -> Token:
            user = self._enabled(unit, call, name)
            longest = unit.now + timedelta(days=request.valid_days or TOKEN_DAYS)
            until = self._no_longer(unit, call, user.name, longest)
            who = call.principal.user
            return self._kept(
                unit, call, ISSUE, Token(request.token_digest, user.name, until, TOKEN_KIND_USER, who, unit.now)
            )

        token = self._units.run(issue)
        response = IssueTokenResponse(user=token.user)
        response.expires_at.FromDatetime(token.expires_at)
        return response

    def InviteNode(self, request: InviteNodeRequest, call: Call) -> InviteNodeResponse:
        check_digest(request, "token_digest")
        node = _node(request.node)
        if request.valid_minutes > LONGEST_INVITATION_MINUTES:
            raise InvalidField(
                "valid_minutes", seen=request.valid_minutes, expected=f"at most {LONGEST_INVITATION_MINUTES}"
            )

        def invite(unit: Unit) -> Token:
            until = unit.now + timedelta(minutes=request.valid_minutes or INVITATION_MINUTES)
            who = call.principal.user
            return self._kept(
                unit, call, INVITE, Token(request.token_digest, node, until, TOKEN_KIND_INVITATION, who, unit.now)
            )

        token = self._units.run(invite)
        response = InviteNodeResponse(node=token.user)
        response.expires_at.FromDatetime(token.expires_at)
        return response

    def JoinNode(self, request: JoinNodeRequest, call: Call) -> JoinNodeResponse:
        for field in ("invitation_digest", "token_digest"):
            check_digest(request, field)
        node = _node(request.node)
        call.require_node(node)

        def join(unit: Unit) -> Token | str:
            invitation = self._tables.token(unit, request.invitation_digest, lock=True)
            if invitation is None or invitation.kind != TOKEN_KIND_INVITATION or invitation.user != node:
                return "is not one of this node"
            state = invitation.state(unit.now)
            credential = self._tables.token(unit, request.token_digest)
            if state == USED and credential is not None and invitation.used_by == credential.digest:
                return credential  # the answer to the same request was lost
            if state != VALID or credential is not None:
                return {USED: "was used before", EXPIRED: "has expired", REVOKED: "was revoked"}.get(state, "is none")
            for former in self._tables.tokens(unit, node):
                if former.kind == TOKEN_KIND_NODE and former.state(unit.now) == VALID:
                    self._tables.revoke(unit, former.digest)
            self._tables.use_invitation(unit, invitation.digest, request.token_digest)
            until = unit.now + timedelta(days=NODE_DAYS)
            return self._kept(
                unit,
                call,
                JOIN,
                Token(
                    request.token_digest,
                    node,
                    until,
                    TOKEN_KIND_NODE,
                    invitation.created_by,
                    unit.now,
                    issuer=invitation.issuer,
                ),
            )

        found = self._units.run(join)
        if isinstance(found, str):
            self._units.run(
                lambda unit: audit.refused(
                    unit,
                    JOIN,
                    INVITATION_REFUSED,
                    user=node,
                    method=call.principal.method.value,
                    address=call.peer,
                )
            )
            raise Refused(INVITATION_REFUSED, f"the invitation {found}: ask for another with `tutti agent invite`")
        response = JoinNodeResponse(node=found.user, blobs_url=self._agent_blobs)
        response.expires_at.FromDatetime(found.expires_at)
        return response

    def ListTokens(self, request: ListTokensRequest, call: Call) -> ListTokensResponse:
        operates = Role.OPERATOR in call.principal.roles
        name = request.user if operates else self._named(call, request.user)
        tokens = self._units.run(lambda unit: [_wire(unit, each) for each in self._tables.tokens(unit, name)])
        return ListTokensResponse(tokens=tokens)

    def RevokeToken(self, request: RevokeTokenRequest, call: Call) -> WireToken:
        if not ID.fullmatch(request.id):
            raise InvalidField(
                "id", seen=request.id, expected=f"{ID_DIGITS} hexadecimal digits, as `tutti token ls` lists"
            )

        def revoke(unit: Unit) -> WireToken:
            token = self._tables.token_by_id(unit, request.id)
            own = token is not None and token.user == call.principal.user
            if token is None or not (own or Role.OPERATOR in call.principal.roles):
                raise NotFound(f"the token {request.id}")
            if token.revoked_at is None:
                self._tables.revoke_own(unit, token)
                audit.changed(unit, call.principal, REVOKE, token.user)
                token = replace(token, revoked_at=unit.now)
            wire = _wire(unit, token)
            wire.issued.extend(self._issued_to_others(unit, token))
            return wire

        return self._units.run(revoke)

    def _issued_to_others(self, unit: Unit, token: Token) -> list[WireToken]:
        """List what a token issued for others and is still valid; whoever revokes the token is told."""
        found, following = list[WireToken](), [token.digest]
        while following:
            tokens, links = self._tables.issued(unit, following.pop())
            for each in tokens:
                if each.user == token.user:
                    following.append(each.digest)
                elif each.state(unit.now) == VALID:
                    found.append(_wire(unit, each))
            for link in links:
                if link.user != token.user and unit.now < link.expires_at:
                    shown = Token(link.digest, link.user, link.expires_at, TOKEN_KIND_LINK, token.user, unit.now)
                    found.append(_wire(unit, shown))
                    found[-1].ClearField("created_at")
        return found

    def _no_longer(self, unit: Unit, call: Call, user: str, until: datetime) -> datetime:
        """When something expires that a caller gets for itself: no later than the token that it called with."""
        issuer = self._tables.token(unit, call.principal.credential) if call.principal.credential else None
        return until if issuer is None or issuer.user != user else min(until, issuer.expires_at)

    def AuthenticateToken(self, request: AuthenticateTokenRequest, call: Call) -> AuthenticateTokenResponse:
        check_digest(request, "token_digest")

        def authenticate(unit: Unit) -> Principal | None:
            token = self._tables.token(unit, request.token_digest)
            if token is None:
                return None
            if token.kind == TOKEN_KIND_INVITATION:  # JoinNode alone takes it, and says what is wrong with it
                return Principal(user=token.user, roles=[ROLE_JOINER], tenant=DEFAULT_TENANT)
            if token.state(unit.now) != VALID:
                return None
            if token.kind == TOKEN_KIND_NODE:
                return Principal(user=token.user, roles=[ROLE_AGENT], tenant=DEFAULT_TENANT)
            return wire_of(self._tables.users.get(unit, token.user))

        principal = self._units.run(authenticate)
        if principal is not None:
            principal.credential = request.token_digest
        if principal is None:
            raise Refused(TOKEN_REFUSED, "the token is unknown, expired or revoked")
        return AuthenticateTokenResponse(principal=principal)

    def _kept(self, unit: Unit, call: Call, action: str, token: Token) -> Token:
        """Keep a new token, unless the same was kept before. Raises Refused for the digest of another one."""
        found = self._tables.token(unit, token.digest)
        if token.kind != TOKEN_KIND_NODE:  # whose issuer is that of the invitation
            token = replace(token, issuer=call.principal.credential)
        if found is None:
            self._tables.keep_token(unit, token)
            audit.changed(unit, call.principal, action, token.user)
            return token
        if (found.user, found.kind) != (token.user, token.kind):
            raise Refused(TAKEN, f"this token_digest belongs to a token of {found.user}: make a new token")
        return found

    def _named(self, call: Call, user: str) -> str:
        """The user that a request is about. Raises PermissionDenied unless it is the caller, or an operator asks."""
        own = call.principal.user
        name = check_name("users", user or own)
        if name != own and Role.OPERATOR not in call.principal.roles:
            raise PermissionDenied(f"this may be done for {name} by operator, not by {call.role.value}")
        return name

    def _enabled(self, unit: Unit, call: Call, name: str) -> User:
        """Raises NotFound, Refused."""
        built_in = next((role for role in USERS if name == f"users/{role.value}"), None)
        user = self._owner(unit, built_in) if built_in else self._tables.users.get(unit, name)
        if user.state == USER_STATE_DISABLED:
            raise Refused(Reason.DISABLED.value, f"{name} is disabled: create another user")
        return user

    def _owner(self, unit: Unit, role: Role) -> User:
        """The user behind the tokens of a role: readers of the file `tokens`, and holders of issued ones."""
        name = f"users/{role.value}"
        found = self._tables.users.find(unit, name)
        if found is not None:
            return found
        roles = [WireRole.Value(f"ROLE_{role.name}")]
        user = User(name=name, roles=roles, tenant=DEFAULT_TENANT, state=USER_STATE_ACTIVE, created_at=timestamp(unit))
        self._tables.name_person(unit, name, role.value.capitalize())
        return self._tables.users.create(unit, user)


def check_digest(request: Message, field: str) -> None:
    value = str(getattr(request, field))
    if not DIGEST.fullmatch(value):
        raise InvalidField(field, seen=f"{len(value)} characters", expected="a SHA-256 digest of 64 hexadecimal digits")


def wire_of(user: User) -> Principal:
    roles: Sequence[WireRole.ValueType] = list(user.roles)
    return Principal(user=user.name, roles=roles, tenant=user.tenant)


def timestamp(unit: Unit) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(unit.now)
    return stamp


def _node(name: str) -> str:
    """Raises InvalidField unless this is the name of a node."""
    if not NODE.fullmatch(check_name("nodes", name).removeprefix("nodes/")):
        raise InvalidField("node", seen=name, expected="nodes/NAME of lower-case letters, digits and ._-")
    return name


def _wire(unit: Unit, token: Token) -> WireToken:
    wire = WireToken(
        id=token.id, kind=token.kind, owner=token.user, created_by=token.created_by, state=token.state(unit.now)
    )
    wire.created_at.FromDatetime(token.created_at)
    wire.expires_at.FromDatetime(token.expires_at)
    return wire
