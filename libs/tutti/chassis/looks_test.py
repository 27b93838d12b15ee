"""Looks at dependencies: answered, failed, or hanging."""

import threading

from tutti.chassis.looks import Looks


def test_what_answers_is_well_and_what_fails_says_why() -> None:
    looks = Looks()

    def fail() -> None:
        raise OSError("connection refused")

    assert looks.at("database", lambda: None) == ""
    assert looks.at("database", fail) == "database: connection refused"


def test_what_hangs_is_named_in_time_and_asked_once() -> None:
    looks, free, asked = Looks(seconds=0.05), threading.Event(), []

    def hang() -> None:
        asked.append(1)
        free.wait(30)

    assert looks.at("blobs", hang).startswith("blobs: no answer for ")
    assert looks.at("blobs", hang).startswith("blobs: no answer for ")
    assert len(asked) == 1
    assert looks.at("database", lambda: None) == ""  # nobody else waits
    free.set()
    assert Looks(seconds=30).at("blobs", hang) == ""
