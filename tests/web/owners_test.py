"""The owner of a platform, over gRPC: a token of the file `tokens` names files of its account, a personal one none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.hosted import Hosted, hosted
from tutti.access.service import build as build_access
from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.usertokens import PREFIX
from tutti.client import connect
from tutti.contracts.access.v1 import IssueTokenRequest
from tutti.contracts.ingest.v1 import DigestInputRequest, IngestSpec
from tutti.ingest.service import build as build_ingest
from tutti.web.tokens import digest, new_token


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    builds = {"access": build_access, "ingest": build_ingest}
    with hosted(tmp_path_factory.mktemp("platform"), builds=builds) as found:
        yield found


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ENGINEER])
def test_a_personal_token_of_the_owners_user_reads_no_files(served: Hosted, tmp_path: Path, role: Role) -> None:
    (tmp_path / "hosts.txt").write_text("a secret of the account")
    request, token = DigestInputRequest(spec=IngestSpec(input_path=str(tmp_path))), PREFIX + new_token()
    with connect(served.data_dir.path, role=role) as owner:
        assert owner.ingest.DigestInput(request).files == 1
        owner.access.IssueToken(IssueTokenRequest(token_digest=digest(token)))
    with connect(served.data_dir.path, token=token) as personal:
        assert (
            personal.access.IssueToken(IssueTokenRequest(token_digest=digest(new_token()))).user
            == f"users/{role.value}"
        )
        with pytest.raises(InvalidField, match=r"ingest\.roots"):
            personal.ingest.DigestInput(request)
