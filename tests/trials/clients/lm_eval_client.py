"""What a program does with EleutherAI's lm-eval: `python lm_eval_client.py BASE_URL TOKEN`.

Runs the tasks in the folder `tasks` with the program `lm_eval`, and compares each of its samples with completions that
it requests itself. Their prompts are texts; those of lm-eval are token ids.
"""

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TASKS = Path(__file__).with_name("tasks")
SECONDS = 900.0


class Api:
    def __init__(self, base_url: str, token: str) -> None:
        self.base_url, self.token = base_url, token
        self.model = str(self._call("GET", "/v1/models")["data"][0]["id"])
        self.tokenizer = self._call("GET", "/tokenizer_info")

    def _call(self, method: str, path: str, **body: Any) -> Any:
        connection = http.client.HTTPConnection(urlsplit(self.base_url).netloc, timeout=300)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        said = json.loads(response.read())
        if response.status != 200:
            sys.exit(f"{path}: {said}")
        return said

    def complete(self, prompt: str | list[int], **more: Any) -> Any:
        asked = {"model": self.model, "prompt": prompt, "temperature": 0, **more}
        return self._call("POST", "/v1/completions", **asked)["choices"][0]

    def ids(self, text: str) -> list[int]:
        return list(self._call("POST", "/tokenize", prompt=text, add_special_tokens=False)["tokens"])

    def likelihood(self, context: str, text: str) -> tuple[float, bool]:
        """Return the log-likelihood of a text after a context in nats, and whether each of its tokens is the likeliest.

        Without a context, it is after the token that ends a text.
        """
        begin = len(context.rstrip())
        prompt = context + text if context else [*self.ids(self.tokenizer["eos_token"]), *self.ids(text)]
        scores = self.complete(prompt, max_tokens=0, echo=True, logprobs=1)["logprobs"]
        rows = zip(scores["text_offset"], scores["token_logprobs"], scores["top_logprobs"], strict=True)
        found = [(logprob, max(top.values())) for at, logprob, top in rows if top and at >= begin]
        return sum(logprob for logprob, _ in found), all(logprob == most for logprob, most in found)


def evaluated(api: Api, tasks: list[str], output: Path) -> Any:
    """Run the program on tasks; its results."""
    arguments = f"model={api.model},base_url={api.base_url}/completions,auth_token={api.token}"
    length = api.tokenizer["model_max_length"]
    command = [
        *(f"{Path(sys.executable).with_name('lm_eval')}", "run", "--model", "local-completions"),
        *("--model_args", f"{arguments},max_length={length}", "--batch_size", "4"),
        *("--include_path", f"{TASKS}", "--tasks", *tasks, "--output_path", f"{output}", "--log_samples"),
    ]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": f"{output / 'cache'}"}
    environment = {**os.environ, **offline, "OPENAI_API_KEY": api.token}
    done = subprocess.run(
        command, cwd=TASKS, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode or "Using remote tokenizer" not in done.stderr:
        sys.exit(f"lm_eval ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    [results] = output.glob("*/results_*.json")
    return json.loads(results.read_text())["results"]


def samples(output: Path, task: str) -> Iterator[tuple[dict[str, Any], list[list[Any]], list[Any]]]:
    """The samples of a task: each with the arguments of its requests, and their first results."""
    [file] = output.glob(f"*/samples_{task}_*.jsonl")
    for line in file.read_text().splitlines():
        sample = json.loads(line)
        yield sample, [[*each.values()] for each in sample["arguments"].values()], [each[0] for each in sample["resps"]]


def main(base_url: str, token: str) -> None:
    api, differing = Api(base_url, token), list[str]()
    counts: Counter[str] = Counter()

    def compare(task: str, asked: object, seen: object, expected: object) -> None:
        counts[task] += 1
        if seen != expected:
            differing.append(f"{task} {asked!r}: lm-eval has {seen}, the API {expected}")

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder)
        results = evaluated(api, ["choices", "texts", "words"], output)
        right = []
        for sample, asked, found in samples(output, "choices"):
            likelihoods = [api.likelihood(*each) for each in asked]
            for each, seen, expected in zip(asked, found, likelihoods, strict=True):
                compare("choices", each, (float(seen[0]), seen[1] == "True"), expected)
            right.append(max(range(len(asked)), key=lambda at: likelihoods[at][0]) == int(sample["target"]))
        compare("accuracy", "choices", results["choices"]["acc,none"], sum(right) / len(right))
        for _, [[text]], [seen] in samples(output, "texts"):
            compare("texts", text, float(seen), api.likelihood("", text)[0])
        for _, [[text, options]], [seen] in samples(output, "words"):
            continued = api.complete(text, max_tokens=options["max_gen_toks"])["text"]
            stops = "|".join(re.escape(each) for each in options["until"])
            compare("words", text, seen, re.split(stops, continued, maxsplit=1)[0])
    if differing:
        sys.exit("\n".join(differing))
    seen = f"{counts['choices']} choices and {counts['texts']} texts with the API's log-likelihoods, bit by bit"
    print(f"lm-eval {version('lm_eval')}: {seen}, and {counts['words']} generated texts, by the tokenizer of the API")


if __name__ == "__main__":
    main(*sys.argv[1:])
