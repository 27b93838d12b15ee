"""The ancestry of a run: what each stage was made from, and where a stage of the run made it."""

from tutti.contracts.pipeline.v1 import Run, Stage, StageInput
from tutti.report.ancestry import ancestry

GIVEN = "checkpoints/other/0/20"
RUN = Run(
    stages=[
        Stage(name="prompts", kind="conversations", resource="conversations/p", content_digest="blake3:aa"),
        Stage(
            name="tuned",
            kind="sft",
            resource="jobs/t",
            content_digest="blake3:bb",
            inputs=[
                StageInput(role="initial", resource=GIVEN),
                StageInput(role="demonstrations", resource="conversations/p", part="train"),
            ],
        ),
        Stage(name="again", kind="sft", resource="jobs/t", content_digest="blake3:bb", reused=True),
        Stage(name="answers", kind="sample", resource="samples/s", inputs=[StageInput(resource="jobs/t")]),
        Stage(name="released", kind="release"),
    ]
)


def test_it_leads_from_the_last_stage_back_to_the_first() -> None:
    found = ancestry(RUN)
    assert [each["stage"] for each in found] == ["answers", "again", "tuned", "prompts"]  # released has not begun
    assert [(each["kind"], each["resource"], each["content_digest"]) for each in found[2:]] == [
        ("sft", "jobs/t", "blake3:bb"),
        ("conversations", "conversations/p", "blake3:aa"),
    ]


def test_an_input_has_its_role_its_part_and_the_stage_that_made_it() -> None:
    answers, _, tuned, prompts = ancestry(RUN)
    assert [tuple(each.values()) for each in tuned["from"]] == [
        ("initial", "", GIVEN, ""),
        ("demonstrations", "prompts", "conversations/p", "train"),
    ]
    assert [each["stage"] for each in answers["from"]] == ["tuned"]  # the first of equal stages made it
    assert prompts["from"] == []
