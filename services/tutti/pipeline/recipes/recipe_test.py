"""Recipes: what is wrong is named before anything starts."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.config import synonyms
from tutti.chassis.config.recipetext import Part
from tutti.chassis.errors import InvalidField
from tutti.cli.recipes import recipe_for
from tutti.model.parameter import keys_of
from tutti.model.spec import ModelSpec, RopeScaling
from tutti.model.training import Training
from tutti.pipeline.definitions.pretraining import training
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.reading import examine, parse, read, remains
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.recipe import Recipe, keys
from tutti.pipeline.recipes.sections import CrawlSection, FilterSection, IngestSection, SamplePart, TrainPart
from tutti.pipeline.recipes.values import Result

P = TypeVar("P", bound=Part)
LEAST = "input: {path: pages}\ntrain: {steps: 20}\n"
SHIPPED = sorted((Path(__file__).parents[4] / "recipes").glob("*.yaml"))
RECIPES = [path for path in SHIPPED if "\nkeeps: " not in path.read_text()]


def top(recipe: Recipe, stage: str, of: type[P]) -> P:
    """The keys of a stage that top-level keys ask for."""
    section = recipe.top[stage].section
    assert isinstance(section, of)
    return section


def trained(recipe: Recipe) -> TrainPart:
    return top(recipe, "train", TrainPart)


def test_every_default_is_filled_in() -> None:
    recipe, train = read(LEAST), trained(read(LEAST))
    assert (train.rows, train.checkpoint_every, train.warmup) == (2, 2, 1)
    without = ("input.crawl.", "dedup.decontaminate.", "dedup.lines.", "mixture.", "model.", "sample.")
    later = {"template", "tokenizer.of", "tokenizer.reserve", "data.packing", "quality.clean", "input.most_rejected"}
    plain = {key for key in keys() if not key.startswith(without)} - {
        *later,
        "crowd",
        "stages",
        "train.batch",
        "train.beta1",
        "train.beta2",
        "train.shard",
        "train.spikes",
    }
    absent = {part.removesuffix(".") for part in without} - {"mixture", "model"}
    assert plain | absent == {
        f"{part}.{key}" if key else part
        for part, inner in json.loads(recipe.canonical()).items()
        for key in (inner if isinstance(inner, dict) and inner else ("",))
    }


def test_a_canonical_recipe_reads_as_itself() -> None:
    recipe = read(LEAST, ["train.ranks=3", "size=tiny"])
    again = read(recipe.canonical())
    assert again == recipe
    assert again.digest() == recipe.digest()


def test_a_written_default_is_the_same_recipe() -> None:
    assert read(LEAST + "size: small\ndata: {context: 256}\n").digest() == read(LEAST).digest()
    assert read(LEAST, ["train.batch=16"]).digest() == read(LEAST).digest()
    assert read(LEAST, ["train.seed=1"]).digest() != read(LEAST).digest()
    assert (
        read(LEAST, ["quality.clean=none"]).digest()
        == read(LEAST).digest()
        != read(LEAST, ["quality.clean=c4"]).digest()
    )
    assert '"clean"' not in read(LEAST).canonical()


def modelled(text: str) -> ModelSpec:
    return training(graph.node_of(read(f"{LEAST}{text}"), "train").view, "blake3:a").model


def test_the_keys_of_a_model_replace_those_of_its_size() -> None:
    assert modelled("size: tiny\nmodel: {}") == modelled("size: tiny")
    small = modelled("")
    assert modelled("model: {heads: 8, hidden: 300}") == replace(small, heads=8, kv_heads=8, hidden=300)
    assert modelled("model: {head_width: 32}") == small
    assert modelled("model: {head_width: 64, qkv_bias: true}") == replace(small, head_dim=64, qkv_bias=True)
    assert modelled("model: {tied: true}").tied
    scaled = modelled("model: {rope_scaling: {kind: llama3, factor: 8, original_context: 64}}")
    assert scaled == replace(small, rope_scaling=RopeScaling.of("llama3", 8, 64))


def test_the_keys_of_a_model_as_they_are_listed_describe_it() -> None:
    scaling = RopeScaling.of("yarn", 4, 128)
    mine = replace(modelled(""), head_dim=64, tied=True, rope_base=1e6, norm_epsilon=1e-6, rope_scaling=scaling)
    listed = {"model": keys_of(mine) | {"rope_scaling": keys_of(scaling)}}
    assert modelled(yaml.safe_dump(listed)) == mine


def test_a_recipe_names_its_model_only_where_it_has_one_of_its_own() -> None:
    assert '"model"' not in read(LEAST).canonical()
    mine = read(f"{LEAST}model: {{width: 64, norm_eps: 0.000001}}")
    assert read(mine.canonical()) == mine
    assert mine.digest() != read(LEAST).digest()


def test_a_crawl_stands_in_place_of_a_folder() -> None:
    site = "train: {steps: 1}\ninput: {crawl: {seeds: [http://a.example/], contact: me}}\n"
    assert read(site, ["input.crawl.connect.a.example=127.0.0.1:80"]).top["crawl"].asked
    assert read(site, ["input.crawl.connect.a.example=127.0.0.1:80"]).over({}).canonical() == read(site).canonical()
    assert "crawl" not in read(site, ["input.path=pages"]).top
    for wrong in ("train: {steps: 1}\ninput: {}\n", site.replace("{crawl", "{path: x, crawl")):
        with pytest.raises(InvalidField, match="one of them alone"):
            read(wrong)


def test_the_recipes_that_the_command_prints_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / 'my "first": #1 däta'
    folder.mkdir()
    assert top(read(recipe_for(folder, "", "")), "ingest", IngestSection).path == str(folder)
    crawl = top(read(recipe_for(None, "https://docs.example/a", "me@a.example")), "crawl", CrawlSection)
    assert (crawl.seeds, crawl.contact) == (["https://docs.example/a"], "me@a.example")
    assert list(top(read(recipe_for(folder, "", "")), "sample", SamplePart).prompts) == [""]


def test_who_sets_rows_and_a_batch_that_differs_is_told_that_both_are_set() -> None:
    with pytest.raises(InvalidField, match=r"train.rows \(3\) and train.batch are both set") as refused:
        read(LEAST, ["train.rows=3", "train.batch=16"])
    assert refused.value.metadata["expected"].startswith("24, train.microbatches (8) x train.rows")
    assert read(LEAST, ["train.rows=2", "train.batch=16"]).digest() == read(LEAST).digest()


def test_every_name_of_other_tools_means_a_key_of_recipes_or_of_a_stage() -> None:
    known = {*keys(), *(key for each in definitions().values() for key in each.section.model_fields)}
    assert {name for names in synonyms.NAMES for name in names} <= known | {key.rpartition(".")[2] for key in known}
    assert not synonyms.OTHERS.keys() & {key.rpartition(".")[2] for key in keys()}


@pytest.mark.parametrize("override", ["sample=null", "sample=", "sample=~", "stages.more=null"])
def test_an_override_leaves_out_a_stage(override: str) -> None:
    stage, more = "sample: {prompts: [a]}\n", "stages:\n  more: {kind: sample, prompts: [b]}\n"
    gone = stage if override.startswith("sample") else more
    assert read(LEAST + stage + more, [override]) == read((LEAST + stage + more).replace(gone, ""))


def test_a_stage_that_others_read_is_not_left_out_unnoticed() -> None:
    text = LEAST + "stages:\n  a: {kind: train, from: train, steps: 2}\n  b: {like: a, from: {initial: a}}\n"
    with pytest.raises(InvalidField, match=r"stages\.b\.like"):
        read(text, ["stages.a=null"])
    with pytest.raises(InvalidField, match=r"stages\.c: expected a stage of the recipe \(a, b\)"):
        read(text, ["stages.c=null"])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_the_recipes_that_we_ship_can_be_read(path: Path) -> None:
    recipe = read(path.read_text())
    assert read(path.read_text(), ["size=tiny"]).size == "tiny"
    assert recipe.name == path.stem


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("train: {stepps: 3}", "train.stepps", "nearest is train.steps"),
        ("inptu: {path: x}", "inptu", "nearest is input.path"),
        ("zzz: 1", "zzz", "docs/recipes.md lists them"),
        ("lr: 1", "lr", "called train.learning_rate"),
        ("train: {batch_size: 8}", "train.batch_size", "called train.batch"),
        ("train: {epochs: 3}", "train.epochs", "called train.steps"),
        ("train: {max_steps: 3}", "train.max_steps", "called train.steps"),
        ("train: {num-gpus: 3}", "train.num-gpus", "called train.ranks"),
        ("model: {n_layer: 3}", "model.n_layer", "called model.layers"),
        ("block_size: 3", "block_size", "called data.context"),
        ("device: cuda", "device", "the devices of their nodes"),
        ("quality: null", "quality", "a mapping of keys"),
        ("train: {steps: many}", "train.steps", "integer"),
        ("train: {steps: 2.5}", "train.steps", "integer"),
        ("train: {steps: true}", "train.steps", "integer"),
        ("train: {steps: 0}", "train.steps", "at least 1"),
        ("train: {steps: 99999999999}", "train.steps", "below"),
        ("train: {ranks: 9}", "train.ranks", r"train.microbatches \(8\)"),
        ("quality: {clean: c5}", "quality.clean", "'none' or 'c4'"),
        ("dedup: {lines: {unit: word}}", "dedup.lines.unit", "'line' or 'paragraph'"),
        ("dedup: {lines: {most: 0}}", "dedup.lines.most", "greater than or equal to 1"),
        ("dedup: {lines: {most: 1, keep: 2}}", "dedup.lines.keep", r"at most dedup\.lines\.most \(1\)"),
        ("train: {microbatches: 65537}", "train.microbatches", "at most 65,536"),
        ("train: {batch: 15}", "train.batch", r"train.microbatches \(8\)"),
        ("train: {batch: 4}", "train.batch", "such as 8"),
        ("train: {batch: 16, rows: 3}", "train.batch", r"train.rows \(3\)"),
        ("train: {warmup: 21}", "train.warmup", r"train.steps \(20\)"),
        ("train: {learning_rate: .inf}", "train.learning_rate", "finite"),
        ("train: {learning_rate: fast}", "train.learning_rate", "number"),
        ("train: {min_learning_rate: 1.0}", "train.min_learning_rate", "at most train.learning_rate"),
        ("train: {schedule: linear}", "train.schedule", "'cosine' or 'wsd'"),
        ("tokenizer: {vocabulary: 256}", "tokenizer.vocabulary", "257"),
        ("data: {validation_fraction: 1.0}", "data.validation_fraction", "less than 1"),
        ("size: huge", "size", "'tiny', 'mini', 'small'"),
        ("train: {beta2: 1}", "train.beta2", "below 1"),
        ("model: {width: 97}", "model.width", r"multiple of heads \(4\)"),
        ("model: {heads: 8, kv_heads: 3}", "model.heads", r"multiple of kv_heads \(3\)"),
        ("model: {head_width: 7}", "model.head_width", "an even number"),
        ("model: {norm_eps: 0}", "model.norm_eps", "above 0"),
        ("model: {rope_scaling: {kind: linear}}", "model.rope_scaling.kind", "'llama3' or 'yarn'"),
        ("model: {rope_scaling: {kind: yarn, factor: 2}}", "model.rope_scaling.original_context", "a value"),
        (
            "model: {rope_scaling: {kind: yarn, factor: 2, original_context: 9, slow: 40}}",
            "model.rope_scaling.fast",
            "slow",
        ),
        ("index: [a]", "index", "boolean"),
        ("sample: {tokens: 3}", "sample.prompts", "--set sample.prompts="),
        ("sample: {prompts: []}", "sample.prompts", "at least 1 item"),
        ("sample: {prompts: [a], top_p: 0}", "sample.top_p", "greater than 0"),
        ("train: 7", "train", "a mapping of keys"),
        ("name: [a]", "name", "string"),
    ],
)
def test_what_is_wrong_is_named(text: str, field: str, words: str) -> None:
    part, _, rest = text.partition(": ")
    given = {"input": "{path: pages}", "train": "{steps: 20}"}
    base = given.pop(part, "")
    merged = rest if not (base.startswith("{") and rest.startswith("{")) else f"{{{base[1:-1]}, {rest[1:-1]}}}"
    if "steps" in rest and part == "train":
        merged = rest
    lines = [f"{part}: {merged}", *(f"{key}: {value}" for key, value in given.items())]
    with pytest.raises(InvalidField, match=words) as refused:
        read("\n".join(lines))
    assert refused.value.field == field


def test_a_cluster_does_all_that_is_asked_of_dedup() -> None:
    asked = "dedup: {against: [datasets/a], decontaminate: {path: texts}, lines: {}}\nquality: {clean: c4}\n"
    assert read(f"{LEAST}engine: ray\n{asked}").engine == "ray"


def test_a_recipe_of_a_classifier_is_told_apart_from_one_of_a_run() -> None:
    for path in set(SHIPPED) - set(RECIPES):
        with pytest.raises(InvalidField, match="tutti classifiers train") as refused:
            read(path.read_text())
        assert refused.value.field == "recipe"


@pytest.mark.parametrize("missing", ["input.path", "train.steps"])
def test_what_is_missing_is_named_with_the_way_to_give_it(missing: str) -> None:
    text = {"input.path": "input: {}\ntrain: {steps: 3}", "train.steps": "input: {path: x}\ntrain: {}"}[missing]
    with pytest.raises(InvalidField, match=f"--set {missing}="):
        read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing"),
        ("- a list", "mapping"),
        ("just words", "mapping"),
        ("a: [", "line 1"),
        ("size: tiny\nsize: small", "line 2, column 1: the key 'size' is given twice"),
        ("input: {path: a, path: b}", "given twice"),
        ("1: x", "not a word"),
        ("a: &x 1\nb: *x", "aliases"),
        ("a: !!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("a: " + "[" * 5000, "mapping"),
        ("a: '" + "x" * 70_000 + "'", "at most 65536"),
        ("a: \x00", "mapping"),
        ("when: 2026-13-45", "mapping"),
        ("train:\n  steps: 010", "a leading zero .* got 'line 2, column 10: 010"),
        ("train: {steps: 1:30}", "a colon; .* got 'line 1, column 16: 1:30"),
        ("sample: {prompts: [1:30.5]}", "a text stands in quotes"),
    ],
)
def test_text_that_is_no_recipe_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words) as refused:
        read(text)
    assert refused.value.field in ("recipe", "a", "when")


@pytest.mark.parametrize(
    ("override", "field", "words"),
    [
        ("nonsense", "overrides", "KEY=VALUE"),
        ("=3", "overrides", "KEY=VALUE"),
        ("train.stepps=3", "train.stepps", "nearest is train.steps"),
        ("train.steps=many", "train.steps", "integer"),
        ("train=3", "train", "nearest is train"),
        ("train.steps=010", "train.steps", "a number without a leading zero .*, got '010'"),
        ("train.steps=1:30", "train.steps", "without a colon, got '1:30'"),
        ("train.learning_rate=-0_7", "train.learning_rate", "a number without a leading zero"),
        ("quality.thresholds.c4_least_sentences=010", "quality.thresholds.c4_least_sentences", "leading zero"),
        ("input.path=a\0b", "input.path", "without a NUL"),
    ],
)
def test_an_override_that_is_wrong_is_named(override: str, field: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words) as refused:
        read(LEAST, [override])
    assert refused.value.field == field


def test_rules_and_languages_are_lists_and_thresholds_go_by_the_name_of_the_rule() -> None:
    written = LEAST + "quality: {rules: [c4, no_pii], thresholds: {c4_least_sentences: 2}, languages: [en]}\n"
    overridden = read(
        LEAST, ["quality.rules=c4, no_pii", "quality.thresholds.c4_least_sentences=2", "quality.languages=en"]
    )
    assert overridden == read(written)
    assert top(overridden, "filter", FilterSection).thresholds == {"c4_least_sentences": 2.0}
    assert (
        read(
            LEAST,
            ["quality.rules=[c4, no_pii]", "quality.thresholds={c4_least_sentences: 2}", "quality.languages=[en]"],
        )
        == overridden
    )
    changed = read(written, ["quality.rules=", "quality.thresholds.c4_lorem_ipsum=1e1"])
    assert top(changed, "filter", FilterSection).model_dump() == {
        "rules": [],
        "thresholds": {"c4_least_sentences": 2.0, "c4_lorem_ipsum": 10.0},
        "languages": ["en"],
    }


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("quality: {rules: c4}", "quality.rules"),
        ("quality: {rules: [1]}", "quality.rules.0"),
        ("quality: {rules: ['']}", "quality.rules.0"),
        ("quality: {thresholds: {a: many}}", "quality.thresholds.a"),
        ("quality: {thresholds: [1]}", "quality.thresholds"),
        ("quality: {thresholds: {a: .inf}}", "quality.thresholds.a"),
        ("dedup: {near: 1.5}", "dedup.near"),
        ("dedup: {near: -1}", "dedup.near"),
    ],
)
def test_what_is_no_choice_of_documents_is_named(text: str, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        read(f"{LEAST}{text}\n")
    assert refused.value.field == field


def test_overrides_are_typed() -> None:
    recipe = read(
        LEAST, ["train.learning_rate=1e-3", "train.shrink=true", "input.path=007", "name=1.5", "train.steps=7"]
    )
    assert (trained(recipe).learning_rate, trained(recipe).shrink, trained(recipe).steps) == (0.001, True, 7)
    assert (top(recipe, "ingest", IngestSection).path, recipe.name) == ("007", "1.5")


def test_where_it_runs_is_no_part_of_the_training() -> None:
    dataset = "blake3:" + "d" * 64

    def training_of(*overrides: str) -> Training:
        return training(graph.node_of(read(LEAST, overrides), "train").view, dataset)

    assert training_of("train.ranks=4", "train.shrink=true", "train.attempts=9") == training_of()
    assert training_of("train.threads=2") != training_of()


@given(st.text(max_size=200))
def test_any_text_is_a_recipe_or_refused(text: str) -> None:
    try:
        read(text)
    except InvalidField:
        return
    raise AssertionError("no short text is a whole recipe")


KEYS = st.sampled_from(["input", "train", "steps", "path", "ranks", "batch"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8)


@given(st.dictionaries(KEYS, TREES))
def test_of_any_tree_something_remains_to_be_judged(tree: dict[str, object]) -> None:
    assert remains(json.dumps(tree)) is not None


@given(st.dictionaries(KEYS, TREES))
def test_any_tree_is_a_recipe_or_refused(tree: dict[str, object]) -> None:
    with contextlib.suppress(InvalidField):
        recipe = parse(tree)
        assert "train" not in recipe.top or trained(recipe).ranks <= trained(recipe).microbatches


def test_everything_that_is_wrong_can_be_told_at_once() -> None:
    overrides = ["trian.steps=3", "train.ranks=9"]
    recipe, problems = examine("input: {}\ntrain: {steps: 20, warmup: 30, batch: 4, rows: 2}", overrides)
    assert recipe is None
    assert [each.field for each in problems] == [
        "trian.steps",
        "train.batch",
        "input.path",
        "train.ranks",
        "train.warmup",
    ]
    assert [each.field for each in examine("size: 3\ndedup: {near: 7}\ninput: {path: x}\ntrain: {}")[1]] == [
        "size",
        "dedup.near",
        "train.steps",
    ]
    assert [each.field for each in examine("a: [")[1]] == ["recipe"]
    assert [each.field for each in examine("input: {path: x}\ntrain: {stpes: 3}")[1]] == ["train.stpes"]
    assert examine(LEAST) == (read(LEAST), [])


def test_a_template_reserves_its_role_tokens_and_is_recorded_only_where_it_is_given() -> None:
    plain, chat = read(LEAST), read(LEAST, ["template=chat@1"])
    assert "template" not in plain.canonical()
    assert json.loads(chat.canonical())["template"] == "chat@1"
    (tokens,) = (node for node in graph.nodes(chat) if node.name == "tokenization")
    asked = tokens.asked({"documents": (Result("dedups/a", "k", "d"),)}, {})
    request: Any = tokens.stage.request(asked)
    assert list(request.reserved) == ["<|system|>", "<|user|>", "<|assistant|>"]
    assert tokens.stage.parameters(asked)["reserved"] == ["<|system|>", "<|user|>", "<|assistant|>"]
    kept = replace(tokens, view=tokens.view.changed({"of": "tokenizers/a"}))
    assert "reserved" not in kept.stage.parameters(kept.asked({}, {}))


def test_a_recipe_that_reserves_no_tokens_trains_the_tokenizer_of_one_without_a_template() -> None:
    plain, later = read(LEAST), read(LEAST, ["template=chat@1", "tokenizer.reserve=false"])
    assert "reserve" not in plain.canonical()
    assert json.loads(later.canonical())["tokenizer"]["reserve"] is False
    parameters, requests = list[Any](), list[Any]()
    for recipe in (plain, later):
        (tokens,) = (node for node in graph.nodes(recipe) if node.name == "tokenization")
        asked = tokens.asked({"documents": (Result("dedups/a", "k", "d"),)}, {})
        parameters.append(tokens.stage.parameters(asked))
        requests.append(tokens.stage.request(asked))
    assert parameters[0] == parameters[1]
    assert requests[0] == requests[1]


def test_the_second_assistant_trains_the_base_of_first_light() -> None:
    first, second = (
        yaml.safe_load((SHIPPED[0].parent / f"first-light{end}.yaml").read_text()) for end in ("", "-assistant")
    )
    assert second["tokenizer"].pop("reserve") is False
    added = {"template": "chat@1", "crowd": second["crowd"], "stages": second["stages"]}
    assert {**second, "name": first["name"]} == {**first, **added}


def test_an_unknown_template_and_a_vocabulary_without_room_for_it_are_refused() -> None:
    with pytest.raises(InvalidField, match="template: expected 'chat@1' or 'own', got 'chat@2'"):
        read(LEAST, ["template=chat@2"])
    with pytest.raises(InvalidField, match=r"tokenizer\.vocabulary: expected at least 260"):
        read(LEAST, ["template=chat@1", "tokenizer.vocabulary=259"])
