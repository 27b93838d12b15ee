"""Policies, decoding and judgements beside their peers: `make bench-behaviour`.

A step of GRPO (64 rollouts of at most 12 tokens in groups of 4, one update of all at once, KL penalty) beside TRL's,
from the same weights with the same prompts and rewards, for the model of recipes/assistant.yaml, which has the goal,
and for one of five times its size. Rewards differ in nearly all groups, because a step of ours leaves out groups of
equal rewards, and one of TRL's computes them; 32 texts by slots beside `generate`, which decodes 8 at once; judgements
of a leaning crowd fitted beside crowd-kit's methods. Peers run in a Python of their own (build/peers-behaviour). All is
time on one core.
"""

import itertools
import json
import statistics
import subprocess
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import torch

from benchmarks.pairs import Pairs, alternate, timed
from benchmarks.program import ROOT, WentWrong, main, scratch
from benchmarks.table import Goal, Row, ratio_at_least, ratio_at_most
from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.experience import Prompt
from tutti.corpus.conversations.template import CHAT_1
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference import huggingface
from tutti.inference.decoder import Decoder
from tutti.inference.engine import Mode, Request, Weights
from tutti.inference.engine import generate as by_slots
from tutti.inference.generation import generate
from tutti.inference.limits import Limits
from tutti.inference.sampling import Sampling
from tutti.inference.slotengine import SlotEngine
from tutti.judgements.fit import fit
from tutti.judgements.fit_test import right, world
from tutti.model.chunks import Layout
from tutti.model.initial import initial_parameters
from tutti.model.plan import Plan, Shape
from tutti.model.policy import ClippedPolicy
from tutti.model.programs.grpo import GrpoParameters, RewardFunction
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec, row_length
from tutti.model.step import RankStep
from tutti.model.training import Initial, RoleModel, Training
from tutti.tokenization.bpe import train_bpe
from tutti.trainer.policies.judging import Judge
from tutti.trainer.policies.policydata import PolicyData
from tutti.trainer.policies.rollouts import Rollouts, Vocabulary

PYTHON = ROOT / "build" / "peers-behaviour" / "bin" / "python"
HOW = "there is no build/peers-behaviour; `make bench-behaviour` makes it"
HALF, TWICE, THIRD_MORE = ratio_at_most(0.5), ratio_at_least(2), ratio_at_least(1.3)
CONTEXT, TEXTS, PROMPT = 64, 32, 16
MINI = ModelSpec(vocabulary=512, width=64, layers=3, heads=4, kv_heads=4, hidden=160, context=CONTEXT)
NAME, DIGEST = "checkpoints/base/0/1", f"blake3:{'0' * 64}"
REWARDS = {"[x-z]": 1.0, "[u-w]": 2.0, "[f-h]": 4.0}
"""Rewards by regular expression: a rollout gets the sum of those that match it."""
SETTINGS = GrpoParameters(
    prompts=16,
    group=4,
    tokens=12,
    functions=tuple(RewardFunction("regex", pattern, weight) for pattern, weight in REWARDS.items()),
)


def measure(quick: bool) -> list[Row]:
    """Rows of decoding, of a step, and of aggregation."""
    torch.set_num_threads(1)
    words = [text for _, text in sorted(topics.items())]
    tokenizer = train_bpe(words[:20], vocabulary=512, reserved=CHAT_1.tokens)
    model = ModelSpec(
        vocabulary=tokenizer.vocabulary, width=128, layers=4, heads=4, kv_heads=4, hidden=344, context=CONTEXT
    )
    layout, mini = Layout(model), Layout(replace(MINI, vocabulary=tokenizer.vocabulary))
    rng = np.random.default_rng(0)
    chapter = words[0].split()
    drawn = (" ".join(rng.choice(chapter, 5)) for _ in itertools.count())
    asked = list(itertools.islice((text for text in drawn if len(tokenizer.encode(text)) <= PROMPT), 256))
    turns = 3 if quick else 9
    return [
        *decoding(layout, tokenizer, asked, turns),
        policy_step(mini, tokenizer, asked, steps=4 if quick else 12, goal=HALF),
        policy_step(layout, tokenizer, asked, steps=4 if quick else 12, goal=None),
        *aggregation(quick),
    ]


def _parameters(layout: Layout) -> torch.Tensor:
    return torch.cat([torch.from_numpy(initial_parameters(layout, chunk, 1)) for chunk in layout.chunks])


def decoding(layout: Layout, tokenizer: BytePairTokenizer, asked: list[str], turns: int) -> list[Row]:
    """Tokens a second of 32 texts, in both modes."""
    vector = _parameters(layout)
    prompts = [tuple(tokenizer.encode(text).tolist()) for text in asked[:TEXTS]]
    limits, sampling = Limits(tokens=32, end=tokenizer.eos, vocabulary=tokenizer.vocabulary), Sampling(seed=1)
    requests = [Request(number, prompt) for number, prompt in enumerate(prompts)]
    decoder, rows = Decoder(layout, vector), []
    said = sum(len(each.tokens) for each in generate(decoder, prompts, sampling, limits))
    for mode, goal in ((Mode.FAST, TWICE), (Mode.EXACT, THIRD_MORE)):
        engine = SlotEngine(layout, rows=8, mode=mode, slots=TEXTS)
        engine.start(Weights("weights", vector))
        pairs = alternate(
            timed(partial(by_slots, engine, requests, sampling, limits), time.process_time),
            timed(partial(generate, decoder, prompts, sampling, limits), time.process_time),
            pairs=turns,
        )
        what = f"{TEXTS} texts by slots, {mode} mode, beside generate"
        note = f"{said} tokens after prompts of up to 16; {layout.elements:,} parameters"
        rows.append(Row.of_speed(what, unit="tokens/s", amount=said, pairs=pairs, goal=goal, note=note))
    return rows


def policy_step(layout: Layout, tokenizer: BytePairTokenizer, asked: list[str], steps: int, goal: Goal | None) -> Row:
    """CPU seconds of a step; first ones, which load and compile, are left out. Half of ours run after the peer's."""
    what, vector = f"a step of GRPO, {layout.elements:,} parameters, beside TRL's", _parameters(layout)
    if not PYTHON.exists():
        return Row(what, goal=goal, note=HOW)
    ours = _our_steps(layout, vector, tokenizer, asked, steps // 2 + 1)[1:]
    with scratch("behaviour") as name:
        folder, prompts = Path(name, "model"), Path(name, "prompts.json")
        huggingface.write(huggingface.Exported(layout, vector.numpy(), tokenizer), folder)
        prompts.write_text(json.dumps(asked))
        told: list[float] = json.loads(_peer("grpo", str(folder), str(prompts), str(steps + 1), json.dumps(REWARDS)))
    ours += _our_steps(layout, vector, tokenizer, asked, steps // 2 + 1)[1:]
    pairs = Pairs(tuple(ours), tuple(told[1:]))
    return Row(
        what,
        unit="CPU s",
        ours=statistics.median(pairs.ours),
        peer=statistics.median(pairs.peer),
        ratio=pairs.cost(),
        goal=goal,
        note=f"{SETTINGS.rollouts} rollouts of {SETTINGS.tokens} tokens after prompts of up to {PROMPT}, KL penalty",
    )


def _our_steps(
    layout: Layout, vector: torch.Tensor, tokenizer: BytePairTokenizer, asked: list[str], steps: int
) -> list[float]:
    training = Training(
        layout.model,
        OptimizerSpec(peak_rate=1e-4, steps=steps),
        StepSpec(leaves=1, rows=64, length=row_length(PROMPT + SETTINGS.tokens, CONTEXT)),
        DIGEST,
        checkpoint_every=steps,
        program="grpo",
        initial=Initial(NAME, DIGEST),
        tokenizer=tokenizer.version,
        template=CHAT_1.digest,
        models=(RoleModel("reference", NAME, DIGEST),),
        program_parameters=SETTINGS,
    )
    prompts = [Prompt((Message(Role.USER, text),), tuple(tokenizer.encode(text).tolist())) for text in asked]
    vocabulary = Vocabulary(tokenizer.eos, tokenizer.vocabulary, tokenizer.decode)
    rollouts = Rollouts(training, SETTINGS, vocabulary, Judge(SETTINGS, None), vector.clone())
    data = PolicyData(training, SETTINGS, prompts, rollouts)
    plan = Plan(layout, Shape(1), training.step.leaves)
    me = RankStep(
        layout.model, training.optimizer, training.step, plan, rank=0, epoch=1, audit_every=0, objective=ClippedPolicy()
    )
    me.initialize()
    me.parameters.copy_(vector)
    ledger, costs = data.first_ledger(), []
    for number in range(1, steps + 1):
        begun = time.process_time()
        data.prepare(me, number)
        me.run(number, data.leaves(ledger, number, me.leaves_needed(number)))
        data.metrics(me)
        costs.append(time.process_time() - begun)
    return costs


def aggregation(quick: bool) -> list[Row]:
    """Judgements of a crowd of which a part leans and a part knows nothing: time, and pairs that are right."""
    known = world(3, pairs=1000 if quick else 4000)
    begun = time.process_time()
    found = fit(known.observed)
    seconds, share = time.process_time() - begun, right(known, found)
    ordinary = known.observed.pair < len(known.margins)
    told = {
        "pair": known.observed.pair[ordinary].tolist(),
        "annotator": known.observed.annotator[ordinary].tolist(),
        "first": known.observed.first[ordinary].astype(int).tolist(),
        "better": (known.margins > 0).astype(int).tolist(),
    }
    note = f"{len(known.observed.pair):,} judgements of {len(known.margins):,} pairs, and 40 control pairs for the fit"
    if not PYTHON.exists():
        return [Row("pairs that the fit names right", unit="%", ours=100 * share, note=HOW)]
    with scratch("behaviour") as name:
        path = Path(name, "judgements.json")
        path.write_text(json.dumps(told))
        peers = json.loads(_peer("crowd", str(path)))
    return [
        row
        for method, of in peers.items()
        for row in (
            Row(f"pairs named right, beside {method}", unit="%", ours=100 * share, peer=100 * of["right"], note=note),
            Row(f"time of the fit, beside {method}", unit="CPU s", ours=seconds, peer=of["seconds"], note=note),
        )
    ]


def _peer(*arguments: str) -> str:
    """The last line that the peer printed."""
    command = [str(PYTHON), str(Path(__file__).with_name("behaviour_peer.py")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WentWrong(f"the peer ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main("behaviour", __doc__, measure)
