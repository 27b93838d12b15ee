"""A small client of the Kubernetes API: JSON over HTTPS, with the client certificate of one user.

Promises: the server is verified; every call has a deadline; an answer that is no success is an ApiError with its code.
"""

import http.client
import json
import ssl
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request

from tests.trials.docker.engine import TrialError
from tutti.backbone.direct import fetch

CALL_SECONDS = 20.0
MERGE = "application/merge-patch+json"
Manifest = dict[str, Any]


class ApiError(TrialError):
    """A call failed; `code` is the HTTP status, 0 if there was no answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Api:
    def __init__(self, address: str, *, authority: Path, certificate: Path, key: Path) -> None:
        """`address`: HOST:PORT. The files are PEM."""
        self._address = address
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(certificate, key)

    def get(self, path: str) -> Manifest:
        """Raises ApiError."""
        return self.call("GET", path)

    def listed(self, path: str) -> list[Manifest]:
        """Return the items of a list. Raises ApiError."""
        items: list[Manifest] = self.get(path)["items"] or []
        return items

    def create(self, path: str, body: Mapping[str, Any]) -> Manifest:
        """Raises ApiError; its code is 409 if the object exists."""
        return self.call("POST", path, body)

    def merge(self, path: str, body: Mapping[str, Any]) -> Manifest:
        """Change some fields of an object. Raises ApiError."""
        return self.call("PATCH", path, body, kind=MERGE)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, kind: str = "application/json"
    ) -> Manifest:
        """Raises ApiError."""
        request = Request(
            f"https://{self._address}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind, "Accept": "application/json"},
            method=method,
        )
        try:
            with fetch(request, seconds=CALL_SECONDS, context=self._context) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, f"{method} {path}: {_message(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, f"{method} {path}: {error}") from None
        found: Manifest = json.loads(text) if text.startswith(b"{") else {}
        return found


def _message(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return f"{error.code} {json.loads(text)['message']}"
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {text[:300]}"
