"""Allowances against a model that adds up what was admitted, in whole numbers."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tutti.access.allowances import MINUTE, Account, Held, Rates, judge, requests_left, tokens_left
from tutti.contracts.access.v1 import LIMIT_CONCURRENT, LIMIT_REQUESTS, LIMIT_TOKENS, LIMIT_UNSPECIFIED

RATES = Rates(requests=7, tokens=100, concurrent=3)


@dataclass(frozen=True)
class Step:
    """A request for `answers` after a pause (microseconds).

    Before it, `ends` requests end, at half of the tokens that they were admitted for.
    """

    pause: int
    tokens: int
    ends: int
    answers: int


a_step = st.builds(Step, st.integers(0, MINUTE), st.integers(1, 60), st.integers(0, 3), st.integers(1, 3))
steps = st.lists(a_step, min_size=1, max_size=30)


@given(steps)
def test_what_is_admitted_never_exceeds_the_limits_and_what_is_refused_would(found: list[Step]) -> None:
    account, now, running = Account(0), 0, list[Step]()
    admitted, computed = list[int](), list[tuple[int, int]]()
    for step in found:
        now += step.pause
        account = account.drained(now, RATES)
        for _ in range(min(step.ends, len(running))):
            cost = running.pop().tokens // 2
            account = account.charged(tokens=cost)
            computed.append((now, cost))
        held = Held(sum(each.answers for each in running), sum(each.tokens for each in running))
        verdict = judge(account, held, RATES, step.tokens, step.answers)
        fits = {
            LIMIT_REQUESTS: _fits([(at, 1) for at in admitted], now, 1, RATES.requests),
            LIMIT_TOKENS: _fits(computed, now, step.tokens + held.tokens, RATES.tokens),
            LIMIT_CONCURRENT: held.answers + step.answers <= RATES.concurrent,
        }
        assert (verdict.refused_by == LIMIT_UNSPECIFIED) == all(fits.values())
        if verdict.refused_by:
            assert not fits[verdict.refused_by]
            continue
        admitted.append(now)
        running.append(step)
        account = account.charged(requests=1)


def _fits(used: list[tuple[int, int]], now: int, more: int, limit: int) -> bool:
    """Return whether `more` fit: from no moment on, more was used than the limit and what it gains until now."""
    return all(
        (sum(count for at, count in used if at >= begin) + more) * MINUTE <= limit * (MINUTE + now - begin)
        for begin in {now, *(at for at, _ in used)}
    )


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 100))
def test_the_wait_that_is_named_is_enough_and_no_longer_than_it_has_to_be(used: int, held: int, more: int) -> None:
    account, answers = Account(0).charged(tokens=used), Held(1, min(held, 100 - more))
    wait = judge(account, answers, RATES, more).wait
    later = account.drained(wait, RATES)
    assert not judge(later, answers, RATES, more).refused_by
    if wait:
        assert judge(account.drained(wait - 1, RATES), answers, RATES, more).refused_by == LIMIT_TOKENS


@given(st.integers(0, 7), st.integers(0, 60), st.integers(0, 40))
def test_what_is_left_is_admitted_and_not_one_more(requests: int, used: int, held: int) -> None:
    account, answers = Account(0).charged(requests=requests, tokens=used), Held(0, held)
    left = tokens_left(account, answers, RATES)
    assert (left.limit, left.remaining) == (RATES.tokens, RATES.tokens - used - held)
    assert requests_left(account, RATES).remaining == RATES.requests - requests
    assert tokens_left(account.drained(left.reset, RATES), Held(), RATES).remaining == RATES.tokens
    if requests < RATES.requests:
        assert not judge(account, answers, RATES, left.remaining).refused_by
        assert judge(account, answers, RATES, left.remaining + 1).refused_by == LIMIT_TOKENS


def test_a_clock_that_goes_back_gives_nothing_back() -> None:
    account = Account(1000).charged(requests=3, tokens=50)
    assert account.drained(10, RATES) == account
