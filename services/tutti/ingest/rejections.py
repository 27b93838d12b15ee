"""Rejections: why a page, or a record of a file, did not become a document.

Each becomes one document or one rejection; nothing is left out without a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a page was left out."""

    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    NOT_A_FILE = "not_a_file"  # a socket, a pipe, a device
    LINK_OUTSIDE = "link_outside"  # leads out of the input folder
    LINK_BROKEN = "link_broken"  # leads nowhere, or in a circle
    LINK_REPEATED = "link_repeated"  # leads to a folder that is read at its own place
    HIDDEN = "hidden"  # a file or a folder whose name begins with a dot
    DATA_DIRECTORY = "data_directory"  # a folder in which a platform keeps what it makes
    NAME_NOT_UNICODE = "name_not_unicode"
    NAME_TAKEN = "name_taken"  # the same name in another Unicode form came before
    PDF = "pdf"  # a document that is not read, to be converted first
    BINARY = "binary"
    UNDECODABLE = "undecodable"
    TOO_DEEP = "too_deep"  # elements nested so deep, or with so many attributes, that parsing would not end in time
    EMPTY = "empty"  # no text was left
    MALFORMED = "malformed"  # a record that is not of the form of its file
    NO_TEXT = "no_text"  # a record, or a file of records, without the field of texts
    DAMAGED = "damaged"  # cut short, or what cannot be decompressed
    NOT_OK = "not_ok"  # what a server answered was no success
    REPEATED = "repeated"  # the same source with the same text came before


@dataclass(frozen=True, slots=True)
class Rejection:
    """`path` is relative to the input root; `detail` says what was seen and never names the machine."""

    path: str
    reason: Reason
    detail: str
