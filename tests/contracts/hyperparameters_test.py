"""A hyperparameter is declared once: recipes, their documentation and the records of jobs follow from it."""

import inspect
import sys
from types import ModuleType
from typing import Any

import pytest
from tests.contracts.conftest import ROOT
from tools import pages, trainingproto

from tutti.chassis.config import recipetext
from tutti.model.parameter import parameters
from tutti.model.programs import records
from tutti.model.spec import OptimizerSpec, StepSpec
from tutti.model.training import Training
from tutti.pipeline.definitions.finetuning import FinetuningSection
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.declared import Declaring, declares, values

ADDED = '    margin: float = parameter(0.0, "reward by which the better answer has to win", ge=0, lt=5, since="0.4")\n'
OWN = {"grpo": {"steps"}, "ppo": {"steps"}}
"""Keys that have the name of a parameter and mean something else: iterations instead of optimizer steps."""


def changed(file: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The record of a file with the added parameter as its last field."""
    source = (ROOT / file).read_text()
    start = source.index(f"class {name}(")
    end = source.find("\n    def __post_init__", start)
    end = len(source) if end < 0 else end
    module = ModuleType("changed_for_a_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source[:end] + ADDED + source[end:], module.__dict__)  # noqa: S102 - our own module
    return getattr(module, name)


def test_a_hyperparameter_goes_from_the_recipe_to_the_rank_by_one_declaration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = "libs/tutti/model/programs/dpo.py"
    record = changed(edited, "DpoParameters", monkeypatch)
    section = declares(record)(FinetuningSection)
    found, problems = recipetext.checked(section, {"margin": 0.5, "beta": 0.2})
    assert problems == []
    assert found is not None
    made = record(**values(record, found))
    assert (made.margin, made.beta, made.held_out) == (0.5, 0.2, 0.05)
    assert record.from_dict(made.to_dict()) == made, "a rank reads what the recipe says"
    assert "margin" not in record().to_dict(), "trainings without it keep their digests"
    assert [each.field for each in recipetext.checked(section, {"margin": 5.0})[1]] == ["margin"]
    with pytest.raises(ValueError, match="margin"):
        record(margin=-1.0)
    (row,) = (row for row in pages.table(section) if "`margin`" in row)
    assert "at least 0, less than 5" in row
    used = "services/tutti/trainer/programs/dpo.py"
    with capsys.disabled():
        print(f"\na hyperparameter of a program: 1 declaration in {edited}; it is used in {used}")


def test_a_hyperparameter_of_the_optimizer_gets_its_field_of_the_message_from_its_declaration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, record = trainingproto.FILE.read_text(), changed("libs/tutti/model/spec.py", "OptimizerSpec", monkeypatch)
    more = trainingproto.completed(text, [record])
    assert trainingproto.completed(more, [record]) == more
    assert trainingproto.completed(text, [OptimizerSpec, StepSpec, Training]) == text
    lines = [line.strip() for line in more.splitlines() if line not in text.splitlines()]
    assert lines[-1] == "optional double margin = 14;"


@pytest.mark.parametrize(
    "name", [name for name, stage in definitions().items() if issubclass(stage.section, Declaring)]
)
def test_no_section_declares_a_parameter_of_its_records_again(name: str) -> None:
    known = [OptimizerSpec, StepSpec, Training, *filter(None, [records().get(name)])]
    keys = {declared.key for record in known for declared in parameters(record).values()}
    mro = definitions()[name].section.__mro__
    by_hand = [each for each in mro if issubclass(each, Declaring) and not _is_derived(each)]
    written = {key for each in by_hand for key in inspect.get_annotations(each)}
    assert written & keys == OWN.get(name, set())


def _is_derived(section: type) -> bool:
    """True for a class that `declares` made of the one with the same name."""
    return section.__mro__[1].__name__ == section.__name__
