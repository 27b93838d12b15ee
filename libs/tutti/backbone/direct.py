"""HTTP requests to servers on loopback or of a platform, such as a scrape of its metrics.

Promises: no variable of an HTTP proxy leads them elsewhere. `make lint` refuses `urllib.request.urlopen`, which obeys
these variables.
"""

import ssl
from http.client import HTTPResponse
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener


def fetch(url: str | Request, *, seconds: float, context: ssl.SSLContext | None = None) -> HTTPResponse:
    """Return the answer, to be closed. Raises urllib.error.HTTPError for an error status, OSError without an answer."""
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
    answer: HTTPResponse = opener.open(url, timeout=seconds)
    return answer
