"""Which runs a sweep makes of the values that were typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.cli.failures import Failure
from tutti.cli.sweeps import MOST, Choice, choices, comparing, titled
from tutti.client.titles import MOST_TITLE

PLAIN = st.text("abc123.-e", min_size=1, max_size=5)
VALUES = st.one_of(
    PLAIN, st.lists(PLAIN, max_size=3).map(lambda each: f"[{','.join(each)}]"), PLAIN.map('"{},x"'.format)
)


@given(st.dictionaries(PLAIN, st.lists(VALUES, min_size=1, max_size=3, unique=True), min_size=1, max_size=3))
def test_each_combination_of_values_is_a_run(keys: dict[str, list[str]]) -> None:
    typed = [f"{key}={','.join(values)}" for key, values in keys.items()]
    swept = {key for key, values in keys.items() if len(values) > 1}
    if not swept:
        with pytest.raises(Failure, match="several values"):
            choices(typed)
        return
    found = choices(typed)
    assert len({tuple(each.overrides) for each in found}) == len(found)
    for key, values in keys.items():
        expected = [f"{key}={value}" for value in values]
        assert {override for each in found for override in each.overrides if override in expected} == set(expected)
    assert all(set(each.values) == swept for each in found)


def test_the_title_of_a_run_has_its_values_and_fits_the_room_of_a_title() -> None:
    first, second = choices(["train.learning_rate=1e-3,3e-3", "train.steps=6"])
    assert titled("my texts", first) == "my texts: train.learning_rate=1e-3"
    assert titled("", second) == "train.learning_rate=3e-3"
    long = Choice({"name": "x" * 300}, [])
    assert len(titled("my texts", long)) == MOST_TITLE


def test_the_command_that_compares_has_as_many_runs_as_it_takes() -> None:
    assert comparing(["runs/a-1", "runs/b-1"]) == "tutti runs compare a-1 b-1"
    assert comparing([f"runs/{number}" for number in range(20)]).split()[3:] == list("01234567")


@pytest.mark.parametrize("typed", ["train.steps", "=1,2", "a=1,,2", "a=1,1", "a=1,"])
def test_values_that_make_no_sweep_are_refused(typed: str) -> None:
    with pytest.raises(Failure):
        choices([typed])


def test_a_sweep_has_bounds() -> None:
    assert len(choices([f"a={','.join(map(str, range(MOST)))}"])) == MOST
    with pytest.raises(Failure, match=f"{2 * MOST} runs"):
        choices([f"a={','.join(map(str, range(MOST)))}", "b=1,2"])
