"""Headers of every answer, and which requests are answered at all.

Promises: no page runs script or style but our own files, asks another host, or is shown inside another site's page; a
request that names another host than ours is refused, so that a foreign name that resolves to this machine (DNS
rebinding) gets nothing.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from tutti.chassis.config.datadir import LOOPBACK
from tutti.chassis.config.sections import WebSettings

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
WORKER = "tutti-worker"
"""The Trusted Types policy that makes the URL of a site's service worker, on the pages of such a site alone."""
WORKER_POLICY = CONTENT_SECURITY_POLICY.replace("trusted-types 'none'", f"worker-src 'self'; trusted-types {WORKER}")
# Not `no-referrer`: with it a browser sends `Origin: null` with our own forms.
HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
TRANSPORT = {"strict-transport-security": "max-age=31536000"}


def headers(settings: WebSettings) -> dict[str, str]:
    """Headers of every answer."""
    return {**HEADERS, **(TRANSPORT if is_secure(settings) else {})}


def is_secure(settings: WebSettings) -> bool:
    """True if browsers reach the pages over TLS."""
    return settings.public_url.startswith("https://")


def is_ours(host: str, settings: WebSettings) -> bool:
    """True if a Host header names this server."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    own = (urlsplit(settings.public_url).hostname, settings.host)
    return name in LOOPBACK or (bool(name) and name in own)


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """True if the browser says that a POST comes from a page of this server; scripts of a page cannot set either
    header.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(headers.get("origin", ""))
    return bool(origin.netloc) and origin.netloc == headers.get("host", "")


def local_path(path: str) -> str:
    """The path, or `/` where following it would leave this server."""
    safe = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if safe else "/"
