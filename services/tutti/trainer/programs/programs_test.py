"""Programs: those that a training may name are those that ranks can run."""

from pathlib import Path

import pytest

from tutti.model.spec import SpecError
from tutti.model.training import PROGRAMS as NAMES
from tutti.model.training import Training
from tutti.model.training_test import TRAINING
from tutti.trainer.programs import PROGRAMS


def test_a_training_may_name_every_program_that_there_is_and_no_other() -> None:
    modules = {path.stem for path in Path(__file__).parent.glob("[a-z]*.py")} - {"program", "programs_test"}
    assert set(NAMES) == set(PROGRAMS) == modules
    assert NAMES[0] == TRAINING.program == "pretrain"
    with pytest.raises(SpecError, match=r"Training\.program is 'vpo'; expected one of pretrain"):
        Training.from_dict(TRAINING.to_dict() | {"program": "vpo"})


def test_a_program_that_is_not_named_is_absent_from_the_record() -> None:
    assert "program" not in TRAINING.to_dict()
    with pytest.raises(SpecError, match="program is written at its default"):
        Training.from_dict(TRAINING.to_dict() | {"program": "pretrain"})


def test_a_checkpoint_is_due_after_the_last_step() -> None:
    for program in PROGRAMS.values():
        assert program.checkpoint_due(TRAINING, TRAINING.steps)
