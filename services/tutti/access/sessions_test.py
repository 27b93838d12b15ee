"""Sessions as values, at times that are given."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tutti.access.sessions import GRACE, Reason, Session, Terms, closed, opened, presented

START = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = Terms(idle=timedelta(hours=12), longest=timedelta(days=30), rotation=timedelta(minutes=10))
MINUTE = timedelta(minutes=1)


def session() -> Session:
    return opened("s", "users/a", "agent", "t0", START)


def test_a_token_is_replaced_once_it_is_old() -> None:
    young = presented(session(), "t0", "t1", "agent", START + 9 * MINUTE, TERMS)
    assert (young.refused, young.replaced, young.session.current) == (None, False, "t0")
    old = presented(session(), "t0", "t1", "agent", START + 10 * MINUTE, TERMS)
    assert (old.refused, old.replaced, old.session.current, old.session.previous) == (None, True, "t1", "t0")
    kept = presented(session(), "t0", "", "agent", START + 10 * MINUTE, TERMS)  # a stream cannot set a cookie
    assert (kept.replaced, kept.session.current) == (False, "t0")


def test_the_replaced_token_is_valid_until_the_new_one_was_shown_and_a_minute_more() -> None:
    now = START + 10 * MINUTE
    rotated = presented(session(), "t0", "t1", "agent", now, TERMS).session
    assert presented(rotated, "t0", "", "agent", now + timedelta(hours=1), TERMS).refused is None
    shown = presented(rotated, "t1", "", "agent", now, TERMS).session
    assert presented(shown, "t0", "", "agent", now + GRACE - timedelta(seconds=1), TERMS).refused is None
    stolen = presented(shown, "t0", "", "agent", now + GRACE, TERMS)
    assert (stolen.refused, stolen.session.ended) == (Reason.STOLEN, Reason.STOLEN.value)
    assert presented(stolen.session, "t1", "", "agent", now + GRACE, TERMS).refused is Reason.STOLEN


def test_a_new_token_that_never_arrived_is_replaced_by_another() -> None:
    now = START + 10 * MINUTE
    rotated = presented(session(), "t0", "t1", "agent", now, TERMS).session
    at_once = presented(rotated, "t0", "t2", "agent", now + timedelta(seconds=1), TERMS)
    assert (at_once.replaced, at_once.session.current) == (False, "t1")  # a request beside the one that got t1
    later = presented(rotated, "t0", "t2", "agent", now + GRACE, TERMS)
    assert (later.replaced, later.session.current, later.session.previous) == (True, "t2", "t0")


def test_a_session_ends_when_it_is_idle_too_old_or_closed() -> None:
    idle = presented(session(), "t0", "", "agent", START + TERMS.idle, TERMS)
    assert (idle.refused, idle.session.ended) == (Reason.EXPIRED, Reason.EXPIRED.value)
    used = replace(session(), seen_at=START + TERMS.longest - MINUTE, rotated_at=START + TERMS.longest - MINUTE)
    assert presented(used, "t0", "", "agent", START + TERMS.longest - MINUTE, TERMS).refused is None
    assert presented(used, "t0", "", "agent", START + TERMS.longest, TERMS).refused is Reason.EXPIRED
    assert presented(closed(session()), "t0", "", "agent", START, TERMS).refused is Reason.CLOSED


def test_another_browser_ends_the_session() -> None:
    assert presented(session(), "t0", "", "another", START, TERMS).refused is Reason.STOLEN


@given(st.lists(st.tuples(st.integers(0, 3600), st.booleans(), st.booleans()), max_size=30))
def test_the_browser_that_a_session_belongs_to_is_never_refused(requests: list[tuple[int, bool, bool]]) -> None:
    """Requests follow each other; each may be unable to replace the token, and any answer may be lost."""
    now, held, state = START, "t0", session()
    for at, (seconds, replaceable, lost) in enumerate(requests):
        now += timedelta(seconds=seconds)
        following = f"t{at + 1}" if replaceable else ""
        verdict = presented(state, held, following, "agent", now, TERMS)
        assert verdict.refused is None
        state = verdict.session
        if verdict.replaced and not lost:
            held = following
