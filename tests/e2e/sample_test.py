"""A checkpoint is sampled, and exported: the same seed gives the same text, and transformers reads the same model."""

import contextlib
import json
import re
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import psutil
import pytest
import torch
from tokenizers import Tokenizer

from tests.browser.reader import assert_readable
from tests.e2e.command import checkpoints, platform, tiny, tutti
from tests.e2e.mistakes_test import assert_one_line
from tests.faults.processes import until
from tests.theirs import their_model, their_tokenizer
from tests.web.hosted import Visitor
from tutti.chassis.errors import InvalidField
from tutti.cli.pages import pages_of
from tutti.client import Client, connect
from tutti.contracts.access.v1 import IssueLinkRequest
from tutti.contracts.committer.v1 import PruneCheckpointsRequest
from tutti.contracts.common.v1 import STATE_DONE, GetRequest
from tutti.contracts.lineage.v1 import (
    DIRECTION_DOWN,
    DIRECTION_UP,
    Direction,
    ShowDocumentRequest,
    TraceDocumentRequest,
    TraceRequest,
    TraceTextRequest,
)
from tutti.contracts.sampling.v1 import Continuation, CreateSampleRequest, ReadSampleRequest, Sample, SampleSpec
from tutti.corpus.tokens.tokenshard import TokenShard
from tutti.web.tokens import digest, new_token

WORD = "quagga-wardrobe-meridian"  # in a prompt, to be looked for
ASKED = ("data.packing=best_fit", "index=true", "sample.prompts=The module,Return the", "sample.tokens=16")
PROMPTS = [f"The module {WORD} ", "caf\u00e9 <|endoftext|>\n\tdef", ""]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sample") / "data"


@pytest.fixture(scope="module")
def run(data_dir: Path, pages: Path) -> dict:  # type: ignore[type-arg]
    """What a tiny run on packed rows that ends with an index and a sample says; its platform is down."""
    result = tutti(*tiny(data_dir, pages, *ASKED))
    assert result.code == 0, result.err
    assert 20 in checkpoints(result.json())
    assert result.json()["dataset"]["packing"] == "best_fit"
    assert 0 < result.json()["dataset"]["waste"] < 0.5  # two rows that are not half full would be one
    return result.json()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def checkpoint(run: dict) -> str:  # type: ignore[type-arg]
    """The name of its last checkpoint."""
    (name,) = (each["name"] for each in run["checkpoints"] if each["step"] == 20)
    return str(name)


def sampled(data_dir: Path, checkpoint: str, *more: str, prompts: tuple[str, ...] = tuple(PROMPTS)) -> dict:  # type: ignore[type-arg]
    asked = [part for prompt in prompts for part in ("--prompt", prompt)]
    result = tutti("sample", checkpoint, *asked, "--tokens", "24", *more, "-o", "json", "--data-dir", data_dir)
    assert result.code == 0, result.err
    return result.json()  # type: ignore[no-any-return]


def texts(found: dict) -> list[str]:  # type: ignore[type-arg]
    return [each["text"] for each in found["continuations"]]


@pytest.fixture(scope="module")
def up(data_dir: Path, checkpoint: str) -> Iterator[None]:
    """The platform is up from the first test on that needs it."""
    with platform(data_dir):
        yield


def test_a_text_follows_its_prompt_and_its_end_has_a_reason(up: None, data_dir: Path, checkpoint: str) -> None:
    result = tutti("sample", checkpoint, "--prompt", "The ", "--tokens", "5", "--data-dir", data_dir)
    assert result.code == 0, result.err
    assert result.out.startswith("The ")
    assert "[5 tokens; ended by: length limit (--tokens)]" in result.err
    assert f"takes {checkpoint}" not in result.err
    newest = tutti("sample", "--prompt", "The ", "--tokens", "5", "--no-spans", "--data-dir", data_dir)
    assert (newest.code, newest.out) == (0, result.out)
    assert f"takes {checkpoint}" in newest.err
    assert sampled(data_dir, "latest", "--no-spans")["spec"]["checkpoint"] == checkpoint


def test_a_run_means_its_newest_checkpoint_also_by_its_name_alone(
    up: None, data_dir: Path, checkpoint: str, run: dict  # type: ignore[type-arg]
) -> None:  # fmt: skip
    for name in (run["run"]["name"], run["run"]["name"].removeprefix("runs/")):
        shown = tutti("checkpoints", "show", name, "-o", "json", "--data-dir", data_dir)
        assert shown.code == 0, shown.err
        assert shown.json()["name"] == checkpoint


def test_continued_texts_are_no_answers_to_judge(up: None, data_dir: Path, checkpoint: str, tmp_path: Path) -> None:
    assert texts(sampled(data_dir, checkpoint))
    (guideline := tmp_path / "guideline.md").write_text("Which answer is better?\n")
    asked = ("--sample", "latest", "--guideline", guideline, "--axis", "helpful=Which?")
    refused = tutti("campaigns", "create", "texts", *asked, "--data-dir", data_dir)
    assert_one_line(refused, 2, "continues texts", "`tutti runs show`")
    assert json.loads(tutti("campaigns", "ls", "-o", "json", "--data-dir", data_dir).out) == []


@pytest.fixture(scope="module")
def exported(up: None, data_dir: Path, checkpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "out"
    result = tutti("checkpoints", "export", checkpoint, "--to", out, "-o", "json", "--data-dir", data_dir)
    assert result.code == 0, result.err
    assert sorted(file["name"] for file in result.json()["files"]) == sorted(path.name for path in out.iterdir())
    return out


def test_the_same_seed_gives_the_same_text_and_another_another(up: None, data_dir: Path, checkpoint: str) -> None:
    first, again = sampled(data_dir, checkpoint, "--seed", "7"), sampled(data_dir, checkpoint, "--seed", "7")
    assert first["name"] != again["name"]
    assert first["continuations"] == again["continuations"]
    assert first["result"]["content_digest"] == again["result"]["content_digest"]
    assert [each["prompt"] for each in first["continuations"]] == PROMPTS
    assert texts(sampled(data_dir, checkpoint, "--seed", "8")) != texts(first)
    assert texts(sampled(data_dir, checkpoint, "--seed", "7", prompts=(PROMPTS[0],))) == texts(first)[:1]
    known = tutti("samples", "ls", "-o", "json", "--data-dir", data_dir).json()
    assert {first["name"], again["name"]} <= {each["name"] for each in known}


def test_a_run_ends_with_samples_and_their_spans(run: dict) -> None:  # type: ignore[type-arg]
    assert [stage["name"] for stage in run["run"]["stages"]][-3:] == ["train", "index", "sample"]
    assert (run["index"]["dataset"], run["dataset"]["index"]) == (run["dataset"]["name"], run["index"]["name"])
    assert run["index"]["tokens"] == run["dataset"]["tokens"]
    assert [each["prompt"] for each in run["continuations"]] == ["The module", "Return the"]
    assert all(each["tokens"] == 16 for each in run["continuations"])
    assert all(each["passages"] is not None for each in run["continuations"])


def test_its_report_is_read_in_a_browser(run: dict) -> None:  # type: ignore[type-arg]
    place = Path(run["report"])
    assert run["continuations"][0]["text"].split()[0] in place.read_text()
    assert_readable(place)


def test_an_index_and_a_sample_are_reused_and_made_again_when_their_blobs_are_gone(
    up: None,
    run: dict,  # type: ignore[type-arg]
    data_dir: Path,
    pages: Path,
) -> None:
    again = tiny(data_dir, pages, *ASKED)
    (index,) = (data_dir / "blobs").rglob("*.spans")
    for blob in (index, data_dir / "blobs" / run["sample"]["result"]["manifest_key"]):
        blob.unlink()
    done = [[stage["name"] for stage in tutti(*again).json()["run"]["stages"] if not stage["reused"]] for _ in range(2)]
    assert done == [["index", "sample"], []]


@pytest.fixture(scope="module")
def client(up: None, data_dir: Path) -> Iterator[Client]:
    with connect(data_dir=data_dir) as made:
        yield made


def test_what_was_copied_from_a_page_is_traced_to_it_and_to_the_steps_that_saw_it(
    client: Client, data_dir: Path, checkpoint: str, pages: Path
) -> None:
    texts = {
        page.name: client.lineage.ShowDocument(ShowDocumentRequest(document=page.name)) for page in pages.iterdir()
    }

    def steps_of(document: str) -> list[int]:
        seen = client.lineage.TraceDocument(TraceDocumentRequest(document=document))
        return sorted({each.step for each in seen.sightings})

    # Neither duplicates, nor what is held out for validation, nor pages that are too short to copy from.
    trained = [each for each in texts.values() if not each.fate and len(each.text) >= 600 and steps_of(each.name)]
    assert trained
    for document in trained[:5]:
        copied = document.text[200:600]
        told = tutti("trace", "--text", f"Zymurgy!\n{copied}", "--in", checkpoint, "-o", "json", "--data-dir", data_dir)
        assert told.code == 0, told.err
        passage = max(told.json()["passages"], key=lambda each: each["tokens"])
        assert len(passage["text"]) > 0.8 * len(copied)
        assert passage["text"] == f"Zymurgy!\n{copied}".encode()[passage["begin"] : passage["end"]].decode()
        for holder in passage["documents"]:
            assert passage["text"] in texts[holder["source"]].text
            steps = steps_of(holder["document"])
            assert (holder["steps"], holder["step_count"]) == (steps[:20], len(steps))


@pytest.fixture(scope="module")
def library(exported: Path) -> Tokenizer:
    """The tokenizer as others read it."""
    found = Tokenizer.from_file(str(exported / "tokenizer.json"))
    found.encode_special_tokens = True
    return found


@pytest.fixture(scope="module")
def stream(client: Client, data_dir: Path, run: dict, library: Tokenizer) -> tuple[list[int], list[str]]:  # type: ignore[type-arg]
    """The training split as it should be: the texts of its documents, encoded by others; of each token its document."""
    manifest = json.loads((data_dir / "blobs" / run["dataset"]["manifest_key"]).read_bytes())
    shards = [TokenShard(data_dir / "blobs" / each["blob"]) for each in manifest["body"]["train"]["shards"]]
    names = dict.fromkeys(shard.doc_id(place) for shard in shards for place in range(len(shard.doc_ids)))
    tokens, holders = list[int](), list[str]()
    for name in names:
        text = client.lineage.ShowDocument(ShowDocumentRequest(document=name)).text
        tokens += [*library.encode(text, add_special_tokens=False).ids, shards[0].header.eos]
        holders += [name] * (len(tokens) - len(holders))
    return tokens, holders


def scanned(stream: tuple[list[int], list[str]], asked: list[int], least: int) -> Iterator[tuple[int, int, list[str]]]:
    """Of every span its first and last token and the document of each of its places: every run that stands in the
    stream and is part of no longer one that does, by comparing bytes.
    """
    tokens, holders = stream
    whole = b"".join(token.to_bytes(4) for token in tokens)

    def places(begin: int, end: int) -> Iterator[str]:
        wanted, at = b"".join(token.to_bytes(4) for token in asked[begin:end]), -1
        while (at := whole.find(wanted, at + 1)) >= 0:
            if at % 4 == 0:
                yield holders[at // 4]

    end = 0
    for begin in range(len(asked)):
        before, end = end, max(end, begin)
        while end < len(asked) and any(places(begin, end + 1)):
            end += 1
        if end > before and end - begin >= least:
            yield begin, end, list(places(begin, end))


def test_the_spans_of_samples_are_those_of_a_slow_scan_of_the_training_split(
    client: Client, data_dir: Path, checkpoint: str, library: Tokenizer, stream: tuple[list[int], list[str]]
) -> None:
    pieces = {number: len(name) for name, number in library.get_vocab().items()}
    written = [sampled(data_dir, checkpoint, "--temperature", heat, "--seed", "3") for heat in ("0", "0.7")]
    seen = list[int]()
    for each in (one for found in written for one in found["continuations"]):
        text = (each["prompt"] + each["text"]).replace("\0", "")  # which no text that is traced may have
        asked = library.encode(text, add_special_tokens=False).ids
        begins = [0, *accumulate(pieces[token] for token in asked)]
        for least in (1, 2, 8):
            request = TraceTextRequest(text=text, within=checkpoint, least=least, limit=1000, documents=10)
            told = client.lineage.TraceText(request)
            assert (told.tokens, told.truncated) == (len(asked), False)
            expected = list(scanned(stream, asked, least))
            assert [(one.begin, one.end, one.tokens, one.count) for one in told.passages] == [
                (begins[begin], begins[end], end - begin, len(names)) for begin, end, names in expected
            ]
            for one, (_, _, names) in zip(told.passages, expected, strict=True):
                assert {holder.document.removeprefix("documents/") for holder in one.documents} <= set(names)
                assert bool(one.documents) == bool(names)
            seen += [end - begin for begin, end, _ in expected]
    assert len(seen) > 100
    assert max(seen) >= 4


def test_what_stands_nowhere_is_told_as_such_and_a_dataset_has_no_steps(
    client: Client, data_dir: Path, run: dict  # type: ignore[type-arg]
) -> None:  # fmt: skip
    dataset = run["dataset"]["name"]
    nowhere = tutti("trace", "--text", f"{WORD} " * 3, "--in", dataset, "--data-dir", data_dir)
    assert (nowhere.code, nowhere.out) == (0, "")
    assert nowhere.err == f"no 8 tokens of it in a row stand in {dataset}\n"
    anywhere = tutti("trace", "--text", f"{WORD} " * 3, "--data-dir", data_dir)
    assert anywhere.err == f"{nowhere.err}--in names another dataset, or a checkpoint\n"
    found = client.lineage.TraceText(TraceTextRequest(text=" the", within=dataset, least=1, documents=1))
    (passage,) = found.passages
    assert (passage.begin, passage.end, passage.tokens) == (0, 4, 1)
    assert passage.count > 20
    assert [list(holder.steps) for holder in passage.documents] == [[]]
    short = client.lineage.TraceText(TraceTextRequest(text=" the", within=dataset, documents=1))
    assert list(short.passages) == [passage]
    few = tutti("trace", "--text", " the", "--least", "8", "--in", dataset, "--data-dir", data_dir)
    assert few.err == "the text has 1 tokens, fewer than --least 8: nothing was looked for\n"
    unnamed = tutti("trace", "--text", " the", "-o", "json", "--data-dir", data_dir)
    assert unnamed.json()["passages"][0]["tokens"] == 1


def test_the_longest_spans_of_a_new_text_are_shown_unless_they_are_not_wanted(
    up: None, data_dir: Path, checkpoint: str
) -> None:
    greedy = ("--prompt", "Return the", "--temperature", "0", "--tokens", "30", "--data-dir", data_dir)
    with_spans, without = tutti("sample", checkpoint, *greedy), tutti("sample", checkpoint, *greedy, "--no-spans")
    assert with_spans.out == without.out
    assert "tokens, " not in without.err
    told = tutti("sample", checkpoint, *greedy, "-o", "json").json()["continuations"][0]
    assert ("tokens, " in with_spans.err) == bool(told["passages"])
    for passage in told["passages"]:
        assert passage["text"] in told["prompt"] + told["text"]
        assert passage["end"] > len(told["prompt"])


def test_a_sample_traces_up_to_its_checkpoint_and_on(client: Client, run: dict, checkpoint: str) -> None:  # type: ignore[type-arg]
    def kinds(name: str, direction: Direction.ValueType) -> dict[str, set[str]]:
        found = defaultdict(set)
        for vertex in client.lineage.Trace(TraceRequest(name=name, direction=direction)).vertices:
            found[vertex.kind].add(vertex.name)
        return found

    wanted = {"sample", "checkpoint", "job", "dataset", "tokenizer", "tokenization", "run"}
    until(lambda: wanted <= kinds(run["sample"]["name"], DIRECTION_UP).keys(), seconds=40, what="lineage")
    up = kinds(run["sample"]["name"], DIRECTION_UP)
    assert checkpoint in up["checkpoint"]
    down = kinds(run["dataset"]["name"], DIRECTION_DOWN)
    assert run["index"]["name"] in down["index"]
    assert run["sample"]["name"] in down["sample"]


def test_an_index_that_is_not_asked_right_is_refused_in_a_line(client: Client, data_dir: Path) -> None:
    assert_one_line(tutti("trace", "--data-dir", data_dir), 2, "give a RESOURCE, or --text TEXT")
    nowhere = tutti("trace", "--text", "x", "--in", "none/0/5", "--data-dir", data_dir)
    assert_one_line(nowhere, 1, "checkpoints/none/0/5 does not exist")
    for field, words, request in (
        ("text", "at most 65536 bytes", TraceTextRequest(text="x" * 65_537, within="datasets/a")),
        ("within", "checkpoints/JOB/LINE/STEP or datasets/VERSION", TraceTextRequest(text="x", within="jobs/a")),
        ("limit", "at most 1000", TraceTextRequest(text="x", within="datasets/a", limit=1001)),
        ("documents", "at most 10", TraceTextRequest(text="x", within="datasets/a", documents=11)),
    ):
        with pytest.raises(InvalidField, match=words) as refused:
            client.lineage.TraceText(request)
        assert refused.value.field == field


def holding(folder: Path) -> list[Path]:
    """The files that have the word of a prompt among their bytes."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert found
    return [path for path in found if WORD.encode() in path.read_bytes()]


def test_what_was_asked_is_in_its_result_and_in_no_event_and_no_log(up: None, data_dir: Path, checkpoint: str) -> None:
    sampled(data_dir, checkpoint)
    assert holding(data_dir / "log") == holding(data_dir / "logs") == []
    assert holding(data_dir / "blobs" / "sampling") != []


def test_what_cannot_be_sampled_is_refused_in_a_line(up: None, data_dir: Path, checkpoint: str) -> None:
    nowhere = tutti("sample", "none/0/5", "--data-dir", data_dir)
    assert_one_line(nowhere, 1, "checkpoints/none/0/5 does not exist", "`tutti checkpoints ls`")
    vast = tutti("sample", checkpoint, "--prompt", "x" * 65_537, "--data-dir", data_dir)
    assert_one_line(vast, 2, "spec.prompts: expected at most 65536 bytes of text together, got 65537")
    long = tutti("sample", checkpoint, "--prompt", "word " * 5000, "--data-dir", data_dir)
    assert long.code == 1
    words = r"tutti: prompt 0 has \d+ tokens, the model's context is \d+; shorten it by at least \d+\n$"
    assert re.search(words, long.err)


def test_an_export_overwrites_nothing_and_leaves_nothing_half_done(
    exported: Path, data_dir: Path, checkpoint: str, run: dict  # type: ignore[type-arg]
) -> None:  # fmt: skip
    before = {path.name: path.read_bytes() for path in exported.iterdir()}
    again = tutti("checkpoints", "export", checkpoint, "--to", exported, "--data-dir", data_dir)
    assert_one_line(again, 2, "--to", "not an empty folder; name a new one")
    assert {path.name: path.read_bytes() for path in exported.iterdir()} == before
    other = exported.with_name("other")
    missing = tutti("checkpoints", "export", "none/0/5", "--to", other, "--data-dir", data_dir)
    assert_one_line(missing, 1, "checkpoints/none/0/5 does not exist")
    assert [path.name for path in exported.parent.iterdir()] == [exported.name]
    below = exported / "config.json" / "out"
    for export in (("checkpoints", "export", checkpoint), ("datasets", "export", run["run"]["name"])):
        refused = tutti(*export, "--to", below, "--data-dir", data_dir)
        assert_one_line(
            refused, 1, f"{below} cannot be written: a part of its path is a file; name another place with --to"
        )
    report = tutti("report", "--out", below, "--data-dir", data_dir)
    assert_one_line(
        report, 1, f"{below} cannot be written: a part of its path is a file; name another place with --out"
    )


def test_transformers_writes_the_same_greedy_text(exported: Path, data_dir: Path, checkpoint: str) -> None:
    greedy = sampled(data_dir, checkpoint, "--temperature", "0")
    tokenizer = their_tokenizer(exported)
    model = their_model(exported)
    end = json.loads((exported / "config.json").read_text())["eos_token_id"]
    for each in greedy["continuations"]:
        ids = tokenizer(each["prompt"])["input_ids"] or [end]
        with torch.no_grad():
            found = model.generate(torch.tensor([ids]), max_new_tokens=24)[0, len(ids) :].tolist()
        written = [token for token in found if token != end]
        assert tokenizer.decode(written) == each["text"]
        assert len(written) == each["tokens"]


def test_a_tokenizer_is_written_as_others_read_it_and_compared_beside_them(
    exported: Path, data_dir: Path, tmp_path: Path
) -> None:
    (name,) = (each["name"] for each in tutti("tokenizers", "ls", "-o", "json", "--data-dir", data_dir).json())
    ours = tmp_path / "tokenizer.json"
    assert tutti("tokenizers", "export", name, "--to", ours, "--data-dir", data_dir).code == 0
    assert tutti("tokenizers", "export", name, "--to", ours, "--data-dir", data_dir).code == 1
    theirs = exported / "tokenizer.json"
    result = tutti("tokenizers", "compare", name, __file__, "--with", theirs, "-o", "json", "--data-dir", data_dir)
    first, second = result.json()
    assert (first["tokenizer"], second["tokenizer"], first["bytes"]) == (
        name,
        str(theirs),
        Path(__file__).stat().st_size,
    )
    assert first["tokens"] == second["tokens"] < first["bytes"]


def resident(data_dir: Path) -> psutil.Process:
    """The process that holds the models of this platform."""
    held = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[-1:] == ["models"] and process.environ()["TMPDIR"].startswith(str(data_dir)):
                held.append(process)
    (found,) = held
    return found


def written(client: Client, name: str, request: CreateSampleRequest, disturb: Callable[[], None]) -> list[Continuation]:
    """The texts of a sample; `disturb` is called once its first token is reported."""
    client.sampling.CreateSample(request)

    def sample() -> Sample:
        return client.sampling.GetSample(GetRequest(name=name))

    until(lambda: sample().progress.done > 0 or sample().state == STATE_DONE, seconds=60, what="a token")
    disturb()
    until(lambda: sample().state == STATE_DONE, seconds=90, what="the end")
    return list(client.sampling.ReadSample(ReadSampleRequest(name=name)).continuations)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_sample_outlives_the_process_that_holds_its_model(
    client: Client, data_dir: Path, checkpoint: str, number: signal.Signals
) -> None:
    spec = SampleSpec(checkpoint=checkpoint, prompts=["The module"] * 64, tokens=100, seed=3)
    calm, disturbed = "samples/calm", f"samples/{number.name.lower()}"
    expected = written(client, calm, CreateSampleRequest(name=calm, spec=spec), lambda: None)
    former = resident(data_dir)
    seen = written(
        client, disturbed, CreateSampleRequest(name=disturbed, spec=spec), lambda: former.send_signal(number)
    )
    assert seen == expected
    assert resident(data_dir).pid != former.pid


def test_the_report_is_a_page_of_the_run(client: Client, run: dict) -> None:  # type: ignore[type-arg]
    visitor, link = Visitor(pages_of(client, "pipeline")), new_token()
    client.access.IssueLink(IssueLinkRequest(link_digest=digest(link)))
    visitor.log_in(link)
    answer = visitor.get(f"/{run['run']['name']}/report")
    assert answer.status == 200
    for part in ("documents", "tokens", "training", "quality", "samples", "checkpoints", "stages"):
        assert f'<section id="{part}">' in answer.text
    assert run["checkpoints"][-1]["state_digest"] in answer.text


def test_a_pruned_checkpoint_is_refused_though_its_model_is_in_memory(
    client: Client, data_dir: Path, run: dict  # type: ignore[type-arg]
) -> None:  # fmt: skip
    older = run["checkpoints"][0]["name"]
    assert texts(sampled(data_dir, older))
    client.committer.PruneCheckpoints(PruneCheckpointsRequest(job=run["train"]["name"], keep_last=1))
    refused = tutti("sample", older, "--prompt", "x", "--data-dir", data_dir)
    assert_one_line(refused, 1, f"{older} is pruned", "`tutti checkpoints ls`")
