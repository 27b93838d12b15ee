"""Canonical URLs: one spelling for every URL of the same page, and a reason why a reference has none.

A reference is parsed as browsers do (WHATWG URL, by ada). Then the fragment and session parameters are removed, escapes
are normalised (RFC 3986, section 6.2.2) and dot segments that appear after these removals are resolved. The order of
query parameters stays, since it can matter.

Promises: `canonical` is idempotent, so that scope, robots.txt and the request see the same path.
"""

from __future__ import annotations

import re
from enum import StrEnum
from urllib.parse import quote_from_bytes

import ada_url

MAX_LENGTH = 2_000
SESSION_PARAMETERS = frozenset(
    (
        "phpsessid",
        "jsessionid",
        "aspsessionid",
        "asp.net_sessionid",
        "sessionid",
        "session_id",
        "sid",
        "cfid",
        "cftoken",
    )
)
_SERIALISED = re.compile(
    r"(?P<scheme>https?)://(?P<user>[^/?#]*@)?(?P<host>\[[0-9a-f:]+\]|[^/?#:]*)(?::(?P<port>[0-9]+))?"
    r"(?P<path>/[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?",
    re.DOTALL,
)
"""A URL of http as the WHATWG standard serialises it."""
_HOST_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
"""A DNS name. Underscores are not legal in host names, and are served all the same."""
_ABSOLUTE = re.compile(r"[\x00-\x20]*[A-Za-z][A-Za-z0-9+.-]*:")
_PORT = re.compile(r"^([^/\\?#]*:[/\\]+[^/\\?#]*[^/\\?#:\]]\]?):[^/\\?#\]]*")
"""The beginning of an absolute URL up to its host, and the port."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_SESSION_IN_PATH = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/;]*", re.IGNORECASE)
_AMBIGUOUS_DOTS = re.compile(r"(?:/|%2F|%5C)\.{1,2}(?:;|%3B|%2F|%5C|/|\Z)")
_PATH_SAFE = "!$&'()*+,;=:@-._~/"
_QUERY_SAFE = _PATH_SAFE + "?"
_PLAIN = re.compile("[A-Za-z0-9/._~=&-]*")
"""Characters that need no escape in a path or a query."""
_ESCAPE = re.compile(rb"(%[0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(rb"[A-Za-z0-9._~-]")


class Fault(StrEnum):
    """The reason why a reference names no page."""

    SCHEME = "scheme"  # neither http nor https
    HOST = "host"  # missing, or neither a name nor an address
    USER = "user"  # contains a user name or a password
    PORT = "port"  # not in 1 to 65535
    LENGTH = "length"  # longer than MAX_LENGTH
    DOTS = "dots"  # `..;x/` or `..%2F`: some servers leave the folder there, and no rule of theirs would match


class NotAPage(Exception):
    """A reference that is not followed because of `fault`."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def canonical(reference: str, base: str = "") -> str:
    """Return the canonical URL of a reference on the page `base`. Raises NotAPage."""
    if len(reference) > 2 * MAX_LENGTH:
        raise NotAPage(Fault.LENGTH)
    text = _SURROGATE.sub("\ufffd", reference)  # as browsers decode them
    try:
        url = ada_url.join_url(base, text) if base else ada_url.normalize_url(text)
    except ValueError as error:
        raise NotAPage(_fault(text, base)) from error
    parts = _SERIALISED.fullmatch(url)
    if parts is None:
        raise NotAPage(Fault.SCHEME)
    if parts["user"]:
        raise NotAPage(Fault.USER)
    if parts["port"] == "0":
        raise NotAPage(Fault.PORT)
    port = f":{parts['port']}" if parts["port"] else ""
    found = f"{parts['scheme']}://{_host(parts['host'])}{port}{_path(parts['path'])}{_query(parts['query'] or '')}"
    if len(found) > MAX_LENGTH:
        raise NotAPage(Fault.LENGTH)
    return found


def host_of(url: str) -> str:
    """Return scheme, host and port of a canonical URL: the unit of robots.txt and of politeness."""
    return url[: url.index("/", url.index("://") + 3)]


def _fault(text: str, base: str) -> Fault:
    """Return the reason why the parser refused a reference."""
    if not base and not _ABSOLUTE.match(text):
        return Fault.SCHEME
    start = _PORT.match(text)
    return Fault.PORT if start and ada_url.check_url(start[1]) else Fault.HOST


def _host(host: str) -> str:
    """Remove the dot of a fully qualified name. Raises NotAPage."""
    name = host.removesuffix(".")
    if name[:1] != "[" and not _HOST_NAME.fullmatch(name):
        raise NotAPage(Fault.HOST)
    return name


def _path(path: str) -> str:
    """Escapes come first, since they can hide a session parameter, which can hide a dot segment. Raises NotAPage."""
    path = _escaped(path, _PATH_SAFE)
    if ";" in path:
        path = _without_dots(_SESSION_IN_PATH.sub("", path))
    if _AMBIGUOUS_DOTS.search(path):
        raise NotAPage(Fault.DOTS)
    return path


def _query(query: str) -> str:
    parameters = _escaped(query, _QUERY_SAFE).split("&")
    kept = "&".join(each for each in parameters if each.partition("=")[0].lower() not in SESSION_PARAMETERS)
    return f"?{kept}" if kept else ""


def _without_dots(path: str) -> str:
    """Resolve dot segments (RFC 3986, section 5.2.4) of an absolute path without escaped dots."""
    found: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment not in (".", ".."):
            found.append(segment)
        elif segment == ".." and found:
            found.pop()
    if segments[-1] in (".", ".."):
        found.append("")
    return "/" + "/".join(found)


def _escaped(text: str, safe: str) -> str:
    """Decode escapes of unreserved characters, escape what must be, in upper case."""
    if _PLAIN.fullmatch(text):
        return text
    pieces = _ESCAPE.split(text.encode())
    return "".join(
        _octet(piece) if place % 2 else quote_from_bytes(piece, safe=safe) for place, piece in enumerate(pieces)
    )


def _octet(escape: bytes) -> str:
    octet = bytes([int(escape[1:], 16)])
    return octet.decode() if _UNRESERVED.fullmatch(octet) else escape.decode().upper()
