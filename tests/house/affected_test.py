"""The tests that a change affects are those that depend on it, the nearest first."""

from pathlib import Path

from tools import affected

TEXTS = {
    "libs/tutti/wood/grain.py": "",
    "libs/tutti/wood/grain_test.py": "from tutti.wood.grain import rings",
    "libs/tutti/wood/plank.py": "from tutti.wood import grain",
    "services/tutti/joinery/__init__.py": "",
    "services/tutti/joinery/service.py": "import tutti.wood.plank",
    "services/tutti/joinery/service_test.py": "from tutti.joinery.service import build",
    "services/tutti/joinery/chair_test.py": "PAGE = 'chair.html'",
    "libs/tutti/platform/main.py": "",
    "libs/tutti/platform/main_test.py": "COMMAND = ('python', '-m', 'tutti.platform.main')",
    "tests/e2e/conftest.py": "",
    "tests/e2e/chair_test.py": "",
    "libs/tutti/glue/glue_test.py": "",
}


def reached(*changed: str) -> dict[str, int]:
    return affected.distances(affected.starting(changed, TEXTS), affected.graph(TEXTS, ["tutti.joinery.service"]))


def test_a_change_reaches_the_tests_of_what_imports_it_and_of_programs_that_load_it() -> None:
    assert reached("libs/tutti/wood/grain.py") == {
        "libs/tutti/wood/grain_test.py": 1,
        "services/tutti/joinery/service_test.py": 3,
        "libs/tutti/platform/main_test.py": 4,
    }


def test_a_changed_test_is_affected_and_so_is_every_test_below_a_conftest() -> None:
    assert reached("libs/tutti/glue/glue_test.py") == {"libs/tutti/glue/glue_test.py": 0}
    assert reached("tests/e2e/conftest.py") == {"tests/e2e/chair_test.py": 1}


def test_another_file_reaches_who_names_it_and_the_service_that_holds_it() -> None:
    assert reached("services/tutti/joinery/templates/chair.html") == {
        "services/tutti/joinery/chair_test.py": 1,
        "services/tutti/joinery/service_test.py": 2,
        "libs/tutti/platform/main_test.py": 3,
    }
    assert reached("LICENSE") == {}


def test_the_nearest_that_fit_are_chosen_and_changed_ones_always() -> None:
    far = {"slow": 0, "near": 1, "large": 1, "far": 2}
    seconds = {"slow": 50.0, "near": 5.0, "large": 60.0, "far": 5.0}
    assert affected.chosen(far, seconds, 60.0) == ["slow", "near", "far"]
    assert affected.chosen(far, seconds, 10.0) == ["slow"]


def test_every_python_file_of_the_tree_can_be_read_and_this_test_depends_on_what_it_tests() -> None:
    texts, this = affected.sources(), Path(__file__).relative_to(affected.ROOT).as_posix()
    two = {path: texts[path] for path in (this, "tools/affected.py")}
    assert affected.distances({"tools/affected.py": 0}, affected.graph(two, affected.entry_points())) == {this: 1}
    assert {"tutti.platform.main", "tutti.scheduler.service"} <= {affected.module_of(path) for path in texts}
