"""Which folders a request may name."""

from pathlib import Path

import pytest
from sqlalchemy import MetaData

from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.auth import PEOPLE, Role
from tutti.chassis.identity.principal import Method, Principal, attributed, delegated, delegation
from tutti.ingest.paths import Paths

OWNER = Principal.of_role(Role.OPERATOR)
ENGINEER = Principal("users/u4k2m7qx9c", frozenset({Role.ENGINEER}), "tenants/default", Method.TOKEN)


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    for name in ("input/pages", "input-2", "secret"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "input" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "secret" / "back").symlink_to(tmp_path / "input" / "pages")
    return tmp_path


@pytest.mark.parametrize("path", ["input", "input/pages", "input/missing", "secret/back", "secret/../input"])
def test_a_folder_under_a_root_may_be_read(roots: Path, path: str) -> None:
    Paths(MetaData(), [str(roots / "input")]).check(f"{roots}/{path}", ENGINEER)


@pytest.mark.parametrize("path", ["secret", "input/link", "input/../secret", "input-2", "."])
def test_a_folder_elsewhere_is_refused_and_the_roots_are_named(roots: Path, path: str) -> None:
    with pytest.raises(InvalidField, match=rf"a folder under {roots}/input \(ingest.roots\)"):
        Paths(MetaData(), [str(roots / "input")]).check(f"{roots}/{path}", ENGINEER)


def test_without_roots_the_owner_alone_names_folders(roots: Path) -> None:
    Paths(MetaData()).check(f"{roots}/secret", OWNER)
    for owner in (delegated(delegation(OWNER), Role.SERVICE), attributed(OWNER.user, owner=True)):
        assert owner is not None
        Paths(MetaData()).check(f"{roots}/secret", owner)
    for stranger in (ENGINEER, Principal.of_node("nodes/a"), Principal.of_role(Role.AGENT)):
        with pytest.raises(InvalidField, match=r"ingest\.roots"):
            Paths(MetaData()).check(f"{roots}/secret", stranger)


@pytest.mark.parametrize("method", [Method.TOKEN, Method.SESSION])
@pytest.mark.parametrize("role", PEOPLE)
def test_a_personal_token_and_a_session_of_the_owners_user_name_no_folders(
    roots: Path, role: Role, method: Method
) -> None:
    """Such a token is issued to whoever asks for it, and goes from hand to hand."""
    user = f"users/{role.value}"
    personal = Principal(user, frozenset({role}), OWNER.tenant, method, "digest" if method is Method.TOKEN else "")
    passed_on = delegated(delegation(personal), Role.SERVICE)
    passed_twice = delegated(delegation(passed_on), Role.SERVICE)
    assert passed_on is not None
    assert passed_twice == passed_on
    for stranger in (personal, passed_on, attributed(user)):
        assert stranger is not None
        assert stranger.user == user
        with pytest.raises(InvalidField, match=r"ingest\.roots"):
            Paths(MetaData()).check(f"{roots}/secret", stranger)
