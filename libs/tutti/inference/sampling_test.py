"""Sampling: the distribution that is asked for, from draws that belong to a place."""

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.inference.errors import InvalidSampling, NotFinite
from tutti.inference.limits import Limits
from tutti.inference.sampling import Draws, Sampling, choose, choose_each, draw, draws, kept

LOGITS = st.lists(st.integers(-40, 40).map(lambda n: n / 8), min_size=1, max_size=12)


def reference(logits: npt.NDArray[np.float32], sampling: Sampling) -> npt.NDArray[np.float64]:
    """Probabilities of all tokens by the definitions, one token at a time."""
    weights = np.exp(logits.astype(np.float64) / sampling.temperature)
    likeliest = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    if sampling.top_k:
        weights[likeliest[sampling.top_k :]] = 0
    whole, reached, ended = weights.sum(), 0.0, False
    for token in likeliest:
        if ended:
            weights[token] = 0
        reached += weights[token] / whole
        ended = ended or (sampling.top_p < 1 and reached >= sampling.top_p)
    probabilities: npt.NDArray[np.float64] = weights / weights.sum()
    return probabilities


@given(LOGITS, st.floats(0.2, 5), st.floats(0.05, 1), st.integers(0, 14))
def test_what_is_kept_is_what_the_definitions_keep(
    values: list[float], temperature: float, top_p: float, top_k: int
) -> None:
    logits = np.array(values, np.float32)
    sampling = Sampling(temperature=temperature, top_p=top_p, top_k=top_k)
    tokens, probabilities = kept(logits, sampling)
    seen = np.zeros(len(logits))
    seen[tokens] = probabilities
    expected = reference(logits, sampling)
    borders = np.cumsum(np.sort(reference(logits, Sampling(temperature=temperature, top_k=top_k)))[::-1])
    if np.abs(borders - top_p).min() > 1e-9:  # a sum that meets top_p to the last bit may fall on either side
        np.testing.assert_allclose(seen, expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=0.7, top_p=0.8), Sampling(temperature=1.5, top_k=3, top_p=0.95)]
)
def test_draws_choose_tokens_as_often_as_they_are_probable(sampling: Sampling) -> None:
    logits = np.array([1.0, -0.5, 2.0, 0.0, 0.25, -3.0], np.float32)
    count = 20_000
    chosen = [choose(logits, sampling, draw(11, 0, position)) for position in range(count)]
    seen = np.bincount(chosen, minlength=len(logits)) / count
    expected = reference(logits, sampling)
    assert (seen[expected == 0] == 0).all()
    # Five standard deviations of a binomial share.
    assert (np.abs(seen - expected) <= 5 * np.sqrt(expected * (1 - expected) / count)).all()


def test_greedy_takes_the_likeliest_and_of_equals_the_first() -> None:
    assert choose(np.array([0.0, 3.0, 3.0], np.float32), Sampling(temperature=0), 0.999) == 1


@given(LOGITS, st.floats(0, 1, exclude_max=True))
def test_rows_are_chosen_from_as_each_alone(values: list[float], drawn: float) -> None:
    table = np.stack([np.array(values, np.float32), np.array(values[::-1], np.float32) * 2])
    shares = (Sampling(top_k=2), Sampling(top_p=0.7), Sampling(temperature=0.5, top_p=0.9, top_k=3))
    for sampling in (Sampling(), Sampling(temperature=1e-3), Sampling(temperature=0), *shares):
        found = choose_each(table, sampling, np.array([drawn, 1 - 2**-53]))
        expected = [choose(row, sampling, number) for row, number in zip(table, (drawn, 1 - 2**-53), strict=True)]
        assert found.tolist() == expected


@pytest.mark.parametrize("spread", [0.02, 1.0, 6.0])  # nearly all tokens are needed, hundreds, a few
@pytest.mark.parametrize("levels", [0, 3])  # all logits differ; most are equal to others
def test_rows_of_a_large_vocabulary_are_chosen_from_as_each_alone(spread: float, levels: int) -> None:
    source = np.random.default_rng(7)
    table = (source.standard_normal((8, 1500)) * spread).astype(np.float32)
    if levels:
        table = (np.round(table * levels / spread) / levels).astype(np.float32)
    whole = [draw(3, row, 0) for row in range(8)]
    border = [float(kept(row, Sampling(top_p=0.9))[1][0]) for row in table]
    for drawn in (np.array(whole), np.array(border), np.zeros(8), np.full(8, 1 - 2**-53)):
        for top_p, top_k in product((0.95, 1e-9, 1 - 1e-12, 1.0), (0, 1, 40, 128, 300, 1500)):
            sampling = Sampling(temperature=0.9, top_p=top_p, top_k=top_k)
            expected = [choose(row, sampling, number) for row, number in zip(table, drawn.tolist(), strict=True)]
            assert choose_each(table, sampling, drawn).tolist() == expected


@given(LOGITS, st.floats(0, 1, exclude_max=True))
def test_one_token_kept_is_the_greedy_one(values: list[float], drawn: float) -> None:
    logits = np.array(values, np.float32)
    greedy = choose(logits, Sampling(temperature=0), drawn)
    assert choose(logits, Sampling(top_k=1), drawn) == greedy
    assert choose(logits, Sampling(top_p=1e-9), drawn) == greedy
    assert choose(logits * 1000, Sampling(temperature=1e-3), 0.0) in np.flatnonzero(logits == logits.max())


@pytest.mark.parametrize("temperature", [1e-100, 1e-200, 1e-308, 5e-324])
@pytest.mark.parametrize("scale", [1e-38, 1, 1e38])
def test_at_the_lowest_temperatures_only_the_likeliest_are_left(temperature: float, scale: float) -> None:
    logits = np.array([1, 3, -3, 3], np.float32) * np.float32(scale)
    for sampling in (Sampling(temperature=temperature), Sampling(temperature=temperature, top_p=5e-324)):
        tokens, probabilities = kept(logits, sampling)
        assert tokens.tolist() == ([1, 3] if sampling.top_p == 1 else [1])
        assert set(probabilities) == {1 / len(tokens)}
    assert choose(np.array([1, 20, 3], np.float32), Sampling(temperature=temperature), 0.5) == 1


@given(st.integers(0, 2**53 - 1), st.integers(0, 2**20), st.integers(0, 2**20))
def test_a_draw_belongs_to_seed_prompt_and_position(seed: int, prompt: int, position: int) -> None:
    drawn = draw(seed, prompt, position)
    assert 0 <= drawn < 1
    assert drawn == draw(seed, prompt, position)
    others = {draw(seed ^ 1, prompt, position), draw(seed, prompt + 1, position), draw(seed, prompt, position + 1)}
    assert drawn not in others
    assert len(others) == 3
    assert draws(seed, prompt, position, 3).tolist() == [draw(seed, prompt, position + ahead) for ahead in range(3)]
    source = Draws()
    for number in (prompt, prompt + 1):
        assert source.draws(seed, number, position, 3).tolist() == draws(seed, number, position, 3).tolist()


def test_draws_are_those_of_the_first_release() -> None:
    assert [draw(7, 1, position) for position in (0, 1)] == GOLDEN


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", float("nan")),
        ("top_k", -1),
        ("seed", -1),
        ("seed", 2**53),
    ],
)
def test_what_cannot_be_sampled_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InvalidSampling, match=f"^{field} is") as caught:
        Sampling(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_logits_of_a_diverged_model_are_refused() -> None:
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(NotFinite, match="earlier checkpoint"):
            choose(np.array([0, value], np.float32), Sampling(temperature=0), 0.5)


GOLDEN = [0.8824668302545412, 0.718174498323604]


@pytest.mark.parametrize("sampling", [Sampling(0), Sampling(1e-300), Sampling(1), Sampling(2, top_p=0.9, top_k=2)])
def test_a_role_token_is_never_chosen_however_likely_it_is(sampling: Sampling) -> None:
    logits = np.array([[1.0, 2.0, 50.0, 1.5, 60.0]], np.float32)
    eligible = Limits(tokens=1, end=3, vocabulary=4, never=(2,)).eligible(logits)
    drawn = np.linspace(0, 0.999, 50)
    found = choose_each(np.repeat(eligible, 50, 0), sampling, drawn)
    assert set(found.tolist()) <= {0, 1, 3}
    assert {choose(eligible[0], sampling, float(each)) for each in drawn} <= {0, 1, 3}
    assert logits[0, 2] == 50
