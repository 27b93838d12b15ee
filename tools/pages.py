"""The generated pages of docs/ (events, errors, recipes), which rights to topics and blobs each service has, and the
reference of the API, which is made for a release.

Promises: what they say is read from the code of every service of this tree and from its protos; `--check` fails when a
page says otherwise.
"""

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)
from grpc_tools import protoc

from tutti.backbone.owned import EACH, agent_rights
from tutti.chassis.config.recipetext import Part
from tutti.chassis.enums import word
from tutti.chassis.errors import CATALOGUE, class_of, code_of
from tutti.chassis.events.catalog import EventType, event_type, every_event, markdown
from tutti.chassis.runtime.parts import emitted
from tutti.chassis.service import Build, Service
from tutti.chassis.store import stack
from tutti.cli.classifierrecipe import ClassifierRecipe
from tutti.contracts.options.v1 import Role, access
from tutti.model.chunks import Layout
from tutti.pipeline.definitions.definition import Role as InputRole
from tutti.pipeline.definitions.pretraining import ANY, training
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.reading import parse
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.sections import TokenizerPart
from tutti.pipeline.recipes.sizes import SIZES
from tutti.pipeline.recipes.sugar import Written
from tutti.simulation import Simulation
from tutti.trainer.io.iosettings import OWNER, READS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PROTOS = ROOT / "protos"
TOPICS = ROOT / "deploy" / "docker" / "topics.json"
BLOBS = ROOT / "deploy" / "docker" / "blobs.json"
FILTERS = ROOT / "libs" / "tutti" / "cli" / "filters.json"


def builds() -> dict[str, Build]:
    """The build of every service of this tree; importing them declares their reasons."""
    for path in sorted(ROOT.glob("services/tutti/*/reasons.py")):  # of processes that are no services, too
        importlib.import_module(f"tutti.{path.parent.name}.reasons")
    names = sorted(path.parent.name for path in ROOT.glob("services/tutti/*/service.py"))
    return {name: importlib.import_module(f"tutti.{name}.service").build for name in names}


def services() -> list[Service]:
    """Every service, as its `build` describes it."""
    with Simulation(0, builds()) as simulation:
        return [lives[0].service for lives in simulation.lives.values()]


def consumers(every: Sequence[Service]) -> dict[str, list[str]]:
    """Who hears an event, by its type."""
    found: dict[str, list[str]] = {}
    for service in every:
        for consumed in service.consumes:
            found.setdefault(event_type(consumed.message).type, []).append(service.name)
    return {name: sorted(hear) for name, hear in found.items()}


def events_page(events: Sequence[EventType], every: Sequence[Service]) -> str:
    hear, emit = consumers(every), {event_type(message).type for each in every for message in emitted(each)}
    lines = [
        "## Who hears what",
        "",
        "Derived from `Service.consumes`. For events that no service of the platform consumes, the option `external`",
        "of their protos says who reads them outside the platform. `tutti events tail` shows all events.",
        "",
        "| type | emitted by | consumed by |",
        "|---|---|---|",
    ]
    for event in events:
        deprecated = event.message.DESCRIPTOR.GetOptions().deprecated
        by = event.owner if event.type in emit else "none (deprecated)" if deprecated else "none yet"
        heard = ", ".join(hear.get(event.type, [])) or ("-" if deprecated else f"outside: {event.external}")
        lines.append(f"| `{event.type}` | {by} | {heard} |")
    return markdown(events) + "\n" + "\n".join([*lines, ""])


def errors_page(catalogue: Mapping[str, str]) -> str:
    """Reasons with their codes."""
    lines = [
        "# Errors",
        "",
        "Generated from the catalogue of reasons by `tools/pages.py`; do not edit.",
        "",
        "A failed call has a gRPC code and one of these reasons, in a `google.rpc.ErrorInfo` with the domain `tutti`.",
        "An invalid field is also named in `google.rpc.BadRequest`. The Python client raises the class of",
        "`tutti.chassis.errors` that the table names. **Repeat**: the same request may succeed later. The client",
        "repeats it where the method declares that this is safe ([conventions](conventions.md)).",
        "",
        "| reason | code | class in Python | repeat | meaning, and what to do |",
        "|---|---|---|---|---|",
    ]
    for reason, meaning in sorted(catalogue.items()):
        raised = class_of(reason)
        again = "yes" if raised.transient else ""
        lines.append(f"| `{reason}` | {code_of(reason)} | `{raised.__name__}` | {again} | {meaning} |")
    return "\n".join([*lines, ""])


CONVENTIONS = """\
# Conventions of the API

Generated from the services by `tools/pages.py`; do not edit. [api.md](api.md) explains how to call a platform.

## Names and revisions

A resource has a name, such as `runs/x` or `checkpoints/JOB/LINE/STEP`, whose first segment is its kind, and a
`revision`, which grows by one with each change.

## Create, and try again

- `request_id` is up to 512 printable characters that you choose, a new one for each thing that you want. A second
  request with the same id and the same body returns what the first one made; with another body it is refused with
  `ALREADY_EXISTS`. The id is kept with the resource, as long as the resource exists: there is no window after which a
  repeated request would make a second one.
- A request without an id is recognized by the name that it gives to the resource, if it gives one.
- Calls that declare a wanted state (cancel, drain, pin, prune) may always be repeated. Their id only goes into the
  headers of the events that follow.
- `validate_only` checks everything and changes nothing. It returns the resource as it would be made, without what
  only the work itself finds out.

## Deadlines

Set a deadline with each call. Without one, a service answers within 10 s, or with `DEADLINE_EXCEEDED`. A call that
reads whole data (**long** in the reference) needs more, up to an hour; a stream has none. After `DEADLINE_EXCEEDED`
the call may have had its effect: repeat it with the same `request_id`.

The Python client has 10 s for a call, in up to five attempts where the method allows it (**again** in the reference),
with growing and random waits, and repeats nothing else.

## Lists

- `page_size` is 100 by default, and at most 1,000. Resources are in the order of their names; numbers in names are
  compared as numbers.
- `page_token` is the `next_page_token` of the page before, with the same filter. It stays valid while resources are
  made and changed: a page begins after the last name of the one before. Tokens have no end of validity. An empty
  `next_page_token` is that of the last page.
- `filter` is `field=value`, or several of them joined by ` AND `, over the fields below. Values of an enum are
  written as its name (`STATE_RUNNING`), its word (`running`) or its number; a flag is `true` or `false`. A field that
  holds words, such as the tags of a run, is asked for one of them with `field:word`. There is no `OR`, no comparison
  and no search: read the pages and choose.
- `read_mask` names the fields to return, in Get and in lists, as in the proto file, with dots for a field of a field
  (`progress.done`). Unset, all fields are returned; a name that is no field is refused. A few fields, such as
  `progress` and the `history` of a job, are in answers of Get alone; the comments of these fields say so.
- A row that cannot be read any more is left out of a list; `damaged` of the list names it, with the reason.

| kind | service | can be filtered by |
|---|---|---|
"""
WATCHING = """
## Watch

`Watch` streams snapshots of one resource; [consuming.md](consuming.md#follow-a-run) says what it sends, when it ends
and how to go on.

## Errors

A failed call has a gRPC code and a [reason](errors.md). Decide by the reason: codes are too coarse, and messages are
for people and may change. `metadata` of the `ErrorInfo` has the parts of the message, such as `field`, `seen` and
`expected`.
"""


def conventions_page(every: Sequence[Service]) -> str:
    """What holds for every method, with the fields that lists of each kind can be filtered by."""
    rows = sorted(
        f"| `{resource.kind}` | {each.name} | {', '.join(map('`{}`'.format, _filters(resource.filters))) or 'none'} |"
        for each in every
        for resource in each.resources
    )
    return "\n".join([CONVENTIONS.rstrip(), *rows, WATCHING])


def _filters(fields: Mapping[str, type]) -> Iterator[str]:
    signs: dict[type, str] = {tuple: ":WORD", bool: "=true"}
    return (f"{name}{signs.get(kind, '')}" for name, kind in sorted(fields.items()))


REFERENCE = """\
# Reference of the API

Generated from `protos/` by `tools/pages.py`. `docs/api.md` explains how to call a platform.

In the tables: **again** means that the call may be retried, because repeating the request has no further effect;
**long** means that the call reads whole data before it answers, so give it a longer deadline than the usual 10 s;
**stream** means that it answers more than once.
"""
WORDS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM")
}


def parsed() -> list[FileDescriptorProto]:
    """The protos of this tree in order of their paths, with their comments."""
    sources = sorted(path.relative_to(PROTOS).as_posix() for path in PROTOS.rglob("*.proto"))
    known = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        if protoc.main(["protoc", f"-I{PROTOS}", f"-I{known}", "--include_source_info", f"-o{out}", *sources]):
            sys.exit("protoc rejected the protos; its errors are above")
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


class Types:
    """Messages and enums of the protos by full name (`.tutti.jobs.v1.Job`), and the comment of each thing."""

    def __init__(self, files: Sequence[FileDescriptorProto]) -> None:
        self.messages: dict[str, DescriptorProto] = {}
        self.enums: dict[str, EnumDescriptorProto] = {}
        self.comments: dict[str, str] = {}
        for file in files:
            found = {tuple(at.path): " ".join(at.leading_comments.split()) for at in file.source_code_info.location}
            for index, message in enumerate(file.message_type):
                self._add(message, f".{file.package}.{message.name}", (4, index), found)
            for index, enum in enumerate(file.enum_type):
                self._add_enum(enum, f".{file.package}.{enum.name}", (5, index), found)
            for index, service in enumerate(file.service):
                name = f".{file.package}.{service.name}"
                self.comments[name] = found.get((6, index), "")
                for at, method in enumerate(service.method):
                    self.comments[f"{name}.{method.name}"] = found.get((6, index, 2, at), "")

    def reached(self, roots: Sequence[str]) -> list[str]:
        """Full names of our types that these messages lead to, themselves included, in alphabetical order."""
        seen, todo = set[str](), list(roots)
        while todo:
            name = todo.pop()
            if name in seen or not (name in self.messages or name in self.enums):
                continue
            seen.add(name)
            todo += [field.type_name for field in self.messages[name].field] if name in self.messages else []
        return sorted(seen)

    def _add(self, message: DescriptorProto, name: str, path: tuple[int, ...], found: Mapping[Any, str]) -> None:
        self.messages[name], self.comments[name] = message, found.get(path, "")
        for index, field in enumerate(message.field):
            self.comments[f"{name}.{field.name}"] = found.get((*path, 2, index), "")
        for index, inner in enumerate(message.nested_type):
            self._add(inner, f"{name}.{inner.name}", (*path, 3, index), found)
        for index, enum in enumerate(message.enum_type):
            self._add_enum(enum, f"{name}.{enum.name}", (*path, 4, index), found)

    def _add_enum(self, enum: EnumDescriptorProto, name: str, path: tuple[int, ...], found: Mapping[Any, str]) -> None:
        self.enums[name], self.comments[name] = enum, found.get(path, "")
        for index, value in enumerate(enum.value):
            self.comments[f"{name}.{value.name}"] = found.get((*path, 2, index), "")


def api_page(files: Sequence[FileDescriptorProto]) -> str:
    """Every method with its roles, then the fields of what is sent and answered, a table a package."""
    types, lines, roots = Types(files), [REFERENCE], list[str]()
    for file in files:
        for service in file.service:
            name = f"{file.package}.{service.name}"
            lines += [f"## {name}", "", types.comments[f".{name}"], ""]
            lines += ["| method | request | response | | roles | description |", "|---|---|---|---|---|---|"]
            for method in service.method:
                roots += [method.input_type, method.output_type]
                lines.append(_method_row(method, _cell(types.comments[f".{name}.{method.name}"])))
            lines.append("")
    packages: dict[str, list[str]] = {}
    for name in types.reached(roots):
        packages.setdefault(name.partition(".v1.")[0], []).append(name)
    for package, names in packages.items():
        lines += [f"## Fields of {package.removeprefix('.')}.v1", ""]
        lines += ["| message | field | type | meaning |", "|---|---|---|---|"]
        lines += [row for name in names if name in types.messages for row in _field_rows(types, name)]
        lines.append("")
        for name in names:
            if name in types.enums:
                enum = types.enums[name]
                spelt = [(types.comments[f"{name}.{value.name}"], word(enum, value.name)) for value in enum.value]
                values = [f"- {_cell(words)} In `-o json`: `{short}`." for words, short in spelt]
                lines += [f"`{_short(name)}`: {types.comments[name]}", "", *values, ""]
    return "\n".join(lines)


def _method_row(method: MethodDescriptorProto, words: str) -> str:
    declared = method.options.Extensions[access]
    how = {"again": declared.retry, "long": declared.long, "stream": method.server_streaming}
    roles = ", ".join(Role.Name(role).removeprefix("ROLE_").lower() for role in declared.roles)
    sent, answer = (f"`{_short(each)}`" for each in (method.input_type, method.output_type))
    return (
        f"| `{method.name}` | {sent} | {answer} | {', '.join(word for word in how if how[word])} | {roles} | {words} |"
    )


def _field_rows(types: Types, name: str) -> Iterator[str]:
    fields = types.messages[name].field
    for field in fields:
        words = _cell(types.comments[f"{name}.{field.name}"])
        yield f"| `{_short(name)}` | `{field.name}` | {_field_type(types, field)} | {words} |"
    if not fields:
        yield f"| `{_short(name)}` | | | {_cell(types.comments[name])} |"


def _field_type(types: Types, field: FieldDescriptorProto) -> str:
    inner = types.messages.get(field.type_name)
    if inner is not None and inner.options.map_entry:
        return f"map of {' to '.join(_field_type(types, part) for part in inner.field)}"
    word = WORDS.get(field.type) or f"`{_short(field.type_name)}`"
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"list of {word}"
    return f"{word}, may be unset" if field.proto3_optional else word


def _short(name: str) -> str:
    """`.tutti.admin.v1.DoctorResponse.Finding` -> `DoctorResponse.Finding`; `.google.protobuf.Any` -> `Any`."""
    return name.partition(".v1.")[2] or name.rpartition(".")[2]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


RECIPES = """\
# Recipes

Generated from `services/tutti/pipeline/recipes/sections.py` and `sizes.py`, and from
`libs/tutti/cli/classifierrecipe.py`, by `tools/pages.py`; do not edit.

A recipe is a YAML or JSON file of at most 64 KiB that describes a *run*: which texts to read, and how to process them
and train on them. A run consists of *stages*, such as `ingest`, `dedup` and `train`.

    tutti recipes new --data ./folder > mine.yaml     # write a recipe to start from
    tutti recipes check mine.yaml                     # all errors at once; parameters, tokens in a step, memory
    tutti recipes plan mine.yaml                      # which stages would run or be reused; time, disk and memory
    tutti run mine.yaml --set train.steps=100         # run it, with one key changed
    tutti runs show latest                            # its stages and their results

The shortest recipe trains on a folder of texts. All other keys have defaults:

```yaml
input: {path: pages}
train: {steps: 400}
```

[recipes/](../recipes) contains longer examples. A recipe is validated completely before anything starts. An error names
the key, its value and what was expected.
"""


MIXTURES = """\
## Mixtures

A run can train on the datasets of earlier runs in addition to its own. All datasets must have the same tokenizer and
the same context length (`data.context`):

```yaml
tokenizer: {of: runs/code}                      # reuse the tokenizer of this run instead of training a new one
mixture: {datasets: {runs/code: 3, datasets/5f…: 1}, own: 4}
```

In this example, the run's own dataset provides four of every eight sequences, `runs/code` provides three, and the third
dataset provides one. Every sequence of a dataset is read once before one is read a second time. With `by: epochs`, the
numbers are relative numbers of epochs instead: a dataset with the number 2 is read twice while a dataset with the
number 1 is read once. The number of steps is always `train.steps`.

With `by: epochs`, Tutti computes integer weights from the numbers and the sizes of the datasets. The sum of the weights
is at most 65,536; within this limit, the share of each dataset is correct to within 1 % of its value. The summary of
the run shows how often each dataset was read.

The model is validated on the held-out documents of the run's own dataset. When a run starts, it replaces names such as
`runs/code` by the digests of the datasets, so that the run always means the same data.
"""
STAGES = """\
## Named stages

With the keys above, a recipe has at most one stage of each kind. The key `stages` adds more stages, each with its own
name. This recipe starts a second training from the last checkpoint of `train`, and generates texts with both models:

```yaml
input: {path: pages}
train: {steps: 100}
sample: {prompts: [The]}
stages:
  anneal: {kind: train, from: {initial: train}, steps: 50, learning_rate: 3.0e-4}
  sample-anneal: {like: sample, from: anneal}
```

- `kind` is a kind from the table [Kinds of stages](#kinds-of-stages). The default is the name of the stage. With
  `like`, the default is the kind of the copied stage.
- `from` gives the inputs. Each input has a *role*, such as `initial` or `dataset`. For each role, give the name of
  another stage, or of a resource such as `checkpoints/JOB/LINE/STEP` or `datasets/VERSION`. A role that `from` does not
  mention has its default, if there is one. If only one role accepts the input, you can omit the role: `from: anneal`.
- If a stage splits its result into parts, `from` can name a part: `prompts.train` is the part `train` of the stage
  `prompts`, and `conversations/ID.train` is a part of a resource.
- `like` names a stage whose keys and inputs are copied. Keys of the new stage override the copied ones.
- All other keys are the keys of the kind. Most of them are the keys above without their prefix: a stage of the kind
  `train` has the keys of `train`. The kind `ingest` has the keys of `input`, and `mask` and `classifiers`. The kind
  `tokenization` has the keys of `data` and of `tokenizer`.

To change one key on the command line, use `--set stages.NAME.KEY=VALUE`; to leave out a stage, `--set
stages.NAME=null`, or `--set sample=null` for one of the keys above. A recipe whose stages start from resources needs
neither `input` nor `train`. Stages run one at a time: first the stages of the keys above, then the named stages in the
order of their dependencies. A named stage that one of the keys above needs, such as an import with its tokenizer, runs
before it. Stages that are ready at the same time run in the order of their names. The name of
a stage does not affect its result: if another stage or another run used the same inputs and keys, its result is reused.

### Try several settings

    tutti sweep recipes/tiny.yaml --set train.learning_rate=1e-3,3e-3,1e-2

runs the recipe once for each value and lists the runs by their bits per byte on held-out text, the best on top. With
several keys, every combination is a run (at most 64; `--dry-run` lists them). A comma within brackets or quotes
belongs to a value. Trainings share the preparation of the texts if no key of it differs. If there are not enough
slots for all, they wait for each other. The loss of two tokenizers cannot be compared, bits per byte can; `--by loss`
sorts by the loss of the newest steps. `--tag NAME` tags the runs, so that `tutti runs ls --tag NAME` lists them later.
The title of each run ends with its values, and the last line names the command that compares the runs. A run that did
not finish is last, and then the command exits with 1.

### Continue from a checkpoint

A training with the input `initial` starts from the parameters of that checkpoint. The moments of the optimizer, the
number of the step and the order of sequences start from the beginning. Both trainings need the same model and the same
tokenizer. Lineage shows the checkpoint as a parent of every checkpoint that the training writes.

If the checkpoint is an [import](open-models.md#go-on-with-its-pretraining), or was made of one, its model and its
tokenizer are used: the keys of the model and `tokenizer.vocabulary` do not apply. Instead of the name of a checkpoint,
an input can be a model's folder of Hugging Face, relative to the folder of the recipe: `initial: {huggingface:
./model}`. This becomes a stage of the kind `imported`.

### Conversations

A stage of the kind `conversations` reads prompts and demonstrations from a file, or from every file of a folder. A file
contains JSON lines (`.jsonl` or `.ndjson`) or a JSON list (`.json`), plain or compressed as `.gz` or `.zst`, or rows of
Parquet (`.parquet`). The first record of a file determines its layout:

| layout | fields of a record |
|---|---|
| `messages` | `messages`, each with `role` and `content` (a string, or OpenAI's parts of type text) |
| `prompt` | `prompt` and optionally `completion`, `response`, `output` or `answer`: strings, or lists of messages |
| `alpaca` | `instruction` and `output`, optionally `input` and `history` |
| `sharegpt` | `conversations`, each with `from` and `value` |
| `hh` | `chosen` (read) and `rejected`: transcripts (`Human:`, `Assistant:`), messages, or texts beside a `prompt` |

These fields are read in every layout, in any spelling of their names (`System`, `chosen-rating`, `chosenRating`):

- `system`, `system_prompt`, `system_message` or `sys_prompt` is a system message.
- If `weight`, `train`, `trainable`, `training` or `loss` of an answer is 0 or false, or `mask` is true, it is context
  of later answers, and no training stage learns it.
- A record is rejected (`unread_field`) if a field marks a bad answer or no example: `label`, `kto_tag`, `score`,
  `rating`, `reward` or one of the fields above is 0, negative, false, or neither true nor a number.
- A record is rejected (`unread_field`) if it has `tools`, `images`, `tool_calls` or the like, or a text that no message
  contains in `instruction`, `input`, `question`, `context`, `answer` or the like.
- `chosen` and `rejected` may have scores, ratings or rewards, as fields of the record or of the answers, or a `margin`.
  The record is rejected if the rejected answer has the higher one (`inverted_scores`), or only one has one
  (`unknown_score`).

Other fields that were not read are listed once, by `tutti conversations show` and in the summary of the run.

A conversation that ends with a message of the user is a prompt; one that ends with a message of the assistant is a
demonstration. Equal conversations are removed, and so are [near-duplicates](near-duplicates.md#conversations) of long
ones, unless the stage has `near: 0`. `split: {train: 0.8, final: 0.2}` divides the conversations into the parts `train`
and `final`. The part depends only on the digest of the conversation and on `seed`, so a conversation stays in its part
when files are renamed or added. `tutti conversations show` prints the layout of each file, the number of
conversations in each part, and for each reason the number of rejected records and the first three of them.

The licence of a record is its field `license` or `licence`, or else the key `licence` of the stage; published
demonstrations have that of the key. `licences: [mit, cc-by-4.0]` rejects records under any other licence
(`other_licence`) and those whose licence is unknown (`no_licence`), unless the list contains `unknown`. Names are
compared as a whole, without regard to case. `tutti conversations show` and the summary of the run print the number of
conversations under each licence; with one of the two keys, the manifest of the set records it too. Tutti does not read
licences of web pages and of other documents.

### Kinds of stages

[post-training.md](post-training.md) explains the kinds `sft`, `reward`, `dpo`, `grpo` and `ppo`, which train a
checkpoint further, and `comparison` and `release`, which judge the result. [annotation.md](annotation.md) explains
`campaign` and `preferences`.
"""
CLASSIFIERS = """\
## Classifiers

A classifier labels documents, for example as harmful; `quality.classifiers` rejects documents by these labels
([quality.md](quality.md#harm)). A separate recipe trains a classifier on folders of labelled texts.
`recipes/harm.yaml` uses the dataset that comes with Tutti:

    tutti classifiers train recipes/harm.yaml
    tutti run mine.yaml --set quality.classifiers=harm

The recipe of a run can also name the file of the classifier, relative to its own folder: `classifiers: [harm.yaml]`.
Then `tutti run` trains the classifier first, if it was not trained before, and the run records `harm@DIGEST`. `tutti
recipes check`, `tutti recipes plan` and `tutti run --dry-run` do not train; they report classifiers that are not
trained yet.

The recipe of a classifier is read, validated and changed with `--set` like the recipe of a run. Every key except `name`
affects the result. The same recipe and the same texts give the same `NAME@DIGEST`, which is trained only once. A name
always refers to the same classifier: if you change the texts or a key, choose another name.
"""


def recipes_page() -> str:
    """Every key with type, default, limits and meaning, of runs and of classifiers; what each size of a model is."""
    lines = [
        RECIPES,
        "## Keys",
        "",
        "A dot stands for a nested key: `train.steps` is `steps` below `train`. A key that is required can be omitted",
        "together with the key above it. A recipe has either `input.path` or `input.crawl`.",
        "",
        *table(Written),
        "",
        "These pages explain some of the keys: [crawling.md](crawling.md) for `input.crawl`, [quality.md](quality.md)",
        "for `quality`, [near-duplicates.md](near-duplicates.md) and [repeated-lines.md](repeated-lines.md) for",
        "`dedup`, and [post-training.md](post-training.md) for `template`.",
        "",
        "When you run a recipe again, Tutti reuses the result of each stage whose keys and inputs have not changed.",
        "These keys do not affect results, so you can change them: `name`, `engine`, `input.most_rejected`,",
        "`train.ranks`, `train.shrink`, `train.attempts`, and the keys `contact`, `connect`, `connections` and",
        "`delay_seconds` of `input.crawl`. If you change any other key of a stage, that stage runs again; later stages",
        "run again only if their inputs have changed.",
        "",
        "You can resume an unfinished run with the same recipe and another `connect`; the new addresses are used. A",
        "finished crawl is reused with any `connect`, even if some hosts did not answer. To crawl again, change",
        "`input.crawl.edition`.",
        "",
        MIXTURES,
        STAGES,
        *_stages(),
        "",
        CLASSIFIERS,
        *table(ClassifierRecipe),
        "",
        "## Sizes",
        "",
        "The key `size` selects one of these models; the numbers of a size never change. Parameters are counted with",
        f"the default vocabulary of {TokenizerPart().vocabulary:,}, and separate matrices for input and "
        "output embeddings.",
        "",
        "| size | width | layers | heads | key and value heads | width of the MLP | parameters |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, of in SIZES.items():
        model = training(graph.node_of(parse({**_least(), "size": size}), "train").view, ANY).model
        row = (size, of.width, of.layers, of.heads, of.kv_heads, of.hidden, f"{Layout(model).elements:,}")
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join([*lines, *MODELS, ""])


MODELS = """
The keys of `model` replace those of the size, one by one. This model has the shape of Llama 3.2 1B, which has 1.2
billion parameters with its vocabulary of 128,256 tokens:

```yaml
model:
  {width: 2048, layers: 16, heads: 32, kv_heads: 8, hidden: 8192, rope_base: 500000, tied: true,
   rope_scaling: {kind: llama3, factor: 32, original_context: 8192}}
```

`qk_norm: true` with `head_width: 128` gives the shape of Qwen3, `qkv_bias: true` that of Qwen2.5. `tutti recipes plan`
shows how much memory a training process needs at least. It exits with code 2 if that is more than `--memory`, or more
than the largest registered node has.

`tutti checkpoints inspect FOLDER -o json` reads a Llama, Mistral, Qwen2.5 or Qwen3 model in a folder of Hugging Face,
and prints the keys of `model` for its shape. It checks that the model would compute the same here as in transformers,
and reads every weight; what it cannot read is named by file and key.
""".splitlines()


def _stages() -> Iterator[str]:
    """A row for each kind of stage that can be named."""
    yield from ("| kind | result | inputs by role | keys |", "|---|---|---|---|")
    for name, stage in sorted(definitions().items()):
        roles = (f"`{role.name}`: {role.words}{_unless_given(role)}" for role in stage.roles if role.given)
        keys = ", ".join(f"`{key}`" for key in stage.section.model_fields)
        reads, makes = "; ".join(roles) or "nothing", stage.result_kind.singular.lower()
        yield f"| `{name}` | {makes} | {reads} | {keys or 'none'} |"


def _unless_given(role: InputRole) -> str:
    """The source of a role that a recipe does not mention, in parentheses; empty if it must be mentioned."""
    if not role.required:
        return " (optional)"
    return f" (default: `{role.default}`)" if role.default else ""


def table(of: type[Part]) -> Iterator[str]:
    """A row a key."""
    schema = of.model_json_schema()
    yield from ("| key | type | default | limits | meaning |", "|---|---|---|---|---|")
    for key, each in _keys(schema, schema, ""):
        value = next((one for one in each.get("anyOf", []) if one["type"] != "null"), each)
        words = " or ".join(f"`{one}`" for one in value["enum"]) if "enum" in value else _kind(value)
        yield f"| `{key}` | {words} | {_default(each)} | {_limits(value)} | {_cell(each['description'])} |"


def _least() -> dict[str, Any]:
    """A recipe with nothing but what has no default."""
    return {"input": {"path": "pages"}, "train": {"steps": 1}}


def _keys(schema: Mapping[str, Any], part: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, each in part["properties"].items():
        references = [one.get("$ref", "").rpartition("/")[2] for one in (each, *each.get("anyOf", []))]
        inner = next((schema["$defs"][name] for name in references if name in schema.get("$defs", {})), None)
        if inner is None:
            yield f"{prefix}{name}", {**each, "required": name in part.get("required", [])}
        else:
            yield from _keys(schema, inner, f"{prefix}{name}.")


def _kind(value: Mapping[str, Any]) -> str:
    """A type in words: JSON's, and what a list or a mapping holds."""
    if value["type"] == "array":
        return f"list of {value['items']['type']}s"
    if value["type"] == "object":
        return f"mapping to {value['additionalProperties'].get('type', 'stage')}s"
    return str(value["type"])


def _default(each: Mapping[str, Any]) -> str:
    value = each.get("default")
    if each["required"]:
        return "required"
    if each.get("type") in ("array", "object"):
        return "empty"
    if value is None:
        return "see meaning"
    return f"`{value}`" if isinstance(value, str) and value else str(value).lower() or "empty"


def _limits(value: Mapping[str, Any]) -> str:
    words = {
        "minimum": "at least {}",
        "exclusiveMinimum": "more than {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "less than {}",
        "minLength": "not empty",
        "maxLength": "at most {} characters",
    }
    return ", ".join(text.format(_number(value[key])) for key, text in words.items() if key in value)


def _number(value: float) -> str:
    """With commas; large powers of two as such."""
    power = int(value).bit_length() - 1
    return f"2^{power}" if power >= 20 and value == 2**power else f"{value:,}"


def pages() -> dict[Path, str]:
    """Every generated page, by its path."""
    every = services()
    return {
        DOCS / "events.md": events_page(every_event(), every),
        DOCS / "errors.md": errors_page(CATALOGUE),
        DOCS / "conventions.md": conventions_page(every),
        DOCS / "recipes.md": recipes_page(),
        TOPICS: topics_file(every),
        BLOBS: blobs_file(every),
        FILTERS: filters_file(every),
    }


def filters_file(every: Sequence[Service]) -> str:
    """Return the fields that lists of each kind can be filtered by, for the help of `ls`."""
    found = {resource.kind: list(_filters(resource.filters)) for each in every for resource in each.resources}
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def topics_file(every: Sequence[Service]) -> str:
    """Return every topic with kind and partitions, and for each service those that it owns, reads and shares."""
    shape = {each.topic: [each.kind.value, each.partitions] for each in every_event()}
    shape[stack.TOPIC.name] = [stack.TOPIC.kind.value, stack.TOPIC.partitions]
    users = {
        service.name: {
            "owns": sorted({event_type(message).topic for message in emitted(service)}),
            "reads": sorted({event_type(consumed.message).topic for consumed in service.consumes}),
            "shares": [stack.TOPIC.name],
        }
        for service in every
    }
    return json.dumps({"topics": shape, "services": users}, indent=1) + "\n"


def blobs_file(every: Sequence[Service]) -> str:
    """Return the rights to blobs of each service, and those of each agent under the name of their owner."""
    rights = {service.name: service.blob_rights() for service in every}
    rights[OWNER] = agent_rights(OWNER, READS, EACH)
    shown = {name: asdict(rights[name]) for name in sorted(rights)}
    for each in shown.values():
        if not each["node"]:
            del each["node"]
    return json.dumps(shown, indent=1) + "\n"


def stale(made: Mapping[Path, str]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path, text in made.items() if not path.exists() or path.read_text() != text]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is not what would be made")
    parser.add_argument("--api", type=Path, metavar="FILE", help="write the reference of the API instead")
    given = parser.parse_args()
    if given.api:
        given.api.parent.mkdir(parents=True, exist_ok=True)
        given.api.write_text(api_page(parsed()))
        print(given.api)
        return
    check: bool = given.check
    made = pages()
    if not check:
        for path, text in made.items():
            path.write_text(text)
    elif found := stale(made):
        sys.exit(f"stale: {', '.join(found)}; run `.venv/bin/python tools/pages.py` and commit the result")


if __name__ == "__main__":
    main()
