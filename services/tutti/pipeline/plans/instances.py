"""The stages that a recipe names under `stages`: their kinds, their inputs by role, their own keys.

Pure. Promises: everything that is wrong is named by its key; what is left out is filled in, so that a recorded recipe
says all of it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf.message import Message

from tutti.chassis.config import recipetext
from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc import kinds
from tutti.pipeline.definitions.definition import Role, StageDef, with_article
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.imports import with_stages
from tutti.pipeline.recipes.instance import Instance, Keys, parted
from tutti.pipeline.recipes.sugar import EVALUATION

NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
OWN = {"kind": str, "like": str, "from": str}
"""The keys that every stage has beside those of its kind."""
MOST = 100
NAMED_CROWD = "crowd.simulated"
NO_CROWD = "a file of simulated annotators, or its text; or the key `crowd` beside `stages`, for all such stages"

Tree = Mapping[str, Any]


@dataclass
class _Reading:
    """The stages of a recipe while they are read; `top` are those that top-level keys ask for, by name.

    `takes_crowd` says that a stage took the crowd of the recipe.
    """

    tree: Tree
    top: Mapping[str, Instance]
    problems: list[InvalidField] = field(default_factory=list)
    takes_crowd: bool = False

    @property
    def written(self) -> Tree:
        found: Tree = self.tree["stages"]
        return found

    def refuse(self, key: str, seen: object, expected: str) -> None:
        self.problems.append(InvalidField(f"stages.{key}", seen=seen, expected=expected))


def read(tree: Tree, top: Mapping[str, Instance]) -> tuple[dict[str, Instance], list[InvalidField]]:
    """The stages of a recipe's tree, or everything that is wrong with them."""
    written = tree.get("stages", {})
    if not isinstance(written, dict) or len(written) > MOST:
        return {}, [InvalidField("stages", seen=written, expected=f"a mapping of at most {MOST} stages by name")]
    written, folders = with_stages(written)
    reading = _Reading({**tree, "stages": written}, top)
    bodies = {name: body for name, body in written.items() if _sound(reading, name, body)}
    stages = {name: stage for name in bodies if (stage := _stage(reading, name)) is not None}
    found = {}
    for name, stage in stages.items():
        inputs = _inputs(reading, name, stage, stages)
        section = _section(reading, name, stage)
        if section is not None:
            keys = replace(_keys(name), others={"path": folders[name]}) if name in folders else _keys(name)
            found[name] = Instance(stage.name, inputs, section, keys, place=name)
    _refuse_unknown_parts(reading, found)
    if not reading.problems:
        _refuse_cycles(reading, found)
    if not reading.problems and tree.get("crowd") and not reading.takes_crowd:
        expected = "a stage that takes it: one whose `crowd` has no `simulated`, such as `crowd: {annotators: 20}`"
        reading.problems.append(InvalidField("crowd", seen=tree["crowd"], expected=expected))
    return found, reading.problems


def keys(stages: Tree, name: str) -> dict[str, Any]:
    """The keys of a stage of the recipe, with their types, as far as its kind is known."""
    kind = _kind(stages, name)
    stage = definitions().get(kind) if isinstance(kind, str) else None
    return {**OWN, **(recipetext.keys(stage.section) if stage else {})}


def _kind(stages: Tree, name: str, seen: Sequence[str] = ()) -> object:
    """The kind of a stage as it is written, or that of the stage that it is like."""
    body = stages.get(name)
    if not isinstance(body, dict) or "kind" in body or name in definitions():
        return body.get("kind", name) if isinstance(body, dict) else name
    like = body.get("like")
    return _kind(stages, like, (*seen, name)) if isinstance(like, str) and like not in (*seen, name) else name


def ordered(instances: Mapping[str, Instance]) -> dict[str, Instance]:
    """The stages, each after those that it reads, ties by name. Stages that read each other are left out."""
    found: dict[str, Instance] = {}
    left = dict(instances)
    while ready := sorted(name for name, each in left.items() if not any(ref in left for ref in each.references)):
        found[ready[0]] = left.pop(ready[0])
    return found


def with_defaults(top: Mapping[str, Instance]) -> dict[str, Instance]:
    """The stages of top-level keys, each reading those that fill its roles by default."""
    asked = {name for name, each in top.items() if each.asked}

    def inputs(name: str, kind: str) -> dict[str, tuple[str, ...]]:
        roles = () if name == EVALUATION else definitions()[kind].roles
        return {role.name: (role.default,) for role in roles if role.default in asked}

    return {name: replace(each, inputs=inputs(name, each.kind)) for name, each in top.items()}


def _sound(reading: _Reading, name: object, body: object) -> bool:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        reading.refuse(str(name), name, "a name of lower-case letters, digits and hyphens, at most 40, a letter first")
    elif name in reading.top:
        reading.refuse(name, name, f"another name: the recipe has a stage {name} by its top-level keys")
    elif not isinstance(body, dict):
        reading.refuse(name, body, "a mapping of keys")
    else:
        return True
    return False


def _stage(reading: _Reading, name: str) -> StageDef | None:
    """The kind of a stage: as it says, as it is named, or that of the stage that it is like."""
    body = reading.written[name]
    kind = body.get("kind")
    if kind is None:
        like = _liked(reading, name)
        kind = name if name in definitions() or like is None else like.kind
        if kind == name not in definitions() and "like" in body:
            _refuse_like(reading, name)
            return None
    stage = definitions().get(kind) if isinstance(kind, str) else None
    if stage is None:
        reading.refuse(f"{name}.kind", kind, f"one of {', '.join(sorted(definitions()))}")
    return stage


def _refuse_like(reading: _Reading, name: str) -> None:
    known = sorted({*reading.top, *reading.written} - {name})
    reading.refuse(f"{name}.like", reading.written[name]["like"], f"another stage: one of {', '.join(known)}")


@dataclass(frozen=True)
class _Liked:
    """The values that a stage copies with `like`: kind, inputs as they are written, keys."""

    kind: str
    inputs: Tree
    keys: Tree


def _liked(reading: _Reading, name: str, seen: Sequence[str] = ()) -> _Liked | None:
    """None for a stage that is like no other, or like one that cannot be."""
    like = reading.written[name].get("like")
    if like is None:
        return None
    if isinstance(like, str) and like in reading.top:
        top = reading.top[like]
        keys = set(definitions()[top.kind].section.model_fields)
        return _Liked(top.kind, {}, top.section.model_dump(include=keys, exclude_unset=True))
    body = reading.written.get(like) if isinstance(like, str) else None
    if not isinstance(body, dict) or like in seen or like == name:
        return None
    above = _liked(reading, like, (*seen, name))
    kind = body.get("kind") or (like if like in definitions() or above is None else above.kind)
    inputs = dict(above.inputs if above else {})
    if isinstance(kind, str) and (found := definitions().get(kind)) is not None:
        inputs |= _written_inputs(reading, found, body.get("from"), {})
    own = {key: value for key, value in body.items() if key not in OWN}
    return _Liked(str(kind), inputs, {**(above.keys if above else {}), **own})


def _inputs(
    reading: _Reading, name: str, stage: StageDef, stages: Mapping[str, StageDef]
) -> dict[str, tuple[str, ...]]:
    """The stages and resources that fill each role of a stage."""
    body, like = reading.written[name], _liked(reading, name)
    if "like" in body and like is None:
        _refuse_like(reading, name)
    written = dict(like.inputs) if like else {}
    written |= _written_inputs(reading, stage, body.get("from"), stages, name)
    roles = {role.name: role for role in stage.roles if role.given}
    for unknown in sorted(written.keys() - roles.keys()):
        if like is None or unknown not in like.inputs:
            reading.refuse(
                f"{name}.from.{unknown}", unknown, f"one of {', '.join(roles) or 'no role: it reads nothing'}"
            )
    found: dict[str, tuple[str, ...]] = {}
    for role in roles.values():
        refs = written.get(role.name)
        if refs is None and role.required and role.default in reading.top:
            refs = role.default
        if refs is None and role.required:
            reading.refuse(f"{name}.from.{role.name}", "nothing", f"a stage, or a resource, that is {role.words}")
        named = list(_references(reading, name, role, refs, stages))
        if named:
            found[role.name] = tuple(named)
    return found


def _written_inputs(
    reading: _Reading, stage: StageDef, said: object, stages: Mapping[str, StageDef], name: str = ""
) -> dict[str, Any]:
    """The inputs in `from`, by role; a single reference fills the only role that accepts it."""
    if said is None:
        return {}
    if isinstance(said, dict):
        return said
    if not isinstance(said, str):
        if name:
            reading.refuse(f"{name}.from", said, "a stage, a resource, or a mapping of roles to them")
        return {}
    made = _made(reading, said, stages)
    fits = [role.name for role in stage.roles if role.given and (made is None or made in role.kinds)]
    if len(fits) == 1:
        return {fits[0]: said}
    if name:
        roles = ", ".join(role.name for role in stage.roles if role.given)
        what = f", {with_article(made)}" if made else ""
        reading.refuse(f"{name}.from", f"{said}{what}", f"a mapping that says which role it fills: one of {roles}")
    return {}


def _references(
    reading: _Reading, name: str, role: Role, refs: object, stages: Mapping[str, StageDef]
) -> Iterator[str]:
    several: list[Any] = refs if isinstance(refs, list) else [] if refs is None else [refs]
    key = f"{name}.from.{role.name}"
    if isinstance(refs, list) and not role.many:
        reading.refuse(key, refs, "one stage or resource, not a list")
        return
    for ref in several:
        made = _made(reading, ref, stages) if isinstance(ref, str) else None
        if made is None:
            known = ", ".join(sorted({*reading.top, *stages} - {name}))
            reading.refuse(key, ref, f"a stage of this recipe ({known}), or the name of {role.words}")
        elif made not in role.kinds:
            reading.refuse(key, f"{ref}, {with_article(made)}", role.words)
        else:
            yield ref


def _made(reading: _Reading, ref: str, stages: Mapping[str, StageDef]) -> type[Message] | None:
    """The kind of resource that a reference stands for; None where there is no such thing."""
    ref, _ = parted(ref)
    stage = definitions()[reading.top[ref].kind] if ref in reading.top else stages.get(ref)
    if stage is not None:
        return stage.result_kind.message
    if "/" in ref:
        try:
            return kinds.named(ref.partition("/")[0]).message
        except KeyError:
            return None
    return None


def _section(reading: _Reading, name: str, stage: StageDef) -> Any:
    """The keys of a stage's own, checked and filled in; None where something is wrong."""
    like = _liked(reading, name)
    own = {key: value for key, value in reading.written[name].items() if key not in OWN}
    values = {**(like.keys if like else {}), **own}
    crowd, shared = values.get("crowd"), reading.tree.get("crowd")
    nameless = isinstance(crowd, dict) and "simulated" not in crowd
    if nameless and shared:
        values["crowd"], reading.takes_crowd = {**values["crowd"], "simulated": shared}, True
    keys = _keys(name)
    section, problems = recipetext.checked(stage.section, values, keys.of)
    if section is not None:
        try:
            return stage.filled(section, keys)
        except InvalidField as refused:
            reading.problems.append(refused)
    for problem in problems:
        unnamed = nameless and problem.field == keys.of(NAMED_CROWD)
        reading.problems.append(keys.refused(NAMED_CROWD, seen="nothing", expected=NO_CROWD) if unnamed else problem)
    return None


def _keys(name: str) -> Keys:
    return Keys(f"stages.{name}")


def _refuse_unknown_parts(reading: _Reading, found: Mapping[str, Instance]) -> None:
    """Those of the recipe's own stages; which parts a resource has is known to its owner."""
    for name, instance in found.items():
        for role, ref in ((role, ref) for role, refs in instance.inputs.items() for ref in refs):
            of, part = parted(ref)
            known: Collection[str] = ()
            if of in found:
                known = definitions()[found[of].kind].parts(found[of].section)
            elif of in reading.written:
                continue  # something else is wrong with it
            if "." in ref and "/" not in ref and part not in known:
                parts = ", ".join(f"{of}.{each}" for each in known)
                reading.refuse(f"{name}.from.{role}", ref, f"one of {parts}" if parts else f"{of}: it has no parts")


def _refuse_cycles(reading: _Reading, found: Mapping[str, Instance]) -> None:
    if stuck := sorted(set(found) - set(ordered(found))):
        seen = ", ".join(f"{name} reads {', '.join(found[name].references)}" for name in stuck)
        reading.problems.append(
            InvalidField("stages", seen=seen, expected="stages that do not read each other in a circle")
        )
