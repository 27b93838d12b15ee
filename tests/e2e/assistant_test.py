"""The recipe of the assistant, made small: from texts to policies that are compared by judgements."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tools.fixture import SMALL
from tools.letters import write

from tests.e2e.command import ROOT, Result, platform, tutti
from tests.faults.processes import until
from tests.theirs import their_model, their_tokenizer
from tutti.annotation.publishing.fitting import fitted
from tutti.annotation.publishing.merging import merged
from tutti.annotation.publishing.sets import LINES
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.identity.auth import Role
from tutti.chassis.work.work import publish
from tutti.checkpoints.reader import stage as staged
from tutti.checkpoints.staged import StagedCheckpoint
from tutti.client import connect
from tutti.contracts.annotation.v1 import CreatePreferencesRequest, JudgedCampaign, Preferences, PreferencesSpec
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.common.v1 import STATE_DONE, Artifact, GetRequest, ListRequest
from tutti.contracts.evaluation.v1 import STANDING_ACTIVE, STANDING_REFUSED
from tutti.contracts.sampling.v1 import ReadSampleRequest
from tutti.corpus.conversations.conversations import to_lines
from tutti.corpus.conversations.experience import Experience
from tutti.corpus.conversations.judgementset import JudgementLine, PairLine
from tutti.inference.parameters import parameters_of
from tutti.inference.parity import score
from tutti.model.device import parity_nats
from tutti.model.transformer import Transformer
from tutti.records.manifest import Kind, Manifest
from tutti.staging import linefiles
from tutti.trainer.failures import RankFailure
from tutti.trainer.policies.rollouts import require_parity

STAGES = {
    "prompts", "demonstrations", "tuned", "answers", "judged", "preferences", "reward", "grpo", "ppo", "dpo",
    "tuned-final", "grpo-final", "ppo-final", "dpo-final", "grpo-compared", "ppo-compared", "dpo-compared",
    "grpo-release", "ppo-release", "dpo-release",
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    write(folder, texts=12, demonstrations=80, prompts=80)
    return folder


Judged = tuple[Sequence[PairLine], Sequence[JudgementLine]]
SHARED = ("prompts", "demonstrations", "tuned", "tuned-final")
FIRST = ("answers", "judged", "preferences", "reward", "grpo", "grpo-final", "grpo-compared", "grpo-release")
"""The stages of the recipe that two rounds share, and those of the first round."""
ROUNDS, TRAINED = ("judged", "judged-2"), ("reward", "grpo")
"""The campaigns, and the stages of either round that train."""
ALONE = (
    "--set",
    "train.ranks=1",
    *(part for name in ("tuned", *TRAINED) for part in ("--set", f"stages.{name}.ranks=1")),
)
"""One rank is faster here, and has the same digests."""
SECOND = {
    "answers-2": {"like": "answers", "from": {"checkpoint": "grpo", "prompts": "prompts.campaign"}},
    "judged-2": {"like": "judged", "from": "answers-2"},
    "preferences-2": {"kind": "preferences", "from": {"judged": ["judged", "judged-2"]}},
    "reward-2": {"like": "reward", "from": {"initial": "tuned", "preferences": "preferences-2"}},
    "grpo-2": {"like": "grpo", "from": {"initial": "tuned", "prompts": "prompts.train", "reward": "reward-2"}},
    "final-2": {"like": "grpo-final", "from": {"checkpoint": "grpo-2", "prompts": "prompts.final"}},
    "compared-2": {
        "like": "grpo-compared",
        "from": {"baseline": "tuned-final", "candidate": "final-2", "reward": "reward-2"},
    },
    "release-2": {"like": "grpo-release", "from": {"compared": "compared-2"}},
}
SHAPED = {"preferences", "reward", "grpo", "grpo-final", "grpo-compared", "grpo-release"}
"""The stages of the first round that the judgements shaped, but not the answers that were judged afterwards."""


def assistant(files: Path, served: Path, *output: str, recipe: Path = ROOT / "recipes" / "assistant.yaml") -> Result:
    places = (
        f"input.path={files / 'texts.jsonl'}",
        f"stages.prompts.path={files / 'prompts.jsonl'}",
        f"stages.demonstrations.path={files / 'demonstrations.jsonl'}",
    )
    stages = yaml.safe_load(recipe.read_text())["stages"]
    given = [each for each in (*SMALL, *places) if not each.startswith("stages.") or each.split(".")[1] in stages]
    sets = [part for each in given for part in ("--set", each)]
    return tutti("run", recipe, *sets, *output, "--data-dir", served)


@pytest.fixture(scope="module")
def made(files: Path, served: Path) -> dict[str, Any]:
    """The summary of a run of the whole recipe."""
    result = assistant(files, served, "-o", "json")
    assert result.code == 0, result.err
    found: dict[str, Any] = result.json()
    return found


@pytest.fixture(scope="module")
def resources(made: dict[str, Any]) -> dict[str, str]:
    """The resource of each stage of that run."""
    return {stage["name"]: stage["resource"] for stage in made["run"]["stages"]}


def test_a_run_leads_from_texts_to_compared_policies_and_is_reused(
    made: dict[str, Any], files: Path, served: Path
) -> None:
    stages = {stage["name"]: stage for stage in made["run"]["stages"]}
    assert set(stages) >= STAGES
    assert {stage["state"] for stage in stages.values()} == {"done"}
    assert {each["stage"] for each in made["models"]} == {"train", "tuned", "dpo", "grpo", "ppo"}
    report = Path(made["report"]).read_text()
    assert all(f"{name}: reward against KL" in report for name in ("grpo", "ppo"))
    assert report.count("have the same bits as those of training") == 2
    found = above(made["ancestry"], "grpo-release")
    assert found >= {*FIRST, *SHARED, "train"}
    assert not found & {"ppo", "dpo", "ppo-final"}
    for name in ("grpo-compared", "ppo-compared", "dpo-compared"):
        compared = tutti("comparisons", "show", stages[name]["resource"], "-o", "json", "--data-dir", served).json()
        assert compared["judgements"] == 3 * compared["pairs"] > 0
        assert compared["wins"]["low"] <= compared["wins"]["mean"] <= compared["wins"]["high"]
        assert 0 < compared["promised"] < 1
        assert compared["divergence"] > 0
        differ = ("comparisons", "differ", compared["name"], "--count", "3", "-o", "json")
        told = tutti(*differ, "--data-dir", served).json()
        apart = [abs(each["promised"] - each["judged"]) for each in told["pairs"]]
        assert len(apart) == 3
        assert apart == sorted(apart, reverse=True)
        assert all(each["prompt"].startswith("user: ") and each["judgements"] == 3 for each in told["pairs"])
    again = assistant(files, served, "-o", "json")
    assert again.code == 0, again.err
    assert all(stage["reused"] for stage in again.json()["run"]["stages"])


def test_what_a_policy_recorded_is_computed_again_from_its_checkpoint_to_the_bit(
    resources: dict[str, str], served: Path, tmp_path: Path
) -> None:
    """The log-probabilities of the tuned model, with which the policy began, are others: the check of jobs names it."""
    blobs = EmbeddedBlobs(served / "blobs")
    with connect(served) as client:

        def newest(job: str) -> Checkpoint:
            asked = ListRequest(filter=f"job={job}")
            return max(client.committer.ListCheckpoints(asked).checkpoints, key=lambda each: each.step)

        tuned = staged(blobs, newest(resources["tuned"]).manifest_key, tmp_path / "tuned")
        for job in (resources["grpo"], resources["ppo"]):
            listed = client.experiences.ListExperiences(ListRequest(filter=f"job={job}")).experiences
            told = max(listed, key=lambda each: each.iteration)
            manifest = Manifest.decode(blobs.get(told.result.manifest_key), expected=Kind.EXPERIENCE)
            digest = str(manifest.body["bytes_digest"])
            recorded = Experience.decode(blobs.get(str(manifest.body["blob"])), expected=digest)
            wrote = client.committer.GetCheckpoint(GetRequest(name=told.checkpoint))
            policy = staged(blobs, wrote.manifest_key, tmp_path / job)
            assert recorded.policy == policy.body.model_digest == wrote.model_digest != tuned.body.model_digest
            assert sum(len(each.tokens) for each in recorded.rollouts) >= len(recorded.rollouts) > 0
            assert apart(recorded, policy, policy) == 0.0
            with pytest.raises(RankFailure, match="log-probabilities of rollouts differ from those of training"):
                require_parity(apart(recorded, tuned, policy), parity_nats(torch.device("cpu")))


def apart(recorded: Experience, scorer: StagedCheckpoint, policy: StagedCheckpoint) -> float:
    """The largest difference of what was recorded from the forward of a leaf of the policy's training, in nats."""
    training = policy.state.training
    transformer = Transformer(scorer.body.layout, torch.from_numpy(parameters_of(scorer)), compiled=False)
    prompts = [recorded.prompts[each.prompt].tokens for each in recorded.rollouts]
    texts = [(*prompt, *each.tokens) for prompt, each in zip(prompts, recorded.rollouts, strict=True)]
    rows = score(transformer, texts, rows=training.step.rows, length=training.length)
    answers = [row[len(prompt) - 1 :] for row, prompt in zip(rows, prompts, strict=True)]
    return max(float(np.abs(row - each.old).max()) for row, each in zip(answers, recorded.rollouts, strict=True))


def test_a_tuned_model_is_exported_and_answers_in_transformers_with_the_same_greedy_text(
    resources: dict[str, str], served: Path, tmp_path: Path
) -> None:
    folder, asked = tmp_path / "tuned", ReadSampleRequest(name=resources["tuned-final"])
    exported = tutti("checkpoints", "export", resources["tuned"], "--to", folder, "--data-dir", served)
    assert exported.code == 0, exported.err
    with connect(served) as client:
        answers = client.sampling.ReadSample(asked).continuations
        spec = client.sampling.GetSample(GetRequest(name=asked.name)).spec
    assert spec.temperature == 0
    assert len({each.text for each in answers}) > 1
    tokenizer = their_tokenizer(folder)
    model = their_model(folder)
    for each in answers:
        messages = [{"role": message.role, "content": message.content} for message in each.messages]
        prompt = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        with torch.no_grad():
            found = model.generate(**prompt, max_new_tokens=spec.tokens)[0, prompt["input_ids"].shape[1] :]
        assert tokenizer.decode(found, skip_special_tokens=True) == each.text


def test_a_policy_is_traced_to_the_judgements_and_demonstrations_that_shaped_it(
    resources: dict[str, str], served: Path
) -> None:
    above = tutti("trace", resources["dpo"], "--data-dir", served)
    assert above.code == 0, above.err
    for name in ("preferences", "judged", "answers"):
        assert resources[name] in above.out


def edges(served: Path, name: str, *direction: str) -> set[tuple[str, str]]:
    """The edges, each from parent to child, of a walk from a resource."""
    told = tutti("trace", name, *direction, "-o", "json", "--data-dir", served)
    assert told.code == 0, told.err
    return {(each["parent"], each["child"]) for each in told.json()["edges"]}


def parents(found: set[tuple[str, str]], child: str, kind: str) -> list[str]:
    return sorted(parent for parent, each in found if each == child and parent.startswith(f"{kind}/"))


def test_a_policy_is_traced_through_its_experiences_to_the_reward_model_and_down_again(
    resources: dict[str, str], served: Path
) -> None:
    sample, job = resources["grpo-final"], resources["grpo"]
    up, down = edges(served, sample), edges(served, resources["preferences"], "--down")
    (policy,) = parents(up, sample, "checkpoints")
    (learned,) = parents(up, policy, "experiences")
    (wrote,) = parents(up, learned, "checkpoints")
    assert parents(up, learned, "jobs") == [job]
    (first,) = parents(up, wrote, "experiences")
    assert [each.partition("/")[2] for each in (first, learned)] == [f"{job.partition('/')[2]}/0/{n}" for n in (0, 1)]
    rewards = [each for each in parents(up, job, "checkpoints") if parents(up, each, "jobs") == [resources["reward"]]]
    assert len(rewards) == 1
    assert parents(up, resources["reward"], "preferences") == [resources["preferences"]]
    assert {(job, first), (first, wrote), (wrote, learned), (learned, policy), (policy, sample)} <= down
    rebuilt = tutti("lineage", "rebuild", "--data-dir", served)
    assert rebuilt.code == 0, rebuilt.err
    assert edges(served, sample) == up
    assert edges(served, resources["preferences"], "--down") == down


@pytest.mark.parametrize("policy", ["grpo", "ppo", "dpo"])
def test_the_decision_of_a_gate_follows_from_the_stored_comparison_and_its_rules(
    policy: str, resources: dict[str, str], served: Path
) -> None:
    """Whatever a training has learned: no win rate is expected."""
    with connect(served) as client:
        compared = client.comparisons.GetComparison(GetRequest(name=resources[f"{policy}-compared"]))
        release = client.releases.GetRelease(GetRequest(name=resources[f"{policy}-release"]))
    wins, spec = compared.wins, release.spec
    gap, win = abs(compared.promised - wins.mean), release.findings[-1]
    assert [(each.rule, each.limit, each.passed) for each in release.findings] == [
        ("gap", spec.gap, gap <= spec.gap),
        ("kl", spec.kl, compared.divergence <= spec.kl),
        ("win", spec.win, win.seen > spec.win),
    ]
    assert [each.seen for each in release.findings[:-1]] == pytest.approx([gap, compared.divergence])
    assert (win.try_number, win.judgements) == (1, compared.judgements)
    assert win.level == pytest.approx(0.025)
    assert win.seen < wins.low or wins.low == 0  # which is at the level 0.05
    passed = all(each.passed for each in release.findings)
    assert release.standing == (STANDING_ACTIVE if passed else STANDING_REFUSED)
    assert bool(release.signature) == passed
    assert resources["judged"] in {each.resource for each in release.evidence}
    assert {each.comparison for each in release.findings} == {compared.name}
    assert 0 <= wins.low <= wins.mean <= wins.high <= 1
    assert compared.judgements >= compared.pairs > 0


def test_a_release_is_signed_traced_refused_by_its_rules_and_stale_after_a_retraction(
    made: dict[str, Any], served: Path, tmp_path: Path
) -> None:
    stages = {stage["name"]: stage for stage in made["run"]["stages"]}
    refused = tutti("releases", "show", stages["dpo-release"]["resource"], "-o", "json", "--data-dir", served).json()
    assert (refused["standing"], refused["signature"]) == ("refused", "")
    assert refused["reason"].startswith("win: ")
    assert stages["dpo-release"]["summary"].startswith("refused: win: ")

    release = stages["grpo-release"]["resource"]
    key = tmp_path / "release.key"
    key.write_text(tutti("releases", "key", "--data-dir", served).out)
    verified = tutti("releases", "verify", release, "--key", key, "--data-dir", served)
    assert verified.code == 0, verified.err
    key.write_text("ab" * 32)
    forged = tutti("releases", "verify", release, "--key", key, "--data-dir", served)
    assert (forged.code, "was not signed by the key" in forged.err) == (1, True)
    above = tutti("trace", release, "--data-dir", served).out
    for name in ("grpo-compared", "reward", "preferences", "judged"):
        assert stages[name]["resource"] in above

    campaign = stages["judged"]["resource"]
    listed = tutti("annotators", "ls", campaign, "-o", "json", "--data-dir", served).json()
    least = min((each for each in listed if each.get("judged")), key=lambda each: each["judged"])
    retracted = tutti("annotators", "retract", campaign, least["key"], "--reason", "to see it", "--data-dir", served)
    assert retracted.code == 0, retracted.err

    def verify() -> Result:
        return tutti("releases", "verify", release, "--data-dir", served)

    until(lambda: verify().code != 0, seconds=60, what="a stale release")
    assert f"it is stale, expected active; stale: {campaign} has the content" in verify().err
    revoked = tutti("releases", "revoke", release, "--reason", "no longer wanted", "--data-dir", served)
    assert revoked.out == f"{release} is revoked\n"


def test_after_a_retraction_only_what_the_judgements_shaped_is_made_again(files: Path, served: Path) -> None:
    """An annotator of the run before was retracted."""
    again = assistant(files, served, "-o", "json")
    assert again.code == 0, again.err
    stages = {stage["name"]: stage for stage in again.json()["run"]["stages"]}
    made = {name for name in STAGES if not stages[name]["reused"]}
    assert STAGES - made == {"prompts", "demonstrations", "tuned", "answers", "judged", "tuned-final"}


def above(ancestry: Sequence[dict[str, Any]], name: str) -> set[str]:
    """Return a stage, the stages that it was made from, those that these were made from, and so on."""
    makers = {row["stage"]: [each["stage"] for each in row["from"] if each["stage"]] for row in ancestry}
    return {name}.union(*(above(ancestry, each) for each in makers[name]))


def whole() -> dict[str, Any]:
    """The recipe of the assistant."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "recipes" / "assistant.yaml").read_text())
    return found


def written(folder: Path, *names: str, **added: Any) -> Path:
    """A recipe with these stages of the assistant's and others."""
    recipe = whole()
    stages = {name: recipe["stages"][name] for name in names} | added
    del recipe["crowd"]  # not every recipe has a stage that takes it
    for stage in stages.values():
        if "guideline" in stage:
            stage["guideline"] = str(ROOT / "datasets" / "letters" / "guideline.md")
        if "crowd" in stage:
            stage["crowd"] = {**stage["crowd"], "simulated": str(ROOT / "datasets" / "letters" / "crowd.yaml")}
    path = folder / "recipes" / "rounds.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump({**recipe, "stages": stages}))
    return path


def test_two_rounds_and_a_retraction_in_the_first(files: Path, served: Path, tmp_path: Path) -> None:
    """The judgements of what the first policy answered stay; what the retracted ones shaped is made again or stale.

    The preferences are those of a data directory where only the judgements of the others were ever fitted.
    """
    recipe = written(tmp_path / "here", *SHARED, *FIRST, **SECOND)

    def rounds() -> dict[str, Any]:
        result = assistant(files, served, "-o", "json", *ALONE, recipe=recipe)
        assert result.code == 0, result.err
        return {stage["name"]: stage for stage in result.json()["run"]["stages"]}

    def standing(kind: str, stage: dict[str, Any]) -> str:
        shown = tutti(kind, "show", stage["resource"], "-o", "json", "--data-dir", served)
        return str(shown.json()["standing"])

    before = rounds()
    assert {name for name in before if not before[name]["reused"]} >= set(SECOND)
    sets = [judged(served, before[name]) for name in ROUNDS]
    who = min(Counter(each.annotator for each in sets[0][1]).items(), key=lambda each: (each[1], each[0]))[0]
    retracted = tutti(
        "annotators", "retract", before["judged"]["resource"], who, "--reason", "to see it", "--data-dir", served
    )
    assert retracted.code == 0, retracted.err
    for kind, name in (("releases", "release-2"), ("releases", "grpo-release"), ("comparisons", "compared-2")):
        until(lambda: standing(kind, before[name]) == "stale", seconds=60, what=f"a stale {name}")  # noqa: B023

    after = rounds()
    made = {name for name, stage in after.items() if not stage["reused"]}
    assert made == SHAPED | set(SECOND) - {"answers-2", "judged-2"}
    assert after["judged-2"]["content_digest"] == before["judged-2"]["content_digest"]
    assert after["grpo-2"]["content_digest"] != before["grpo-2"]["content_digest"]
    sets[0] = (sets[0][0], [each for each in sets[0][1] if each.annotator != who])
    judged_still = {each.pair for each in sets[0][1]}
    sets[0] = ([pair for pair in sets[0][0] if pair.number in judged_still], sets[0][1])
    assert judged(served, after["judged"]) == sets[0]
    lines = tmp_path / "preferences.jsonl"
    exported = tutti("preferences", "export", after["preferences-2"]["resource"], "--to", lines, "--data-dir", served)
    assert exported.code == 0, exported.err
    assert lines.read_bytes() == to_lines(fitted(*merged(sets), "helpful").preferences)
    assert standing("releases", after["release-2"]) == "active"

    elsewhere = tmp_path / "elsewhere"
    with platform(elsewhere):
        fit = preferences(
            elsewhere,
            [published(elsewhere, served, before[name], each) for name, each in zip(ROUNDS, sets, strict=True)],
        )
        assert fit.result.content_digest == after["preferences-2"]["content_digest"]


def published(elsewhere: Path, served: Path, stage: dict[str, Any], lines: Judged) -> Artifact:
    """A set of judgements in another data directory, as its campaign would have published it."""
    manifest = Manifest.decode(EmbeddedBlobs(served / "blobs").get(stage["manifest_key"]), expected=Kind.JUDGEMENTS)
    blobs = EmbeddedBlobs(elsewhere / "blobs")
    body = {
        **manifest.body,
        "pairs": linefiles.write(blobs, LINES, lines[0]).to_json(),
        "lines": linefiles.write(blobs, LINES, lines[1]).to_json(),
    }
    return publish(blobs, "annotation", replace(manifest, body=body), data_bytes=0)


def preferences(data_dir: Path, sets: Sequence[Artifact]) -> Preferences:
    """What is fitted to published sets of judgements, whose campaigns exist elsewhere: no user could name them here."""
    first, *others = [
        JudgedCampaign(
            campaign=f"campaigns/{place}", manifest_key=each.manifest_key, content_digest=each.content_digest
        )
        for place, each in enumerate(sets)
    ]
    spec = PreferencesSpec(
        campaign=first.campaign, manifest_key=first.manifest_key, content_digest=first.content_digest, others=others
    )
    name = "preferences/others"
    with connect(data_dir, role=Role.SERVICE) as client:
        client.annotation.CreatePreferences(CreatePreferencesRequest(request_id="others", name=name, spec=spec))
        until(
            lambda: client.annotation.GetPreferences(GetRequest(name=name)).state >= STATE_DONE, seconds=60, what=name
        )
        found = client.annotation.GetPreferences(GetRequest(name=name))
    assert found.state == STATE_DONE, found.reason
    return found


def judged(served: Path, stage: dict[str, Any]) -> Judged:
    """The pairs and judgements that a campaign has published."""
    blobs = EmbeddedBlobs(served / "blobs")
    manifest = Manifest.decode(blobs.get(stage["manifest_key"]), expected=Kind.JUDGEMENTS)
    return linefiles.read(blobs, manifest, PairLine, "pairs"), linefiles.read(blobs, manifest, JudgementLine)
