"""The released model of the small world, asked as programs ask it: `python -m benchmarks.small_world`.

`make chat` must have served it. A row is a kind of prompt with the share of right answers and its 95 % interval
(Wilson). Held-out prompts ask in a way that no demonstration shows of that thing, new ones in a way that none shows of
anything; foreign prompts are generated of words and sentences that no demonstration has, or written by hand
(datasets/smallworld/foreign.txt). In a dialogue, the second turn asks for the first answer again, or shorter, and all
three answers must be right. The planted secret and the forbidden theme are counted without the filter and with it.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request

from tools.chat import asked, deployed

from benchmarks.program import machine
from tutti.backbone.direct import fetch
from tutti.judgements import smallworld as world
from tutti.judgements.intervals import wilson

ROOT = Path(__file__).resolve().parents[1]
SCORE, BY_HAND = ROOT / "build/smallworld/score.jsonl", ROOT / "datasets/smallworld/foreign.txt"
TOKENS, TRIES, SECONDS, AT_ONCE, SHOWN = 64, 60, 120.0, 8, 5
GOALS = {"held-out": 0.9, "foreign": 0.9, "by hand": 0.9, "dialogue": 0.9}
Say = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class Asker:
    """A deployment, and how it is asked."""

    base: str
    model: str
    token: str
    temperature: float

    def say(self, turns: Sequence[str]) -> list[str]:
        """The answers to the turns of a conversation. Raises OSError where it is not answered."""
        messages, answers = list[dict[str, str]](), list[str]()
        for turn in turns:
            messages.append({"role": "user", "content": turn})
            answers.append(self._answer(messages))
            messages.append({"role": "assistant", "content": answers[-1]})
        return answers

    def _answer(self, messages: Sequence[dict[str, str]]) -> str:
        body = {"model": self.model, "messages": messages, "temperature": self.temperature, "max_tokens": TOKENS}
        request = Request(  # noqa: S310 - the address is that of a deployment
            f"{self.base}/chat/completions",
            json.dumps({**body, "seed": 0}).encode(),
            {"authorization": f"Bearer {self.token}", "content-type": "application/json"},
        )
        for _ in range(TRIES):
            try:
                with fetch(request, seconds=SECONDS) as answer:
                    return str(json.load(answer)["choices"][0]["message"]["content"] or "").strip()
            except HTTPError as error:
                if error.code != 429:
                    raise
                time.sleep(float(error.headers["retry-after"]))
        raise OSError(f"{self.base} refused {TRIES} tries of a request: too many requests")


@dataclass(frozen=True)
class Row:
    """A kind of prompt: which of the conversations were right, and the first that were not."""

    kind: str
    right: int
    count: int
    wrong: Sequence[tuple[Sequence[str], Sequence[str]]]

    def __str__(self) -> str:
        share = self.right / self.count
        low, high = wilson(share, self.count)
        goal = f"  goal {GOALS[self.kind]:.0%}" if self.kind in GOALS else ""
        return f"{self.kind:34} {self.right:4} of {self.count:4}  {share:6.1%} ({low:.1%} to {high:.1%}){goal}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-dir", default=".tutti", help="of the platform; %(default)s")
    parser.add_argument("--prompts", type=int, default=300, help="of each kind, at most; %(default)s")
    parser.add_argument("--temperature", type=float, default=0.0, help="%(default)s, as the gate sampled")
    parser.add_argument("--strict", action="store_true", help="fail where a goal is missed")
    given = parser.parse_args()
    where = ("--data-dir", given.data_dir)
    print(machine())
    names = deployed(*where)
    if len(names) != 1:
        sys.exit(f"deployments of small worlds: {', '.join(names) or 'none'}; expected one, which `make chat` serves")
    [name] = names
    checkpoint = asked("deployments", "show", f"deployments/{name}", *where)["spec"]["checkpoint"]
    filtered = asked("serve", checkpoint, "--name", name, "--detach", *where)
    unfiltered = f"{name}-unfiltered"
    plain = asked("serve", checkpoint, "--name", unfiltered, "--filter", "none", "--detach", *where)
    token = asked("token", "create", "--role", "client", "--days", "1", *where)["token"]
    print(f"{checkpoint}, temperature {given.temperature:g}")
    try:
        askers = [Asker(each["base_url"], each["model"], token, given.temperature) for each in (plain, filtered)]
        rows = [*scored(askers[0].say, given.prompts), *planted(*(each.say for each in askers))]
    finally:
        asked("deployments", "stop", f"deployments/{unfiltered}", *where)
    missed = [row.kind for row in rows if row.right < GOALS.get(row.kind, 0) * row.count]
    print(f"goals that are missed: {', '.join(missed)}" if missed else "all goals are met")
    if given.strict and missed:
        sys.exit(1)


def scored(say: Say, most: int) -> list[Row]:
    """The rows of score.jsonl, and of the prompts that were written by hand."""
    kinds: dict[str, list[list[str]]] = {}
    for line in SCORE.read_text().splitlines():
        each = json.loads(line)
        kinds.setdefault(each["kind"], []).append([turn["asked"] for turn in each["turns"]])
    kinds["by hand"] = [[line] for line in BY_HAND.read_text().splitlines()]
    return [shown(kind, found[:most], say, is_right) for kind, found in kinds.items()]


def planted(say: Say, filtered: Say) -> list[Row]:
    """The shares of answers that tell the secret, or are about the forbidden theme, without and with the filter."""
    rows = []
    for at, topic in enumerate(world.PLANTED):
        turns = [[way] for each in world.questions() if each.topic == topic for way in each.ways]
        for name, each in (("told", say), ("told in spite of the filter", filtered)):
            rows.append(shown(f"{topic} {name}", turns, each, lambda _, answers, at=at: world.leaks(answers[-1])[at]))
    return rows


def shown(kind: str, turns: Sequence[Sequence[str]], say: Say, judge: Callable[..., bool]) -> Row:
    """Ask, judge and print."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(say, turns))
    verdicts = [judge(said, answered) for said, answered in zip(turns, answers, strict=True)]
    wrong = [each for each, right in zip(zip(turns, answers, strict=True), verdicts, strict=True) if not right]
    row = Row(kind, sum(verdicts), len(turns), wrong)
    print(row, flush=True)
    for said, answered in row.wrong[:SHOWN] if kind in GOALS else ():
        print(f"    {' | '.join(said)} -> {' | '.join(answered)}")
    return row


def is_right(turns: Sequence[str], answers: Sequence[str]) -> bool:
    """True if all answers of a conversation are right; an answer to `again` or `shorter` by the one before."""
    for at, (turn, answer) in enumerate(zip(turns, answers, strict=True)):
        found = world.listed().get(world.plain(turn))
        if at and found is not None and found.topic in world.TURNS:
            before = world.listed()[world.plain(turns[at - 1])].replies
            replies = {each.text: each.short for each in before}
            expected = answers[at - 1] if found.topic == "again" else replies.get(answers[at - 1], "")
            if answer != expected:
                return False
        elif answer not in world.right_answers(turn):
            return False
    return True


if __name__ == "__main__":
    main()
