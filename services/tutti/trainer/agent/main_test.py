"""The agent's program: what its arguments make of a node."""

from tutti.chassis.config.settings import load
from tutti.model.machine import machine_signature
from tutti.trainer.agent.main import _parser, _settings


def test_a_node_registers_under_the_name_of_its_machine() -> None:
    settings = _settings(_parser().parse_args(["--device", "cpu"]), load(environment={}, services=["trainer"]))
    assert settings.kernel == machine_signature(("cpu",)).digest()
