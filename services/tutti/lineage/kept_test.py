"""What is kept is made once, and goes when there is no room."""

from tutti.lineage.kept import Kept


def test_what_is_kept_is_made_once() -> None:
    kept, made = Kept(2), list[str]()

    def make() -> str:
        made.append("a")
        return "a"

    assert [kept.once("a", make) for _ in range(3)] == ["a"] * 3
    assert made == ["a"]


def test_what_was_used_longest_ago_goes_and_room_is_made_before_the_next_is_made() -> None:
    kept, here = Kept(10), set[str]()

    class Thing:
        def __init__(self, name: str) -> None:
            self.name = name
            here.add(name)

        def __del__(self) -> None:
            here.discard(self.name)

    def ask(name: str, weight: int) -> set[str]:
        def make() -> Thing:
            seen.update(here)
            return Thing(name)

        seen = set[str]()
        kept.once(name, make, weight=weight)
        return seen

    ask("a", 4)
    ask("b", 4)
    ask("a", 4)
    assert ask("c", 3) == {"a"}
    assert ask("whole", 11) == set()
    assert here == {"whole"}


def test_what_could_not_be_made_is_tried_again() -> None:
    kept = Kept(1)

    def fail() -> str:
        raise ValueError("not today")

    for _ in range(2):
        try:
            kept.once("a", fail)
        except ValueError:
            continue
        raise AssertionError("the failure was kept")
    assert kept.once("a", lambda: "made") == "made"
