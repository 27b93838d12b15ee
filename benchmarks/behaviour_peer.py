"""TRL's GRPO, and crowd-kit's aggregation: run by benchmarks/behaviour.py in the Python of its peers.

`grpo FOLDER PROMPTS STEPS REWARDS` trains the model that transformers reads from FOLDER on the prompts of a JSON file,
and prints the CPU seconds of each step as a JSON list. REWARDS is a JSON object of regular expressions and what their
matches are worth. `crowd FILE` reads judgements from JSON, and prints for each method
its CPU seconds and the share of pairs that it names right.
"""

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", DO_NOT_TRACK="1")


def grpo(folder: str, prompts: str, steps: int, rewards: dict[str, float]) -> list[float]:
    """One update a step from 64 rollouts in groups of 4, with a KL penalty."""
    import torch
    from datasets import Dataset  # type: ignore[attr-defined]  # the folder of examples has its name
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    costs: list[float] = []

    class Meter(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: object, **__: object) -> None:
            if not costs:
                costs.append(-time.process_time())

        def on_step_end(self, *_: object, **__: object) -> None:
            now = time.process_time()
            costs[-1] += now
            costs.append(-now)

    def reward(completions: list[str], **_: object) -> list[float]:
        return [sum(worth for each, worth in rewards.items() if re.search(each, text)) for text in completions]

    asked = Dataset.from_list([{"prompt": text} for text in json.loads(Path(prompts).read_text())])
    with tempfile.TemporaryDirectory() as scratch:
        settings = GRPOConfig(
            output_dir=scratch,
            per_device_train_batch_size=64,
            num_generations=4,
            max_completion_length=12,
            learning_rate=1e-4,
            max_steps=steps,
            beta=0.1,
            num_iterations=1,
            temperature=1.0,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
            seed=0,
        )
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(folder),
            args=settings,
            reward_funcs=reward,
            train_dataset=asked,
            processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
            callbacks=[Meter()],
        )
        trainer.train()
    return costs[:-1]


def crowd(path: str) -> dict[str, Any]:
    """Methods that weigh annotators, over which of two answers is better."""
    import pandas
    from crowdkit.aggregation import MACE, DawidSkene, MajorityVote

    told = json.loads(Path(path).read_text())
    frame = pandas.DataFrame({"task": told["pair"], "worker": told["annotator"], "label": told["first"]})
    found = {}
    for method in (MajorityVote(), DawidSkene(n_iter=100), MACE(n_iter=50)):
        begun = time.process_time()
        labels = method.fit_predict(frame)
        cost = time.process_time() - begun
        right = sum(int(labels[pair]) == better for pair, better in enumerate(told["better"]))
        found[type(method).__name__] = {"seconds": cost, "right": right / len(told["better"])}
    return found


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    answer = grpo(given[0], given[1], int(given[2]), json.loads(given[3])) if what == "grpo" else crowd(given[0])
    print(json.dumps(answer))
