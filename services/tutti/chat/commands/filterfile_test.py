"""Files of rules become the filter of a deployment, or are refused by the key that is wrong."""

from pathlib import Path

import pytest

from tutti.chat.commands.filterfile import of_option, spec_of, summary
from tutti.cli.failures import Failure
from tutti.contracts.chat.v1 import FILTER_SIDE_ANSWER, FILTER_SIDE_UNSPECIFIED, FilterRule, FilterSpec

RULES = """
classifier: harm-windows
judges: answer
rules:
  - name: codename
    pattern: project nightfall
  - {name: key, pattern: "key-????", judges: answer, inside: true, version: 3}
"""


def test_a_file_has_rules_and_a_classifier(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    spec = of_option(str(path))
    assert spec == FilterSpec(
        classifier="harm-windows",
        side=FILTER_SIDE_ANSWER,
        rules=[
            FilterRule(name="codename", version=1, pattern="project nightfall", side=FILTER_SIDE_UNSPECIFIED),
            FilterRule(name="key", version=3, pattern="key-????", side=FILTER_SIDE_ANSWER, inside=True),
        ],
    )
    assert summary(spec) == "2 rules and harm-windows"


def test_an_option_names_a_classifier_or_none_or_nothing() -> None:
    assert of_option("harm-windows") == FilterSpec(classifier="harm-windows")
    assert of_option("none") == FilterSpec()
    assert of_option("") is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{}", "neither"),
        ("rule: []", "rule"),
        ("rules: [{name: a}]", "rules"),
        ("rules: [{name: a, pattern: bb, judges: all}]", "judges"),
        ("rules: [{name: a, pattern: bb, version: 0}]", "version"),
        ("rules: 3", "rules"),
        ("[", "f.yaml"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(Failure, match=named):
        spec_of(text, "f.yaml")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="cannot be read"):
        of_option(str(tmp_path / "none.yaml"))
