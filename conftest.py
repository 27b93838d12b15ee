"""How the suite is spread over workers, and what it says at its end.

Guarantees: the tests of a module run on one worker in their order, but for campaigns that are cut in parts, and the
longest modules run first. The summary shows the scale of every campaign, what tests recorded as `said`, the outcome of
the contract suites on every adapter, whichever worker ran them, and where the time went. How long each module took is
recorded for the next run and for `make check`. A slow example does not fail: the machine may be busy.
"""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from tests.durations import COMMITTED, expected, known, merged, record, recorded
from tests.scale import SOAK, rotation
from tests.spreading import COLLECTED, ByModule, unit
from tests.summary import adapters, adapters_table, longest_table, scales, scales_table
from tests.training import mark
from tests.turns import waiting

from tutti.platform.garbage import kept

# Threads of OpenMP spin while they wait, and take the processors from those that they wait for when several processes
# share few of them. This changes no result; processes that tests start inherit it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
settings.register_profile("any pace", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any pace")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turns", action="store_true", help="run a third of the long units, others after each commit")


def pytest_configure() -> None:
    """Who runs the suite in the background makes it ignore Ctrl-C, and so every command that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the suite itself, more than half a million objects, among which each look for garbage would look."""
    with kept():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that train if they are asked for, leave out units that wait for their turn, and let the longest
    units begin first.
    """
    if "trains" in config.option.markexpr:
        mark(items)
    config.stash[COLLECTED] = tuple(items)
    out = _waiting(config)
    config.hook.pytest_deselected(items=[item for item in items if unit(item.nodeid) in out])
    items[:] = [item for item in items if unit(item.nodeid) not in out]
    record = known()
    units = {name: expected(name, record) for name in map(unit, (item.nodeid for item in items))}
    items.sort(key=lambda item: -units[unit(item.nodeid)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByModule | None:
    return ByModule(config, log) if config.getvalue("dist") == "loadscope" else None


def _waiting(config: pytest.Config) -> set[str]:
    """Return the long units that wait for their turn in this run."""
    if not config.getoption("turns", False) or SOAK:
        return set()
    return waiting({name: seconds for name, (_, seconds) in recorded(COMMITTED).items()}, rotation())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        each for outcome in ("passed", "failed", "error", "skipped", "") for each in _reports(terminalreporter, outcome)
    ]  # pytest keeps setups and teardowns that passed under no outcome
    for title, lines in (
        ("scales", scales_table(scales(reports))),
        ("contract suites", adapters_table(adapters(reports))),
        ("longest units", longest_table({name: seconds for name, (_, seconds) in merged({}, reports).items()})),
    ):
        if lines:
            terminalreporter.section(title)
            terminalreporter.write_line("\n".join(lines))
    if out := sorted(_waiting(terminalreporter.config)):
        terminalreporter.section(f"{len(out)} long units wait for their turn (make test-all runs them)")
        terminalreporter.write_line("\n".join(out))
    record(reports, terminalreporter.config.rootpath)
    for report in reports:
        for name, text in report.user_properties:
            if name == "said" and report.when == "call":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(str(text))


def _reports(terminalreporter: pytest.TerminalReporter, outcome: str) -> list[pytest.TestReport]:
    return [each for each in terminalreporter.getreports(outcome) if isinstance(each, pytest.TestReport)]
