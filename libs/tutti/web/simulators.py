"""Simulators: programs of this process that send the calls of its own pages over HTTP, as the browsers of people do.

Promises: a token is good for one simulator; it is made and checked by one server, so it is worth nothing for another
one, after a restart, or to anybody whom this process did not give it.
"""

import hashlib
import hmac
import secrets
import threading
from http.client import HTTPConnection, HTTPException
from json import loads
from typing import Any

from tutti.chassis.errors import Refused, Unavailable
from tutti.chassis.identity.principal import Principal
from tutti.web.calls import written
from tutti.web.tokens import HEADER, form_token, same

SCHEME = "Simulator "
TRANSIENT = (429, 503, 504)


class Credentials:
    """Makes and checks the tokens of simulators. Its key is random, and nothing else knows it."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def token(self, user: str) -> str:
        """The token of the simulator `user`."""
        return f"{user} {hmac.new(self._key, user.encode(), hashlib.sha256).hexdigest()}"

    def principal(self, token: str) -> Principal | None:
        """The simulator that has a token; None if this object did not make it."""
        user = token.rpartition(" ")[0]
        return Principal.of_simulator(user) if same(token, self.token(user)) else None


class Simulators:
    """Sends the calls of simulators to the server that listens at `host` and `port`. Safe for any thread."""

    def __init__(self, credentials: Credentials, host: str, port: int, seconds: float) -> None:
        self._credentials = credentials
        self._connection = HTTPConnection(host, port, timeout=seconds)
        self._lock = threading.Lock()

    def post(self, user: str, path: str, body: object) -> Any:
        """The answer to a call of a page's script. Raises Unavailable, Refused."""
        token = self._credentials.token(user)
        headers = {
            "host": "localhost",
            "authorization": f"{SCHEME}{token}",
            "content-type": "application/json",
            "sec-fetch-site": "same-origin",
            HEADER: form_token(token),
        }
        status, said = self._sent(path, written(body).encode(), headers)
        if status == 200:
            return loads(said)
        error = loads(said)["error"]
        if status in TRANSIENT:
            raise Unavailable(error["message"])
        raise Refused(error["reason"] or Refused.default_reason, error["message"])

    def close(self) -> None:
        self._connection.close()

    def _sent(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Status and body of the answer. A connection that the server has closed in the meantime is opened again."""
        with self._lock:
            for again in (True, False):
                try:
                    self._connection.request("POST", path, body, headers)
                    answer = self._connection.getresponse()
                    return answer.status, answer.read()
                except (OSError, HTTPException) as error:
                    self._connection.close()
                    if not again:
                        raise Unavailable(f"the server of pages does not answer: {error}") from error
        raise AssertionError("unreachable: the second try returns or raises")
