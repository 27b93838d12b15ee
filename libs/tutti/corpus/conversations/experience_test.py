"""Experience comes back from its bytes, and a flipped byte is seen."""

import numpy as np
import pytest

from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.experience import Experience, InvalidExperience, Prompt, Rollout
from tutti.records.canonical import bytes_digest

PROMPTS = (
    Prompt((Message(Role.USER, "2 + 2"),), (5, 6), expected="4"),
    Prompt((Message(Role.SYSTEM, "be kind"), Message(Role.USER, "é")), (7,)),
)


def rollout(number: int, length: int) -> Rollout:
    rng = np.random.default_rng(number)
    old, reference = (rng.normal(-2, 1, length).astype(np.float32) for _ in range(2))
    tokens = tuple(rng.integers(0, 300, length).tolist())
    return Rollout(number, number // 2, tokens, old, reference, f"text {number}", "end", 0.5, -1.0, number > 0)


EXPERIENCE = Experience(3, 12, f"blake3:{'a' * 64}", PROMPTS, [rollout(n, n + 1) for n in range(4)])


def test_it_comes_back_from_its_bytes() -> None:
    data = EXPERIENCE.encode()
    again = Experience.decode(data, expected=EXPERIENCE.digest)
    assert again.encode() == data
    assert (again.iteration, again.step, again.policy) == (3, 12, EXPERIENCE.policy)
    assert [each.messages for each in again.prompts] == [each.messages for each in PROMPTS]
    assert [each.expected for each in again.prompts] == ["4", None]
    for one, other in zip(again.rollouts, EXPERIENCE.rollouts, strict=True):
        assert (one.number, one.prompt, one.tokens, one.kept) == (other.number, other.prompt, other.tokens, other.kept)
        assert np.array_equal(one.old, other.old)
        assert one.kl == other.kl


def test_a_flipped_byte_and_another_file_are_refused() -> None:
    data = bytearray(EXPERIENCE.encode())
    data[len(data) // 2] ^= 1
    with pytest.raises(InvalidExperience, match="is damaged"):
        Experience.decode(bytes(data), expected=EXPERIENCE.digest)
    with pytest.raises(InvalidExperience, match="use a newer tutti"):
        Experience.decode(b"another", expected=bytes_digest(b"another"))
