"""Jupyter notebooks as text: cells with their numbers, sources and outputs. Pure.

What a notebook holds beside that, images above all, is told by its kind and size. The file itself
stays JSON: what edits it works on that.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SUFFIX = ".ipynb"
_NBFORMAT = 4
# Of an output's forms the first that it has is shown.
_SHOWN_FORMS = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Notebook:
    """`text`: all cells, for reading in pages. `about`: one line on what it is."""

    text: str
    about: str


def is_named_so(path: str) -> bool:
    """Whether the file's name is a notebook's."""
    return path.casefold().endswith(SUFFIX)


def notebook(path: str, text: str) -> Notebook | None:
    """The notebook in a file; None if it is none (or older than format 4): then it is plain text."""
    made = _parsed(text) if is_named_so(path) else None
    if made is None:
        return None
    cells = made["cells"]
    count = "1 cell" if len(cells) == 1 else f"{len(cells):,} cells"
    language = _get(made, "metadata", "language_info", "name") or ""
    language = re.sub(r"[^\w .+#-]", "", language)[:40] or "language unknown"
    about = f"notebook, {count}, {language}; edit_file needs its raw JSON, which grep shows"
    parts = [part for number, cell in enumerate(cells, 1) for part in _cell(number, cell)]
    return Notebook("\n".join(parts) + "\n" if parts else "", about)


def spoilt(path: str, before: str, after: str) -> str | None:
    """In words, why an edit must not be made: it would leave what was a notebook unreadable."""
    if not is_named_so(path) or _parsed(before) is None or _parsed(after) is not None:
        return None
    return f"the notebook would no longer be one ({_fault(after)}): nothing was changed; {_RAW}"


_RAW = (
    "its raw JSON is edited, in which a line of source is a quoted string with escapes; see it with "
    'grep(output="content")'
)


def hint(path: str) -> str:
    """What to add where a passage was not found."""
    return f" ({_RAW})" if is_named_so(path) else ""


def _fault(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"{error.msg.removesuffix(' at')} at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError) as error:
        return str(error)[:200]
    return "its cells are gone or of another form"


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        made = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(made, dict) or made.get("nbformat") != _NBFORMAT:
        return None
    cells = made.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return None
    return made


def _cell(number: int, cell: Mapping[str, Any]) -> Iterator[str]:
    kind = str(cell.get("cell_type", "unknown"))
    count = cell.get("execution_count")
    ran = f" · [{count}]" if isinstance(count, int) else ""
    yield f"── cell {number} · {kind}{ran} ──"
    yield _joined(cell.get("source"))
    attached = cell.get("attachments")
    for name, forms in attached.items() if isinstance(attached, dict) else ():
        yield f"[attached {name}: {_listed(forms)}]"
    outputs = cell.get("outputs")
    shown = [_output(output) for output in outputs] if isinstance(outputs, list) else []
    if shown:
        yield f"── output of cell {number} ──"
        yield from shown


def _output(output: Any) -> str:
    if not isinstance(output, dict):
        return "[an output of unknown form]"
    match output.get("output_type"):
        case "stream":
            return _plain(output.get("text"))
        case "error":
            trace = output.get("traceback")
            lines = trace if isinstance(trace, list) else []
            said = _plain("\n".join(map(str, lines)))
            return said or f"{output.get('ename')}: {output.get('evalue')}"
        case _:
            return _forms(output.get("data"))


def _forms(data: Any) -> str:
    """The form of an output that is text, and a note on the others; of several texts one is enough."""
    if not isinstance(data, dict):
        return "[an output of unknown form]"
    chosen = next((form for form in _SHOWN_FORMS if form in data), None)
    notes = [
        _size(form, value)
        for form, value in data.items()
        if form != chosen and not form.startswith("text/")
    ]
    parts = [_plain(data[chosen])] if chosen is not None else []
    return "\n".join([*parts, *(f"[{note}: not shown]" for note in notes)])


def _listed(forms: Any) -> str:
    items = forms.items() if isinstance(forms, dict) else ()
    return ", ".join(_size(form, value) for form, value in items) or "empty"


def _size(form: str, value: Any) -> str:
    text = _joined(value)
    if (
        form.startswith(("image/", "audio/", "video/", "application/pdf"))
        and form != "image/svg+xml"
    ):
        return f"{form}, about {len(text) * 3 // 4:,} bytes"
    return f"{form}, {len(text):,} characters"


def _joined(value: Any) -> str:
    """A text as notebooks keep it: whole, or in lines; anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> str:
    return _COLOURS.sub("", _joined(value)).removesuffix("\n")


def _get(value: Any, *keys: str) -> str | None:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None
