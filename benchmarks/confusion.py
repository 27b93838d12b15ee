"""Tables of confusion: how many of what is truly one thing were told as another."""

from collections import Counter
from collections.abc import Iterable

from benchmarks.table import Row


def confusion(what: str, pairs: Iterable[tuple[str, str]]) -> list[Row]:
    """Of pairs (true, told) the share that is right; then the table, a row for each true label, whose note has the
    columns that are not 0: what these were told as, the right one first, and how many.
    """
    table = Counter(pairs)
    right = sum(count for (true, told), count in table.items() if true == told)
    rows = [Row(f"{what}: right", "%", 100 * right / table.total(), note=f"{right} of {table.total()}")]
    for label in sorted({true for true, _ in table}):
        columns = sorted(
            ((told, count) for (true, told), count in table.items() if true == label),
            key=lambda column: (column[0] != label, -column[1], column[0]),
        )
        total = sum(count for _, count in columns)
        note = "told " + ", ".join(f"{told} {count}" for told, count in columns)
        rows.append(Row(f"  {what}, {label}: right", "%", 100 * table[label, label] / total, note=note))
    return rows
