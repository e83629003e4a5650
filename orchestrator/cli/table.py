"""Plain text tables that fit the terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """``least``: cells that the column keeps when the table is too wide (``None``: all of them)."""

    title: str
    right: bool = False
    least: int | None = None


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None
) -> list[str]:
    """The lines of a table, titles first. Over ``width`` cells, columns that may shrink do, the
    widest first, and their texts end in ``…``."""
    texts = [[column.title for column in columns], *rows]
    widths = [max(_cells(row[i]) for row in texts) for i in range(len(columns))]
    if width is not None:
        _shrink(columns, widths, width)
    return [
        _GAP.join(
            _fit(text, cells, column.right)
            for text, cells, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in texts
    ]


def width_of(lines: Sequence[str]) -> int:
    return max(map(_cells, lines), default=0)


def number(value: float) -> str:
    return f"{value:,.0f}"


def short_number(value: int) -> str:
    """At most five characters: ``950``, ``12.3k``, ``1.2M``."""
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= limit * 0.9995:
            scaled = value / limit
            return f"{scaled:.0f}{unit}" if scaled >= 99.95 else f"{scaled:.1f}{unit}"
    return str(value)


def duration(seconds: float) -> str:
    """``4.2s``, ``3m07s``, ``2h05m``."""
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def size(count: int) -> str:
    """``950 B``, ``12 kB``, ``1.2 MB``."""
    for limit, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= limit:
            scaled = count / limit
            return (
                f"{scaled:.0f} {unit}" if scaled >= 9.95 or unit == "kB" else f"{scaled:.1f} {unit}"
            )
    return f"{count} B"


def cost(usd: float | None) -> str:
    """A price that is not known is shown as such, never as zero."""
    return "?" if usd is None else f"${usd:.4f}" if usd < 100 else f"${usd:,.2f}"


def _shrink(columns: Sequence[Column], widths: list[int], width: int) -> None:
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while over > 0:
        spare = [
            (widths[i] - column.least, i)
            for i, column in enumerate(columns)
            if column.least is not None and widths[i] > column.least
        ]
        if not spare:
            return
        widths[max(spare)[1]] -= 1
        over -= 1


def _fit(text: str, cells: int, right: bool) -> str:
    from rich.cells import set_cell_size

    if _cells(text) > cells:
        return set_cell_size(text, cells - 1) + "…"
    padding = " " * (cells - _cells(text))
    return padding + text if right else text + padding


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
