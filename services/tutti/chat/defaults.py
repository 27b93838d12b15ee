"""The sampling of answers whose requests name none: that of the answers for which the model was released. Pure.

Promises: it follows from the release alone, or from the folder of an import; where these do not say it, the defaults of
OpenAI's API hold. The length of an answer is no part of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tutti.contracts.chat.v1 import Deployment, Drawing
from tutti.contracts.evaluation.v1 import Release
from tutti.contracts.sampling.v1 import Sample, SampleSpec
from tutti.inference.errors import InvalidSampling
from tutti.inference.sampling import Sampling

API = Sampling()
GENERATION = "generation_config.json"
SAID = ("temperature", "top_p", "top_k")
"""The keys of that file that are read; others, such as repetition_penalty, have no counterpart here."""


@dataclass(frozen=True)
class Defaults:
    """`source` names the sample or the file that `sampling` follows from; empty for the defaults of the API."""

    sampling: Sampling = API
    source: str = ""


NONE = Defaults()
"""Those of the API."""


def of_release(release: Release, samples: Mapping[str, Sample]) -> Defaults:
    """Those of the candidate's answers in the first comparison that satisfies every rule; without one, in the first.

    `samples` has the candidate's answers by the name of their comparison, except those that are gone.
    """
    broken = {each.comparison for each in release.findings if not each.passed}
    known = [each.name for each in release.spec.comparisons if each.name in samples]
    if not known:
        return NONE
    sample = samples[min(known, key=lambda name: name in broken)]
    return Defaults(_sampling(sample.spec), sample.name)


def of_generation(config: Mapping[str, Any]) -> Defaults:
    """Those that the generation_config.json of an import says. Raises InvalidSampling.

    `do_sample: false` is a temperature of 0. A key that is not there has the default of the API.
    """
    said = {name: config[name] for name in SAID if config.get(name) is not None}
    for name, value in said.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidSampling(name, seen=value, expected="a number")
    if config.get("do_sample") is False:
        return Defaults(Sampling(temperature=0.0), GENERATION)
    if "top_k" in said:
        said["top_k"] = int(said["top_k"])
    return Defaults(Sampling(**said), GENERATION) if said else NONE


def recorded(deployment: Deployment) -> Defaults | None:
    """Those in the row of a deployment; None before they were found."""
    if not deployment.HasField("sampling"):
        return None
    drawing = deployment.sampling
    sampling = Sampling(drawing.temperature, drawing.top_p, drawing.top_k)
    return Defaults(sampling, deployment.sampling_source)


def record(deployment: Deployment, defaults: Defaults) -> None:
    """Write them into the row of a deployment."""
    deployment.sampling.CopyFrom(drawing_of(defaults.sampling))
    deployment.sampling_source = defaults.source


def drawing_of(sampling: Sampling) -> Drawing:
    return Drawing(temperature=sampling.temperature, top_p=sampling.top_p, top_k=sampling.top_k)


def as_json(sampling: Sampling) -> dict[str, float]:
    """The fields of a request that ask for it."""
    return {name: getattr(sampling, name) for name in SAID}


def _sampling(spec: SampleSpec) -> Sampling:
    sampling = Sampling(top_k=spec.top_k)
    if spec.HasField("temperature"):
        sampling = replace(sampling, temperature=spec.temperature)
    return replace(sampling, top_p=spec.top_p) if spec.HasField("top_p") else sampling
