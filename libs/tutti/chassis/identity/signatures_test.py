"""Signatures: what verifies, and what does not."""

import pytest

from tutti.chassis.identity.signatures import SigningKey, verifies

KEY = SigningKey(bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))


def test_the_public_key_is_that_of_rfc_8032() -> None:
    assert KEY.public == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def test_a_signature_verifies_what_was_signed_by_its_key_for_its_purpose() -> None:
    signature = KEY.sign("a release", "statement")
    assert KEY.sign("a release", "statement") == signature
    assert verifies("a release", "statement", signature, KEY.public)


@pytest.mark.parametrize(
    ("purpose", "statement", "key"),
    [
        ("another", "statement", KEY.public),
        ("a release", "statement.", KEY.public),
        ("a release", "statement", SigningKey(b"1" * 32).public),
        ("a release", "statement", "no key"),
    ],
)
def test_a_signature_verifies_nothing_else(purpose: str, statement: str, key: str) -> None:
    assert not verifies(purpose, statement, KEY.sign("a release", "statement"), key)
    assert not verifies(purpose, statement, "", key)
