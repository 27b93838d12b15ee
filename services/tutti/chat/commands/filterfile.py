"""The filter of a deployment as a file of rules, a classifier, or none."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from tutti.chassis.config import recipetext
from tutti.chassis.config.recipetext import Part
from tutti.chassis.errors import InvalidField, NotFound
from tutti.chat.filter.rules import GAP, MOST_RULES
from tutti.cli.failures import MISUSE, Failure
from tutti.client import Client
from tutti.client.plain import plain
from tutti.contracts.chat.v1 import (
    FILTER_SIDE_ANSWER,
    FILTER_SIDE_PROMPT,
    FILTER_SIDE_UNSPECIFIED,
    FilterRule,
    FilterSpec,
)
from tutti.contracts.common.v1 import STATE_DONE, GetRequest

NONE, SUFFIXES = "none", (".yaml", ".yml", ".json")
SIDES = {"prompt": FILTER_SIDE_PROMPT, "answer": FILTER_SIDE_ANSWER, "both": FILTER_SIDE_UNSPECIFIED}
Side = Literal["prompt", "answer", "both"]


class RulePart(Part):
    name: str = Field(min_length=1, max_length=40, description="name of the rule, which records have")
    pattern: str = Field(min_length=1, description=f"a text, in which ? is one character and * up to {GAP} of them")
    judges: Side = Field(default="both", description="prompt, answer or both")
    inside: bool = Field(default=False, description="match inside words too, not only whole ones")
    version: int = Field(default=1, ge=1, lt=2**31, description="version of the rule, which records have")


class FilterFile(Part):
    """The contents of a file of rules."""

    rules: list[RulePart] = Field(default_factory=list, max_length=MOST_RULES)
    classifier: str = Field(default="", max_length=200, description="a classifier of windows, NAME or NAME@DIGEST")
    judges: Side = Field(default="both", description="the side that the classifier judges")


def of_option(value: str) -> FilterSpec | None:
    """The filter that an option asks for; None for that which the deployment has. Raises Failure."""
    if not value:
        return None
    if value == NONE:
        return FilterSpec()
    if not value.endswith(SUFFIXES):
        return FilterSpec(classifier=value)
    try:
        text = Path(value).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"--filter {value} cannot be read: {error}; give a YAML file of rules", MISUSE) from None
    return spec_of(text, value)


def spec_of(text: str, name: str) -> FilterSpec:
    """The filter in the text of a file of rules. Raises Failure naming what is wrong."""
    tree, problems = recipetext.tree_of(text, (), lambda tree, text: None)
    found, more = recipetext.checked(FilterFile, tree) if tree is not None else (None, list[InvalidField]())
    for problem in (*problems, *more):
        raise Failure(f"{name}: {problem.message}", MISUSE)
    assert found is not None
    if not found.rules and not found.classifier:
        raise Failure(f"{name} has neither rules nor a classifier; `--filter none` serves without a filter", MISUSE)
    rules = [
        FilterRule(
            name=each.name, version=each.version, pattern=each.pattern, side=SIDES[each.judges], inside=each.inside
        )
        for each in found.rules
    ]
    return FilterSpec(rules=rules, classifier=found.classifier, side=SIDES[found.judges])


def asked_of(client: Client, deployment: str, wanted: FilterSpec | None) -> FilterSpec:
    """The filter that is asked for, its classifier by its digest; the one that the deployment has for None.

    Raises Failure.
    """
    if wanted is None:
        try:
            return client.chat.GetDeployment(GetRequest(name=deployment)).spec.filter
        except NotFound:
            return FilterSpec()
    if wanted.classifier and "@" not in wanted.classifier:
        name = f"classifiers/{wanted.classifier.removeprefix('classifiers/')}"
        try:
            found = client.ingest.GetClassifier(GetRequest(name=name))
        except (NotFound, InvalidField):
            raise Failure(
                f"there is no {name}: `tutti classifiers ls` has those that are there, and `tutti classifiers train "
                "recipes/harm-windows.yaml` trains one; a file of rules ends with .yaml"
            ) from None
        if found.state != STATE_DONE:
            raise Failure(f"{name} is {plain(found)['state']}: train it first")
        wanted.classifier = f"{name.partition('/')[2]}@{found.model_digest}"
    return wanted


def summary(spec: FilterSpec) -> str:
    """The filter in a few words."""
    parts = [f"{len(spec.rules)} rules"] if spec.rules else []
    parts += [spec.classifier.partition("@")[0]] if spec.classifier else []
    return " and ".join(parts) or "none: nothing is withheld"
