"""The tests that train a model: `pytest -m trains`. Their results depend on the processor and its kernels.

Promises: the mark follows from the code of a test, of its fixtures and of the helpers that these use: a test trains if
it reaches a step of training, an agent that starts ranks, or a command that starts a run. Only a test that starts them
in another way, such as a shell, is marked by hand.
"""

import inspect
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

STEPS = frozenset(
    {
        *("tutti.model.gradients", "tutti.model.step", "tutti.model.update"),
        *(
            "tutti.trainer.agent.agent",
            "tutti.trainer.agent.attempt",
            "tutti.trainer.policies.rolloutgroup",
            "tutti.trainer.agent.launcher",
        ),
        *("tutti.trainer.rank.loop", "tutti.trainer.rank.rank"),
    }
)
"""Modules whose functions and classes train."""
COMMANDS = "tests.e2e.command"
"""The module whose functions start commands; one of them is `run`."""
OURS = ("tests", "tools", "benchmarks", "deploy")


def mark(items: Iterable[pytest.Item]) -> None:
    """Add the mark `trains` to the tests that train."""
    seen: dict[int, bool] = {}
    for item in items:
        if isinstance(item, pytest.Function) and any(trains(each, seen) for each in parts(item)):
            item.add_marker(pytest.mark.trains)


def parts(item: pytest.Function) -> Iterator[Any]:
    """Yield the function of a test, those of its fixtures, and its parameters."""
    yield item.obj
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield from (each.func for each in definitions)
    if hasattr(item, "callspec"):
        yield from item.callspec.params.values()


def trains(thing: Any, seen: dict[int, bool]) -> bool:
    """True if a function, a class or a method reaches what trains; `seen` has what was looked at."""
    thing = inspect.unwrap(getattr(thing, "__func__", thing)) if callable(thing) else thing
    if isinstance(thing, list | tuple | dict | set | frozenset):
        return any(trains(each, seen) for each in (thing.values() if isinstance(thing, dict) else thing))
    if not isinstance(thing, FunctionType | type):
        return False
    if thing.__module__ in STEPS:
        return True
    if id(thing) not in seen:
        seen[id(thing)] = False
        if _is_ours(thing.__module__):
            seen[id(thing)] = _function(thing, seen) if isinstance(thing, FunctionType) else _class(thing, seen)
    return seen[id(thing)]


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in OURS or module.endswith(("_test", "conftest"))


def _class(thing: type, seen: dict[int, bool]) -> bool:
    members = (getattr(each, "fget", None) or each for each in vars(thing).values())
    return any(trains(each, seen) for each in (*members, *thing.__bases__))


def _function(thing: FunctionType, seen: dict[int, bool]) -> bool:
    names, constants = set[str](), set[Any]()
    for code in _codes(thing.__code__):
        names.update(code.co_names)
        constants.update(code.co_consts)
    used = [thing.__globals__[name] for name in names & thing.__globals__.keys()]
    modules = [each for each in used if isinstance(each, ModuleType)]
    used += [getattr(module, name) for module in modules for name in names & vars(module).keys()]
    if "run" in constants and any(getattr(each, "__module__", "") == COMMANDS for each in thing.__globals__.values()):
        return True
    return any(trains(each, seen) for each in used)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
