"""Batches through `generate` of transformers, for serve.py: reads requests, writes the CPU seconds that each took.

python serve_peer.py FOLDER       # one request a line: prompts, tokens, top_p
"""

import json
import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", DO_NOT_TRACK="1")


def main(folder: str) -> None:
    """Sample at temperature 1 on one thread, without an end token, until its input ends."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    for line in sys.stdin:
        asked = json.loads(line)
        prompts = torch.tensor(asked["prompts"])
        begun = time.process_time()
        with torch.inference_mode():
            found = model.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=asked["tokens"],
                do_sample=True,
                top_k=0,
                top_p=asked["top_p"],
            )
        seconds = time.process_time() - begun
        print(json.dumps({"seconds": seconds, "tokens": found[:, prompts.shape[1] :].numel()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
