"""URLs: one written form for what is the same page, and a reason for what is none.

The form follows RFC 3986, section 6.2, and what browsers forgive (WHATWG URL): white space around it and line ends in
it go, `\\` is `/`; scheme and host are in lower case, the host in ASCII (IDNA 2008), a port that the scheme implies is
left out, dot segments are resolved, octets are escaped in upper case and only where they must be; the fragment goes,
and so do parameters that name a session. The order of parameters stays: it may mean something.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from enum import StrEnum
from urllib.parse import SplitResult, quote_from_bytes, unquote_to_bytes, urljoin, urlsplit

import idna

MAX_LENGTH = 2_000
PORTS = {"http": 80, "https": 443}
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
_BLANK = re.compile(r"[\t\n\r]")
_ENDS = "".join(map(chr, range(33)))
_SESSION_IN_PATH = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/?#;]*", re.IGNORECASE)
_PATH_SAFE = "!$&'()*+,;=:@-._~/"
_QUERY_SAFE = _PATH_SAFE + "?"
_PLAIN = re.compile("[A-Za-z0-9/._~=&-]*")  # safe in paths and in queries
_BESIDE = re.compile(r"/?[A-Za-z0-9._~-][^:]*\Z")  # references to a path, relative or from the root
_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Fault(StrEnum):
    """Why a reference names no page."""

    SCHEME = "scheme"  # neither http nor https
    HOST = "host"  # none, or none that is a name or an address
    USER = "user"  # carries a name or a password
    PORT = "port"  # none of 1 to 65535
    LENGTH = "length"  # longer than MAX_LENGTH


class NotAPage(Exception):
    """A reference that is not followed; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


def canonical(reference: str, base: str = "") -> str:
    """The canonical URL of a reference on the page `base`. Raises NotAPage."""
    text = _BLANK.sub("", reference.strip(_ENDS))
    if len(text) > 2 * MAX_LENGTH:
        raise NotAPage(Fault.LENGTH)
    if _BESIDE.match(text):  # then pages of one folder have it in common, as they have most of their references
        base = base.partition("?")[0].partition("#")[0]
        base = base[: base.rfind("/") + 1]
    return _canonical(text, base)


@functools.lru_cache(maxsize=4096)
def _canonical(text: str, base: str) -> str:
    if not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", text) or text[:4].lower() == "http":
        head, mark, query = text.partition("?")
        text = head.replace("\\", "/") + mark + query
    try:
        parts = urlsplit(urljoin(base, text))
    except ValueError as error:
        raise NotAPage(Fault.HOST) from error
    if parts.scheme not in PORTS:
        raise NotAPage(Fault.SCHEME)
    if parts.username is not None or parts.password is not None:
        raise NotAPage(Fault.USER)
    query = "&".join(each for each in parts.query.split("&") if not _names_session(each))
    path = _SESSION_IN_PATH.sub("", _without_dots(parts.path)) or "/"
    found = f"{parts.scheme}://{_host(parts)}{_port(parts)}{_escaped(path, _PATH_SAFE)}"
    if query:
        found += "?" + _escaped(query, _QUERY_SAFE)
    if len(found) > MAX_LENGTH:
        raise NotAPage(Fault.LENGTH)
    return found


def host_of(url: str) -> str:
    """Scheme, host and port of a canonical URL: what has one robots.txt and one politeness."""
    return url[: url.index("/", url.index("://") + 3)]


def _names_session(parameter: str) -> bool:
    return parameter.partition("=")[0].lower() in SESSION_PARAMETERS


def _host(parts: SplitResult) -> str:
    return _named(parts.hostname or "", literal="[" in parts.netloc)


@functools.lru_cache(maxsize=4096)
def _named(hostname: str, *, literal: bool) -> str:
    """A name, or an address, of a host in its one form; `literal`: it stood in brackets."""
    name = hostname.rstrip(".")
    if not name:
        raise NotAPage(Fault.HOST)
    if literal:
        try:
            return f"[{ipaddress.IPv6Address(name.partition('%')[0])}]"
        except ValueError as error:
            raise NotAPage(Fault.HOST) from error
    if (address := _address(name)) is not None:
        return address
    try:
        return idna.encode(unquote_to_bytes(name).decode(), uts46=True).decode().lower()
    except (idna.IDNAError, UnicodeError) as error:
        if re.fullmatch(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", name) and len(name) < 254:
            return name  # names with an underscore are no host names, and are served all the same
        raise NotAPage(Fault.HOST) from error


def _address(name: str) -> str | None:
    """An IPv4 address in whatever form (`0x7f.1`, `2130706433`), dotted; None for a name. Raises NotAPage."""
    parts = name.split(".")
    if not re.fullmatch(r"[0-9]+|0x[0-9a-f]*", parts[-1]):
        return None
    try:
        numbers = [_number(each) for each in parts]
    except ValueError as error:
        raise NotAPage(Fault.HOST) from error
    *heads, last = numbers
    if len(numbers) > 4 or any(each > 255 for each in heads) or last >= 256 ** (5 - len(numbers)):
        raise NotAPage(Fault.HOST)
    return str(ipaddress.IPv4Address(last + sum(each << 8 * (3 - place) for place, each in enumerate(heads))))


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)


def _port(parts: SplitResult) -> str:
    try:
        port = parts.port
    except ValueError as error:
        raise NotAPage(Fault.PORT) from error
    if port == 0:
        raise NotAPage(Fault.PORT)
    return "" if port in (None, PORTS[parts.scheme]) else f":{port}"


def _without_dots(path: str) -> str:
    """Dot segments resolved (RFC 3986, section 5.2.4), the escaped ones too."""
    if path.startswith("/") and "/." not in path and "%" not in path:
        return path
    found: list[str] = []
    segments = [re.sub("%2e", ".", each, flags=re.IGNORECASE) if each else each for each in path.split("/")[1:]]
    for place, (segment, given) in enumerate(zip(segments, path.split("/")[1:], strict=True)):
        last = place == len(segments) - 1
        if segment in (".", ".."):
            if segment == ".." and found:
                found.pop()
            if last:
                found.append("")
        else:
            found.append(given)
    return "/" + "/".join(found)


def _escaped(text: str, safe: str) -> str:
    """Escapes undone where they need not be, made where they must, in upper case."""
    if _PLAIN.fullmatch(text):
        return text
    given = _ESCAPE.sub(b"%25", text.encode("utf-8", "surrogatepass"))
    pieces: list[bytes] = re.split(rb"(%[0-9A-Fa-f]{2})", given)
    return "".join(
        _octet(piece) if place % 2 else quote_from_bytes(piece, safe=safe) for place, piece in enumerate(pieces)
    )


def _octet(escape: bytes) -> str:
    octet = bytes([int(escape[1:], 16)])
    return octet.decode() if re.fullmatch(rb"[A-Za-z0-9._~-]", octet) else escape.decode().upper()
