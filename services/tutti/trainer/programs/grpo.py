"""Group-relative policy optimisation: the policy answers prompts, is rewarded, and moves towards its better answers.

All ranks roll out together with the state at hand; see `rollouts` and `policydata` of `tutti.trainer.policies`.
"""

import torch
from torch import Tensor

from tutti.corpus.conversations.conversations import Conversation
from tutti.corpus.conversations.conversationset import in_part
from tutti.corpus.conversations.experience import Prompt
from tutti.corpus.conversations.rendered import Renderer
from tutti.corpus.conversations.rewards import InvalidReward
from tutti.inference.parameters import parameters_of
from tutti.model.policy import ClippedPolicy
from tutti.model.programs.grpo import GrpoParameters
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.records.manifest import Kind
from tutti.trainer.batches.samples import lines_of, renderer_of
from tutti.trainer.batches.staged import Staged
from tutti.trainer.failures import RankFailure, Reason
from tutti.trainer.metrics import Metrics
from tutti.trainer.policies.judging import Judge
from tutti.trainer.policies.policydata import PolicyData
from tutti.trainer.policies.rewardmodel import RewardModel
from tutti.trainer.policies.rollouts import Rollouts, Vocabulary, layout_of_reference
from tutti.trainer.programs.program import Program


def read(staged: Staged, training: Training, kind: type[Rollouts] = Rollouts) -> PolicyData:
    """Raises RankFailure, CorpusError, SpecError, CheckpointError."""
    from tutti.corpus.tokens.tokenizer import BytePairTokenizer  # starts threads, which the fork server must not have

    settings = training.program_parameters
    assert isinstance(settings, GrpoParameters)
    renderer = renderer_of(staged, training)
    lines = lines_of(staged, training, Kind.CONVERSATIONS)
    prompts, note = readable(renderer, list(in_part(lines, training.part)), training.length)
    tokenizer = renderer.tokenizer
    assert isinstance(tokenizer, BytePairTokenizer)
    vocabulary = Vocabulary(renderer.end, tokenizer.vocabulary, tokenizer.decode, renderer.never)
    try:
        judge = Judge(settings, RewardModel(staged, training) if "reward" in staged.models else None)
    except InvalidReward as error:
        raise RankFailure(Reason.DATA_REFUSED, str(error)) from error
    reference = _reference(staged, training)
    return PolicyData(training, settings, prompts, kind(training, settings, vocabulary, judge, reference), note)


def readable(renderer: Renderer, conversations: list[Conversation], length: int) -> tuple[list[Prompt], str]:
    """Return the prompts that leave room for an answer in a row of `length` tokens, and what was left out.

    The answer at the end of a conversation is the one that is expected. Raises RankFailure where nothing is left.
    """
    found, too_long = [], 0
    for each in conversations:
        if not each.prompt:
            raise RankFailure(Reason.DATA_REFUSED, f"the conversation {each.digest} is an answer without a prompt")
        tokens = tuple(renderer.open(each.prompt).tolist())
        if len(tokens) < length:
            found.append(Prompt(each.prompt, tokens, each.answer))
        else:
            too_long += 1
    words = f"{too_long} of {len(conversations)} prompts fill a row of {length} tokens"
    if not found:
        expected = "expected shorter ones, or longer rows" if too_long else "expected at least one"
        raise RankFailure(Reason.DATA_REFUSED, f"{words}; {expected}")
    return found, f"{words} and were left out" if too_long else ""


def _reference(staged: Staged, training: Training) -> Tensor:
    """The parameters of the reference. Raises RankFailure, CheckpointError."""
    found, layout = staged.checkpoint(training, "reference"), layout_of_reference(training.model)
    model = found.body.layout.model
    if model.vocabulary != training.model.vocabulary:
        raise RankFailure(
            Reason.DATA_REFUSED,
            f"the reference {found.body.name} has a vocabulary of {model.vocabulary} tokens; expected "
            f"{training.model.vocabulary}, that of the policy: take a checkpoint of the same tokenizer",
        )
    if layout_of_reference(model).digest != layout.digest:
        raise RankFailure(
            Reason.DATA_REFUSED,
            f"the reference {found.body.name} has layout {found.body.layout.digest}; expected {layout.digest}: take "
            "a checkpoint of the same model",
        )
    return torch.from_numpy(parameters_of(found)[: layout.elements])  # a value model is last


def measure(step: RankStep, data: PolicyData) -> Metrics:
    """Collective. The metrics of the step, and of the iteration at its first one."""
    return Metrics(0.0, 0, named=data.metrics(step))


PROGRAM = Program(
    name="grpo",
    objective=lambda training: ClippedPolicy(),
    read=read,
    measure=measure,
    measure_due=lambda training, step: True,
    checkpoint_due=Training.checkpoint_due,
    experience=lambda data: data.experience,
)
