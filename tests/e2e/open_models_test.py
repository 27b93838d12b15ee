"""docs/open-models.md is followed: a folder that transformers made comes in, answers, is tuned, judged and exported."""

import json
import re
import shlex
import shutil
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import torch

from tests.e2e.command import ROOT, Result, platform, tutti
from tests.theirs import their_model, their_tokenizer
from tutti.cli.failures import MISUSE
from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.renderers import own_renderer
from tutti.corpus.tokens.marks import Marks
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference.foreign.arithmetic_test import contents, logits, made
from tutti.inference.foreign.config import CONFIG
from tutti.inference.foreign.folder import WEIGHTS, opened
from tutti.inference.foreign.texts import GENERATION, SETTINGS, TEMPLATE, TOKENIZER

PAGE = (ROOT / "docs/open-models.md").read_text()
COMMANDS = [shlex.split(line.strip()) for line in re.findall(r"^ {4}(tutti .*)$", PAGE, re.MULTILINE)]
FURTHER, TUNED, JUDGED, CROWD = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
FAST = "length: 64\n    learning_rate: 0.02\n"
"""Ten steps from random parameters have to teach letters."""
OTHERS = """\
  ppo: {kind: ppo, like: policy}
  dpo: {kind: dpo, from: {initial: tuned, preferences: preferences}, steps: 2, microbatches: 2, rows: 4, length: 96}
"""
"""The programs that the page names and does not show."""
CHAT = """\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern of Qwen's tokenizers."""
WORDS = "Return a copy of the queue. A queue has two ends, and a stack has one."
TEXTS = {
    f"{count}.txt": f"<|im_end|> and <think> are text, cafe\u0301 too. {' '.join(f'{count}{n}' for n in range(60))}"
    for count in range(12)
}


def qwen(folder: Path) -> Path:
    """A random Qwen3 with a tokenizer, two ends, more rows than ids, a chat template and a licence."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(SPLIT), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([WORDS] * 20, trainer)
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in ("<|endoftext|>", "<|im_start|>")])
    tokenizer.add_special_tokens([AddedToken("<|im_end|>", special=True)])
    tokenizer.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    folder.mkdir()
    made("qwen3", folder, dtype="bfloat16", shard="60KB")
    tokenizer.save(str(folder / TOKENIZER))
    start, end = (tokenizer.token_to_id(each) for each in ("<|endoftext|>", "<|im_end|>"))
    ids = {"eos_token_id": [end, start], "bos_token_id": start, "pad_token_id": start, "temperature": 0.6, "top_k": 20}
    (folder / GENERATION).write_text(json.dumps(ids))
    named = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / SETTINGS).write_text(json.dumps(named))
    (folder / TEMPLATE).write_text(CHAT)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Tiny\n")
    return folder


@dataclass(frozen=True)
class Followed:
    """The page, followed on a folder: the output of each command by its name; `runs` those of the recipe that tunes."""

    data_dir: Path
    model: Path
    exported: Path
    said: dict[str, Any]
    runs: list[dict[str, Any]]

    @property
    def imported(self) -> dict[str, str]:
        found: dict[str, str] = self.said["checkpoints import"]
        return found

    @property
    def tuned(self) -> dict[str, Any]:
        """The last checkpoint of the stage."""
        return self.checkpoint(tuned_of(self.runs[0]))

    def checkpoint(self, name: str) -> dict[str, Any]:
        checkpoint: dict[str, Any] = self.run("checkpoints", "show", name).json()
        return checkpoint

    def run(self, *arguments: str | Path) -> Result:
        return tutti(*arguments, "--data-dir", self.data_dir, "-o", "json")


def tuned_of(run: dict[str, Any]) -> str:
    """The checkpoint of the stage `tuned` in the summary of a run."""
    (name,) = (each["checkpoint"] for each in run["models"] if each["stage"] == "tuned")
    return str(name)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("open models")
    qwen(folder / "model")
    lines = [{"prompt": f"Use queue in {count} words", "response": WORDS[: 20 + count]} for count in range(40)]
    (folder / "demonstrations.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    (folder / "crowd.yaml").write_text(CROWD)
    (folder / "texts").mkdir()
    for name, text in TEXTS.items():
        (folder / "texts" / name).write_text(text)
    names = {"./model": str(folder / "model"), "exported": str(folder / "exported")}
    said, runs = dict[str, Any](), list[dict[str, Any]]()
    with platform(folder / "data"):
        for _, *arguments in COMMANDS:
            if arguments == ["run", "further.yaml"]:
                (folder / "further.yaml").write_text(FURTHER.replace("CHECKPOINT", names["CHECKPOINT"]))
                arguments = ["run", str(folder / "further.yaml")]
            elif arguments[0] == "run":
                recipe = TUNED.replace("length: 64\n", FAST) + (JUDGED + OTHERS if runs else "")
                (folder / "tuned.yaml").write_text(recipe.replace("CHECKPOINT", names["CHECKPOINT"]))
                arguments = ["run", str(folder / "tuned.yaml")]
            command = [names.get(each, each) for each in arguments]
            where = [] if command[1] == "inspect" else ["--data-dir", str(folder / "data")]
            result = tutti(*command, "-o", "json", *where)
            assert result.code == 0, (command, result.err)
            key = (
                " ".join(arguments[:2]) if arguments[0] in ("checkpoints", "releases", "deployments") else arguments[0]
            )
            said[key] = result.json()
            if key == "checkpoints import":
                names["CHECKPOINT"] = said[key]["checkpoint"]
            if key == "run" and arguments[1].endswith("further.yaml"):
                said["further"] = said[key]
            elif key == "run":
                runs.append(said[key])
                names["TUNED"] = tuned_of(said[key])
        yield Followed(folder / "data", folder / "model", folder / "exported", said, runs)


def test_the_folder_that_is_imported_is_the_one_that_was_inspected(followed: Followed) -> None:
    inspected, found = followed.said["checkpoints inspect"], followed.imported
    assert found.keys() == {"checkpoint", "model_digest", "folder_digest", "tokenizer", "template", "licence"}
    for key in ("model_digest", "folder_digest", "template", "licence"):
        assert found[key] == inspected[key], key
    assert found["licence"] == "apache-2.0"
    assert followed.run("checkpoints", "import", followed.model).json() == found


def test_greedy_text_is_that_of_transformers(followed: Followed) -> None:
    theirs, tokenizer = their_model(followed.model, dtype=torch.float32), their_tokenizer(followed.model)
    (found,) = followed.said["sample"]["continuations"]
    asked = tokenizer(found["prompt"], return_tensors="pt")
    made = theirs.generate(**asked, max_new_tokens=16, do_sample=False)[0, asked["input_ids"].shape[1] :].tolist()
    said = [each for each in made if each not in theirs.generation_config.eos_token_id]
    assert found["text"] == tokenizer.decode(said, clean_up_tokenization_spaces=False)


def test_the_tuned_model_that_goes_out_computes_the_same_in_transformers(followed: Followed) -> None:
    theirs, tokenizer = their_model(followed.exported), their_tokenizer(followed.exported)
    with opened(followed.exported) as foreign:
        assert foreign.weights.digest() == followed.tuned["model_digest"] != followed.imported["model_digest"]
        chat = [{"role": "user", "content": "Use queue"}]
        tokens = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=False)
        assert tokenizer.decode(tokens[0]) == "<|im_start|>user\nUse queue<|im_end|>\n<|im_start|>assistant\n"
        with torch.no_grad():
            torch.testing.assert_close(logits(foreign, tokens[0]), theirs(tokens).logits[0], rtol=0, atol=1e-4)
    assert (
        theirs.generation_config.eos_token_id == json.loads((followed.model / GENERATION).read_text())["eos_token_id"]
    )


def test_an_import_goes_out_as_it_came(followed: Followed, tmp_path: Path) -> None:
    to = tmp_path / "again"
    result = followed.run("checkpoints", "export", followed.imported["checkpoint"], "--dtype", "bfloat16", "--to", to)
    assert result.code == 0, result.err
    came = {name: data for path in followed.model.glob("*.safetensors") for name, data in contents(path).items()}
    assert contents(to / WEIGHTS) == came
    for name in (TOKENIZER, GENERATION, SETTINGS, TEMPLATE, "README.md"):
        assert (to / name).read_bytes() == (followed.model / name).read_bytes(), name


def test_the_trace_leads_to_the_folder_and_its_licence(followed: Followed) -> None:
    found = {each["name"]: each for each in followed.said["trace"]["vertices"]}
    folder = found[f"folders/{followed.imported['folder_digest'].removeprefix('blake3:')}"]
    assert (folder["digest"], folder["label"]) == (followed.imported["folder_digest"], "apache-2.0")
    assert followed.imported["checkpoint"] in found


def further_of(followed: Followed) -> tuple[str, str]:
    """The checkpoint of the training that continues the import, and the tokenizer of its dataset."""
    (trained,) = followed.said["further"]["models"]
    (dataset,) = followed.run("datasets", "ls").json()
    return str(trained["checkpoint"]), str(dataset["tokenizer"])


def test_pretraining_goes_on_with_the_tokens_that_came_in(followed: Followed, tmp_path: Path) -> None:
    last, tokenizer = further_of(followed)
    assert tokenizer == followed.imported["tokenizer"].replace("blake3:", "tokenizers/")
    shown = followed.run("tokenizers", "show", tokenizer).json()
    assert (shown["foreign"], shown["lossy"]) == (True, True)
    result = followed.run("tokenizers", "export", tokenizer, "--to", tmp_path / TOKENIZER)
    assert result.code == 0, result.err
    assert json.loads((tmp_path / TOKENIZER).read_text()) == json.loads((followed.model / TOKENIZER).read_text())
    assert followed.checkpoint(last)["model_digest"] != followed.imported["model_digest"]
    found = {each["name"]: each for each in followed.run("trace", last).json()["vertices"]}
    folder = found[f"folders/{followed.imported['folder_digest'].removeprefix('blake3:')}"]
    assert folder["label"] == "apache-2.0"
    assert tokenizer in found
    to = tmp_path / "further"
    result = followed.run("checkpoints", "export", last, "--to", to)
    assert result.code == 0, result.err
    theirs, library = their_model(to), their_tokenizer(to)
    result = followed.run("sample", last, "--prompt", "Return a copy", "--tokens", "8", "--temperature", "0")
    (said,) = result.json()["continuations"]
    asked = library("Return a copy", return_tensors="pt")
    made = theirs.generate(**asked, max_new_tokens=8, do_sample=False)[0, asked["input_ids"].shape[1] :].tolist()
    ends = json.loads((followed.model / GENERATION).read_text())["eos_token_id"]
    kept = [each for each in made if each not in ends]
    assert said["text"] == library.decode(kept, clean_up_tokenization_spaces=False)


def test_a_recipe_that_names_the_folder_goes_on_from_the_same_checkpoint(followed: Followed, tmp_path: Path) -> None:
    recipe, texts = tmp_path / "named.yaml", followed.model.parent / "texts"
    text = FURTHER.replace("CHECKPOINT", "{huggingface: model}").replace("path: texts", f"path: {texts}")
    (tmp_path / "model").symlink_to(followed.model)
    recipe.write_text(text)
    result = followed.run("run", recipe)
    assert result.code == 0, result.err
    assert result.json()["models"] == followed.said["further"]["models"]
    (tmp_path / "model").unlink()
    config = json.loads((shutil.copytree(followed.model, tmp_path / "model") / CONFIG).read_text())
    (tmp_path / "model" / CONFIG).write_text(json.dumps(config | {"hidden_act": "gelu"}))
    result = followed.run("recipes", "check", recipe)
    assert result.code == MISUSE
    assert "stages.further.from.initial.huggingface" in result.out + result.err
    assert "config.json: hidden_act is 'gelu'; expected silu" in result.out + result.err


def test_an_index_of_texts_that_change_in_their_tokenizer_is_refused(followed: Followed, tmp_path: Path) -> None:
    recipe, texts = tmp_path / "indexed.yaml", followed.model.parent / "texts"
    text = FURTHER.replace("CHECKPOINT", followed.imported["checkpoint"]).replace("path: texts", f"path: {texts}")
    recipe.write_text(f"index: true\n{text}")
    result = followed.run("run", recipe)
    assert result.code != 0
    assert "does not give texts back" in result.err


def test_a_folder_that_is_refused_ends_with_the_file_and_the_key(followed: Followed, tmp_path: Path) -> None:
    folder = qwen(tmp_path / "model")
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"hidden_act": "gelu"}))
    result = followed.run("checkpoints", "import", folder)
    assert (result.code, result.out) == (MISUSE, "")
    assert "config.json: hidden_act is 'gelu'; expected silu" in result.err


def test_every_program_learns_from_a_tuned_import(followed: Followed) -> None:
    run = followed.runs[-1]
    stages = {each["stage"]: each["checkpoint"] for each in run["models"]}
    assert stages.keys() == {"tuned", "policy", "ppo", "dpo"}
    assert {each["name"]: each["state"] for each in run["run"]["stages"]}["reward"] == "done"
    assert tuned_of(run) == tuned_of(followed.runs[0])
    found = {name: followed.checkpoint(each)["model_digest"] for name, each in stages.items()}
    assert len({*found.values(), followed.imported["model_digest"]}) == 1 + len(stages)


def test_what_was_judged_is_released(followed: Followed) -> None:
    (release,) = followed.said["releases ls"]
    assert release["standing"] == "active", release


def test_an_import_answers_as_it_does_in_transformers(followed: Followed) -> None:
    assert (followed.said["serve"]["state"], followed.said["deployments stop"]["state"]) == ("ready", "stopped")
    again = followed.run(
        "serve", followed.imported["checkpoint"], "--name", "model", "--experimental", "--detach"
    ).json()
    assert again["sampling"] == {"temperature": 0.6, "top_p": 1, "top_k": 20}
    assert again["sampling_source"] == GENERATION
    token = followed.run("token", "create", "--role", "engineer").json()["token"]
    chat = [{"role": "user", "content": "Use <|im_end|> queue"}]
    sent = json.dumps({"model": "model", "messages": chat, "temperature": 0, "max_tokens": 12}).encode()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    url = urlsplit(again["base_url"])
    with closing(HTTPConnection(url.netloc, timeout=300)) as connection:
        connection.request("POST", f"{url.path}/chat/completions", sent, headers)
        (choice,) = json.loads(connection.getresponse().read())["choices"]
    theirs, tokenizer = their_model(followed.model, dtype=torch.float32), their_tokenizer(followed.model)
    ends = theirs.generation_config.eos_token_id
    with opened(followed.model) as foreign:
        ours = BytePairTokenizer.of_others(foreign.texts[TOKENIZER], Marks(tuple(ends), None, None, (), CHAT, {}))
    prompt = own_renderer(ours).open([Message(Role.USER, chat[0]["content"])])
    ids = torch.tensor(prompt[None].astype("int64"))
    never = [*own_renderer(ours).never, *range(ours.vocabulary, theirs.config.vocab_size)]
    made = theirs.generate(ids, max_new_tokens=12, do_sample=False, suppress_tokens=never)[0, ids.shape[1] :].tolist()
    assert choice["message"]["content"] == tokenizer.decode([each for each in made if each not in ends])
    assert followed.run("deployments", "stop", "model").json()["state"] == "stopped"
