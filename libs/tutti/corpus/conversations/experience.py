"""Experience: the rollouts of one iteration as one file, from which its policy's log-probabilities can be recomputed.

Promises: equal experience has equal bytes, and nothing in it depends on who rolled out. A file is a header in canonical
JSON and columns in little-endian order, and is digested as a whole by what names it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tutti.corpus.conversations.conversations import Conversation, InvalidConversation, Messages
from tutti.native.arrays import np, npt
from tutti.records.canonical import JsonValue, bytes_digest, canonical_json, parse_json
from tutti.records.errors import CorpusError
from tutti.records.fields import Fields

_MAGIC = b"tuttiex1"
_HEAD = struct.Struct("<8sQ")
_ROLLOUT = [
    ("number", "<u8"),
    ("prompt", "<u4"),
    ("tokens", "<u4"),
    ("reward", "<f8"),
    ("advantage", "<f8"),
    ("kept", "u1"),
    ("stop", "u1"),
]
_TOKEN = [("token", "<u4"), ("old", "<f4"), ("reference", "<f4")]
_CREDIT = [("value", "<f4"), ("advantage", "<f4"), ("return", "<f4")]
STOPS = ("end", "tokens", "context")
Floats: TypeAlias = "npt.NDArray[np.float32]"


class InvalidExperience(CorpusError):
    """A file is no experience, or is damaged."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt with the ids that it was rendered to, and the answer that is known to be right, where there is one."""

    messages: Messages
    tokens: tuple[int, ...]
    expected: str | None = None


@dataclass(frozen=True, eq=False)
class Credit:
    """The output of a value model for each token of an answer: float32 [tokens] each.

    `values` and `returns` are in units of reward; `advantages` are whitened over the batch.
    """

    values: Floats
    advantages: Floats
    returns: Floats


@dataclass(frozen=True, eq=False)
class Rollout:
    """An answer. `tokens` have the one that ends it, where the policy chose it.

    `old` and `reference` are log-probabilities of the tokens in nats, float32 [len(tokens)], by the policy that wrote
    them and by the reference. `kept` says that it was trained on: rollouts of a group with equal rewards are not.
    `advantage` is that of all tokens, or the mean of those in `credit`, where there is a value model.
    """

    number: int
    prompt: int
    tokens: tuple[int, ...]
    old: Floats
    reference: Floats
    text: str
    stop: str
    reward: float
    advantage: float
    kept: bool
    credit: Credit | None = None

    @property
    def kl(self) -> float:
        """An estimate of the KL divergence from the reference, in nats over the answer (k3 of Schulman 2020)."""
        gaps = self.reference.astype(np.float64) - self.old
        return float(np.sum(np.exp(gaps) - gaps - 1))


@dataclass(frozen=True, eq=False)
class Experience:
    """`policy` is the digest of the parameters that rolled out; steps up to `step` had made them."""

    iteration: int
    step: int
    policy: str
    prompts: Sequence[Prompt]
    rollouts: Sequence[Rollout]

    def summary(self) -> dict[str, float]:
        """Figures by name: rewards, nats of KL an answer, nats of entropy a token, tokens an answer, dropped groups,
        and the root mean square of the errors of a value model, where there is one.
        """
        rewards = np.array([each.reward for each in self.rollouts])
        groups = {each.prompt for each in self.rollouts}
        kept = {each.prompt for each in self.rollouts if each.kept}
        chances = np.concatenate([each.old for each in self.rollouts]).astype(np.float64)
        credits = [each.credit for each in self.rollouts if each.credit is not None]
        errors = [each.values.astype(np.float64) - each.returns for each in credits]
        valued = {"value_error": float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))} if errors else {}
        return {
            **valued,
            "reward_mean": float(rewards.mean()),
            "reward_std": float(rewards.std()),
            "kl": float(np.mean([each.kl for each in self.rollouts])),
            "entropy": -float(chances.mean()),
            "answer_tokens": float(np.mean([len(each.tokens) for each in self.rollouts])),
            "groups_dropped": float(len(groups) - len(kept)),
        }

    def encode(self) -> bytes:
        head: dict[str, JsonValue] = {
            "iteration": self.iteration,
            "policy": self.policy,
            "prompts": [_prompt(each) for each in self.prompts],
            "rollouts": len(self.rollouts),
            "step": self.step,
            "texts": [each.text for each in self.rollouts],
        }
        rows = np.array(
            [
                (each.number, each.prompt, len(each.tokens), each.reward, each.advantage, each.kept, _stop(each.stop))
                for each in self.rollouts
            ],
            _ROLLOUT,
        )
        tokens = np.empty(int(rows["tokens"].sum()), _TOKEN)
        for rollout, part in zip(self.rollouts, np.split(tokens, np.cumsum(rows["tokens"])[:-1]), strict=True):
            part["token"], part["old"], part["reference"] = rollout.tokens, rollout.old, rollout.reference
        credits = [each.credit for each in self.rollouts if each.credit is not None]
        credited = np.empty(len(tokens) if credits else 0, _CREDIT)
        if credits:
            head["credited"] = True
            credited["value"] = np.concatenate([each.values for each in credits])
            credited["advantage"] = np.concatenate([each.advantages for each in credits])
            credited["return"] = np.concatenate([each.returns for each in credits])
        text = canonical_json(head)
        return _HEAD.pack(_MAGIC, len(text)) + text + rows.tobytes() + tokens.tobytes() + credited.tobytes()

    @property
    def digest(self) -> str:
        """`blake3:<hex>` of the encoded bytes."""
        return bytes_digest(self.encode())

    @classmethod
    def decode(cls, data: bytes, *, expected: str) -> Experience:
        """`expected` is the digest of the bytes. Raises InvalidExperience."""
        if (seen := bytes_digest(data)) != expected:
            raise InvalidExperience(f"the experience is damaged: seen {seen}, expected {expected}; run its job again")
        if len(data) < _HEAD.size or data[: len(_MAGIC)] != _MAGIC:
            raise InvalidExperience(f"a file that begins with {data[:8]!r}; expected {_MAGIC!r}: use a newer tutti")
        length = _HEAD.unpack_from(data)[1]
        fields = Fields(parse_json(data[_HEAD.size : _HEAD.size + length]), path="experience", error=InvalidExperience)
        texts, at = fields.texts("texts"), _HEAD.size + length
        rows = np.frombuffer(data, _ROLLOUT, count=fields.count("rollouts"), offset=at)
        count, ends = int(rows["tokens"].sum()), np.cumsum(rows["tokens"])[:-1]
        tokens = np.frombuffer(data, _TOKEN, count=count, offset=at + rows.nbytes)
        parts = np.split(tokens, ends)
        credits: list[Credit | None] = [None] * len(rows)
        if fields.has("credited"):
            credited = np.frombuffer(data, _CREDIT, count=count, offset=at + rows.nbytes + tokens.nbytes)
            credits = [Credit(each["value"], each["advantage"], each["return"]) for each in np.split(credited, ends)]
        return cls(
            iteration=fields.count("iteration"),
            step=fields.count("step"),
            policy=fields.digest("policy"),
            prompts=tuple(_read_prompt(each) for each in fields.objects("prompts")),
            rollouts=tuple(_rollouts(rows, parts, texts, credits)),
        )


def _rollouts(
    rows: npt.NDArray[np.void],
    parts: Sequence[npt.NDArray[np.void]],
    texts: Sequence[str],
    credits: Sequence[Credit | None],
) -> Iterator[Rollout]:
    for row, part, text, credit in zip(rows, parts, texts, credits, strict=True):
        yield Rollout(
            number=int(row["number"]),
            prompt=int(row["prompt"]),
            tokens=tuple(part["token"].tolist()),
            old=part["old"],
            reference=part["reference"],
            text=text,
            stop=STOPS[row["stop"]],
            reward=float(row["reward"]),
            advantage=float(row["advantage"]),
            kept=bool(row["kept"]),
            credit=credit,
        )


def _prompt(prompt: Prompt) -> JsonValue:
    found: dict[str, JsonValue] = {
        "messages": Conversation(prompt.messages).to_json()["messages"],
        "tokens": list(prompt.tokens),
    }
    return found if prompt.expected is None else {**found, "expected": prompt.expected}


def _read_prompt(fields: Fields) -> Prompt:
    try:
        messages = Conversation.read(fields).messages
    except InvalidConversation as error:
        raise InvalidExperience(str(error)) from error
    return Prompt(messages, tuple(fields.counts("tokens")), fields.text("expected") if fields.has("expected") else None)


def _stop(name: str) -> int:
    return STOPS.index(name)
