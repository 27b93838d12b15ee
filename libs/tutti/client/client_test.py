"""The client: which token goes where."""

from pathlib import Path

import pytest

from tutti.chassis.config.datadir import DataDir, tokens_in
from tutti.chassis.errors import Unauthenticated
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.channel import Unreachable
from tutti.client import connect

MINE = "tutti-operator-mine"


@pytest.fixture(autouse=True)
def _in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTTI_TOKEN", MINE)


@pytest.mark.parametrize("named", [None, ".tutti", "elsewhere"])
def test_the_token_of_the_environment_is_not_sent_where_a_directory_leads(named: str | None) -> None:
    data_dir = DataDir(Path(named or ".tutti"))
    data_dir.announce("127.0.0.1:1")
    with pytest.raises(Unauthenticated):
        connect(named)
    tokens = data_dir.tokens()
    with connect(named) as client:
        assert client._token == tokens.of(Role.OPERATOR) != MINE


def test_it_is_sent_to_an_address_that_somebody_gave() -> None:
    with connect(address="127.0.0.1:1") as client:
        assert client._token == MINE


def test_a_directory_that_nobody_named_leads_to_no_other_machine() -> None:
    data_dir = DataDir(Path(".tutti"))
    data_dir.tokens()
    data_dir.announce("192.0.2.1:7600")
    with connect() as client, pytest.raises(Unreachable, match=r"192\.0\.2\.1:7600"):
        client.address("pipeline")
    with connect(data_dir.path) as client:
        assert client.address("pipeline") == "192.0.2.1:7600"


def test_a_directory_in_which_others_can_write_leads_nowhere() -> None:
    data_dir = DataDir(Path(".tutti"))
    data_dir.announce("127.0.0.1:1")
    assert tokens_in(data_dir.path) if data_dir.tokens() else None
    data_dir.path.chmod(0o777)
    with pytest.raises(Unauthenticated, match="chmod 700"):
        connect()
