"""Looks at dependencies: answered, failed, or hanging."""

import threading

from tutti.chassis.runtime.dependencies import DependencyChecks


def test_what_answers_is_well_and_what_fails_says_why() -> None:
    looks = DependencyChecks()

    def fail() -> None:
        raise OSError("connection refused")

    assert looks.at("database", lambda: None) == ""
    assert looks.at("database", fail) == "database: connection refused"


def test_what_hangs_is_named_in_time_and_asked_once() -> None:
    looks, free, asked = DependencyChecks(seconds=0.05), threading.Event(), []

    def hang() -> None:
        asked.append(1)
        free.wait(30)

    assert looks.at("blobs", hang).startswith("blobs: no answer for ")
    assert looks.at("blobs", hang).startswith("blobs: no answer for ")
    assert len(asked) == 1
    assert looks.at("database", lambda: None) == ""  # nobody else waits
    free.set()
    assert DependencyChecks(seconds=30).at("blobs", hang) == ""


def test_a_look_that_ended_meanwhile_is_not_told_as_news() -> None:
    looks, away = DependencyChecks(seconds=0.05), threading.Event()
    raised = threading.Event()

    def hang_and_fail() -> None:
        away.wait(30)
        raised.set()
        raise OSError("no answer within 12 s")

    assert looks.at("database", hang_and_fail).startswith("database: no answer for ")
    away.set()
    assert raised.wait(30)
    for thread in threading.enumerate():
        if thread.name == "look at database":
            thread.join(30)
    assert looks.at("database", lambda: None) == ""
