"""The default sampling of a model: which piece of evidence decides it, and what an import says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chat.defaults import GENERATION, NONE, Defaults, of_generation, of_release, record, recorded
from tutti.contracts.chat.v1 import Deployment
from tutti.contracts.evaluation.v1 import Release, ReleasedComparison, ReleaseFinding, ReleaseSpec
from tutti.contracts.sampling.v1 import Sample, SampleSpec
from tutti.inference.errors import InvalidSampling
from tutti.inference.sampling import Sampling

NAMES = ["comparisons/a", "comparisons/b", "comparisons/c"]


def release(*names: str, broken: tuple[str, ...] = ()) -> Release:
    findings = [ReleaseFinding(rule="win", comparison=each, passed=each not in broken) for each in names]
    spec = ReleaseSpec(comparisons=[ReleasedComparison(name=each) for each in names])
    return Release(name="releases/a", spec=spec, findings=findings)


def sample(name: str, **spec: Any) -> Sample:
    return Sample(name=f"samples/{name[-1]}", spec=SampleSpec(**spec))


def test_it_is_that_of_the_candidates_answers() -> None:
    samples = {NAMES[0]: sample("a", temperature=0, top_p=0.9, top_k=7)}
    assert of_release(release(NAMES[0]), samples) == Defaults(Sampling(0, 0.9, 7), "samples/a")


def test_a_parameter_that_a_sample_does_not_have_is_the_default_of_sampling() -> None:
    assert of_release(release(NAMES[0]), {NAMES[0]: sample("a")}) == Defaults(Sampling(), "samples/a")


@given(names=st.permutations(NAMES), broken=st.sets(st.sampled_from(NAMES)), there=st.sets(st.sampled_from(NAMES)))
def test_the_first_comparison_that_satisfies_every_rule_decides_and_without_one_the_first(
    names: list[str], broken: set[str], there: set[str]
) -> None:
    samples = {each: sample(each, temperature=number) for number, each in enumerate(sorted(there))}
    found = of_release(release(*names, broken=tuple(broken)), samples)
    known = [each for each in names if each in there]
    passed = [each for each in known if each not in broken]
    if not known:
        assert found == NONE
        return
    expected = samples[(passed or known)[0]]
    assert found == Defaults(Sampling(expected.spec.temperature), expected.name)


def test_a_release_without_evidence_leaves_the_defaults_of_the_api() -> None:
    assert of_release(Release(), {}) == Defaults(Sampling(1.0, 1.0, 0), "")


@pytest.mark.parametrize(
    ("config", "sampling"),
    [
        ({"do_sample": True, "temperature": 0.6, "top_p": 0.9}, Sampling(0.6, 0.9)),
        ({"temperature": 0.7, "top_k": 20, "top_p": None, "repetition_penalty": 1.1}, Sampling(0.7, top_k=20)),
        ({"do_sample": False, "temperature": 0.6}, Sampling(0.0)),
    ],
)
def test_an_import_says_it_in_its_generation_config(config: dict[str, Any], sampling: Sampling) -> None:
    assert of_generation({"eos_token_id": 2, **config}) == Defaults(sampling, GENERATION)


@pytest.mark.parametrize("config", [{}, {"do_sample": True}, {"eos_token_id": 2, "repetition_penalty": 1.1}])
def test_a_generation_config_without_sampling_leaves_the_defaults_of_the_api(config: dict[str, Any]) -> None:
    assert of_generation(config) == NONE


@pytest.mark.parametrize(("key", "value"), [("temperature", "hot"), ("temperature", -1), ("top_p", 2), ("top_k", True)])
def test_a_generation_config_that_cannot_be_is_refused_by_its_key(key: str, value: object) -> None:
    with pytest.raises(InvalidSampling) as refused:
        of_generation({key: value})
    assert refused.value.field == key


def test_the_row_of_a_deployment_has_it_once_it_was_found() -> None:
    deployment = Deployment()
    assert recorded(deployment) is None
    for each in (NONE, Defaults(Sampling(0, 0.5, 9), "samples/a")):
        record(deployment, each)
        assert recorded(deployment) == each
