"""Facts of a run that never was, for tests of its report: every part is there, and pages are hostile."""

import json
import math

from tutti.chassis.store.bodies import content_digest
from tutti.client.plain import Plain, plain
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    Checkpoint,
    CurveGap,
    CurvePoint,
    CurveValidation,
    GetCurveResponse,
)
from tutti.contracts.common.v1 import STATE_DONE, Shape
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.ingest.v1 import Crawl, Filter, Ingest, PageCount, ReasonCount
from tutti.contracts.pipeline.v1 import Run, RunSpec, Stage, StageInput
from tutti.contracts.sampling.v1 import Experience
from tutti.contracts.scheduler.v1 import Job, JobSpec
from tutti.contracts.tokenization.v1 import Dataset, Tokenization, TokenizationSpec
from tutti.report import datasets
from tutti.report.ancestry import ancestry
from tutti.report.facts import Cluster, Facts, Pages, Rule
from tutti.report.policies import Policy

STEPS = 800
HOSTILE = (
    "http://exhibit.test/<script>alert(1)</script>",
    "javascript:alert('x')\"onload=alert(2) ",
    "</code></td></table><img src=http://elsewhere.test/x.png>",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "\u202egnp.elpmaxe/\u0000\u0007\u200b" + "very-long-" * 60,
)
RECIPE = json.dumps({"name": HOSTILE[2], "input": {"crawl": {"seeds": HOSTILE[:2]}}, "train": {"steps": STEPS}})
_TOOK = {"crawl": 41.3, "ingest": 22.8, "filter": 3.1, "dedup": 6.4, "tokenization": 12.9, "train": 214.7}


def facts() -> Facts:
    run = Run(
        name="runs/0f5c2d3e4a5b",
        spec=RunSpec(
            title="first-light <b>of</b> the docs", recipe=RECIPE, recipe_digest=content_digest(Run(name="r"))
        ),
        state=STATE_DONE,
        stages=[
            Stage(name=name, state=STATE_DONE, content_digest=content_digest(Run(name=name)), reused=name == "filter")
            for name in _TOOK
        ],
    )
    run.started_at.FromJsonString("2026-11-21T22:10:11.5Z")
    job = Job(
        name="jobs/j",
        spec=JobSpec(steps=STEPS),
        step=STEPS,
        decided_step=STEPS,
        loss=1.871,
        bits_per_byte=1.463,
        epoch=2,
    )
    job.shape.CopyFrom(Shape(data_parallel=2))
    job.history.append("epoch 1 ended: rank 1 was killed by SIGKILL <i>after</i> step 312")
    dataset = Dataset(tokens=812_345, validation_tokens=41_022, validation_bytes=139_211, context=256, sequences=3174)
    dataset.unigram_bits_per_byte, dataset.bigram_bits_per_byte, dataset.xz_bits_per_byte = 3.402, 1.803, 1.312
    dataset.languages.add(language="en", documents=260, text_bytes=2_500_000, tokens=800_000)
    dataset.languages.add(language="und", documents=8, text_bytes=0, tokens=0)
    dedup = Dedup(
        state=STATE_DONE, documents=268, duplicates=21, clusters=9, near_duplicates=13, cut_units=3, cut_documents=80
    )
    dedup.spec.lines.unit, dedup.cut_bytes = "line", 9_120
    dedup.repeated.add(documents=77, text=HOSTILE[2])
    urls = (("visited/page", 301), ("left/trap", 40), ("visited/not_ok", 12))
    counts = [PageCount(what=what, pages=pages) for what, pages in urls]
    newest = {"newest_loss": 1.7504, "newest_steps": 20}
    found = {
        "run": plain(run),
        "took": 312.5,
        "seconds": _TOOK,
        "crawl": plain(Crawl(counts=counts)),
        "ingest": plain(Ingest(files=313, documents=301, rejected=12, left_out=[ReasonCount(reason="pdf", pages=12)])),
        "filter": plain(Filter(state=STATE_DONE, documents=289, rejected=12)),
        "dedup": plain(dedup),
        "tokenization": plain(Tokenization(spec=TokenizationSpec(vocabulary=4096))),
        "train": plain(job) | {"parameters": 1_803_456, "passes": 3.1, **newest},
        "dataset": datasets.told(plain(dataset)) | {"vocabulary": 4096},
        "mixture": [_read("datasets/" + "a" * 64, 3.0, 3174, 4.03), _read("datasets/" + "b" * 64, 1.0, 900, 1.58)],
        "continuations": continuations(),
        "checkpoints": [plain(_checkpoint(step)) for step in range(100, STEPS + 1, 100)],
        "models": [{"stage": "train", "checkpoint": _checkpoint(STEPS).name}],
        "ancestry": ancestry(_released()),
    }
    rules = (
        Rule("gopher_alphabetic_words", 9, tuple((each, "value 0.31, threshold 0.4") for each in HOSTILE[:3])),
        Rule("language", 3, ((HOSTILE[3], "de"), (HOSTILE[4], "fr"))),
    )
    clusters = (Cluster(HOSTILE[0], 6, HOSTILE[1:]), Cluster("library/os.html", 3, ("os-2.html", "os-3.html")))
    others = {"some/model": {"en": 4.017}, HOSTILE[2]: {"en": 3.946, "und": 2.5}}
    policies = (Policy("grpo", iterations(40), limit=2.0), Policy("ppo", iterations(3)))
    return Facts(found, Pages(rules, clusters, cut=True), _curve(), others, policies=policies)


def iterations(count: int) -> tuple[Experience, ...]:
    """Return iterations of a policy whose reward and divergence rise."""
    return tuple(
        Experience(
            name=f"experiences/j/0/{at}",
            iteration=at,
            step=at,
            reward_mean=1 - math.exp(-at / 9),
            kl=0.03 * at,
            answer_tokens=9.5,
        )
        for at in range(count)
    )


def _released() -> Run:
    """A run from prompts to a release; the checkpoint that it begins with is that of another run."""

    def stage(name: str, kind: str, **inputs: str) -> Stage:
        reads = [StageInput(role=role, resource=resource) for role, resource in inputs.items()]
        digest = content_digest(Run(name=name))
        return Stage(name=name, kind=kind, resource=f"{kind}s/{name}", content_digest=digest, inputs=reads)

    stages = [
        stage("asked", "conversation"),
        stage("grpo", "job", initial=HOSTILE[2], prompts="conversations/asked"),
        stage("grpo-final", "sample", checkpoint="jobs/grpo", prompts="conversations/asked"),
        stage("grpo-compared", "comparison", baseline="samples/other", candidate="samples/grpo-final"),
        stage("grpo-release", "release", compared="comparisons/grpo-compared"),
    ]
    stages[1].inputs[1].part = "train"
    return Run(stages=stages)


def continuations() -> list[Plain]:
    """One with passages that overlap and end inside a character, one with none in what could be searched, one of which
    nobody can say, one that is empty.
    """
    prompt, text = "The «os» module", " provides a portable way — {{ 7 * 7 }}</bdi><b>\u202e of using\nit."
    dash = len(f"{prompt} provides a portable way ".encode())
    holder = {"document": "documents/d", "source": HOSTILE[0], "steps": [3, 71], "step_count": 2}
    unseen = {"document": "documents/e", "source": "", "steps": [], "step_count": 0}
    found = [
        {"begin": 4, "end": dash - 10, "tokens": 9, "count": 1, "text": "«os» module provides", "documents": [unseen]},
        {"begin": dash - 20, "end": dash + 1, "tokens": 12, "count": 3, "text": HOSTILE[2], "documents": [holder] * 5},
    ]
    searched = {"datasets": ["datasets/" + "a" * 64], "unindexed": ["datasets/" + "b" * 64]}
    return [
        {"prompt": prompt, "text": text, "tokens": 20, "stop": "length", "passages": found, **searched},
        {"prompt": "", "text": "Once", "tokens": 1, "stop": "end", "passages": [], **searched},
        {"prompt": "", "text": "Twice", "tokens": 1, "stop": "end", "passages": None, "datasets": [], "unindexed": []},
        {"prompt": "Once", "text": "", "tokens": 0, "stop": "end", "passages": None, "datasets": [], "unindexed": []},
    ]


def _read(dataset: str, weight: float, sequences: int, epochs: float) -> Plain:
    told = {"dataset": dataset, "weight": weight, "sequences": sequences, "read": round(epochs * sequences)}
    return {**told, "epochs": epochs, "epochs_in_all": epochs}


def _checkpoint(step: int) -> Checkpoint:
    digest = content_digest(Checkpoint(step=step))
    return Checkpoint(
        step=step,
        state=CHECKPOINT_STATE_COMMITTED,
        loss=1.5 + 60 / step,
        bits_per_byte=1.3 + 30 / step if step % 400 == 0 else None,
        bytes=18_403_328,
        model_digest=digest,
        state_digest=digest,
        dataset_digest=digest,
    )


def _curve() -> GetCurveResponse:
    """With noise that follows from the step, two skipped steps, and a stretch of which nothing is known."""
    curve = GetCurveResponse(steps=STEPS - 20, skipped=2, missing=20)
    curve.gaps.append(CurveGap(first_step=501, last_step=520, reason="committer/curves/x is not in the store"))
    for step in (at for at in range(1, STEPS + 1) if not 501 <= at <= 520):
        noise = math.sin(step * 12.9898) * 43758.5453 % 1 - 0.5
        skipped = step in (97, 98)
        curve.points.append(
            CurvePoint(
                step=step,
                loss=math.nan if skipped else 1.75 + 6.6 * math.exp(-step / 70) + 0.22 * noise,
                gradient_norm=math.inf if skipped else 0.4 + 6 * math.exp(-step / 45) + 0.3 * abs(noise),
                rate=0.004 * min(1.0, step / 40) * (0.55 + 0.45 * math.cos(math.pi * step / STEPS)),
                tokens=4096,
                skipped=skipped,
            )
        )
    for step, bits in ((400, 1.62), (800, 1.463)):
        curve.validations.append(
            CurveValidation(step=step, nats=bits * math.log(2) * 139_211, tokens=41_022, bits_per_byte=bits)
        )
    return curve
