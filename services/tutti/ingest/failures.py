"""Failures: why there is no answer, or none that can be used."""

from __future__ import annotations

from enum import StrEnum


class Failure(StrEnum):
    """The reason why there is no answer, or none that can be used."""

    NAME = "name"  # the host has no address
    PRIVATE = "private_address"  # it has none of the public web
    CONNECTION = "connection"  # refused, reset, unreachable
    CERTIFICATE = "certificate"  # TLS did not come about
    TIME = "time"  # not whole within the limits of time
    TOO_LARGE = "too_large"  # as it came, or once decoded
    PROTOCOL = "protocol"  # what came is no HTTP
    CUT = "cut"  # it ended before it was whole
    ENCODING = "encoding"  # a content encoding that is unknown or wrong
    BUSY = "busy"  # its host asks to be left alone for longer, or more often, than is waited
    UNEXPECTED = "unexpected"  # a defect of this program that the page brought to light


class FetchFailed(Exception):
    """No answer; `failure` says why, `detail` what was seen."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(f"{failure.value}: {detail}")
        self.failure, self.detail = failure, detail
