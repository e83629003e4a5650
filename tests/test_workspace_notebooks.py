"""Jupyter notebooks: read as cells, edited as the JSON that they are."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pictures import pdf, png
from workspace import Conflict, EditFailed, FileTools
from workspace.notebooks import notebook
from workspace.pages import PAGE_CHARS

pytestmark = pytest.mark.anyio

PICTURE = base64.b64encode(png(40, 40)).decode()


def code(source: Any, *outputs: Any, count: int | None = 1) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": count,
        "metadata": {},
        "source": source,
        "outputs": list(outputs),
    }


def result(**data: Any) -> dict[str, Any]:
    forms = {name.replace("_", "/"): value for name, value in data.items()}
    return {"output_type": "execute_result", "data": forms, "metadata": {}}


CELLS = [
    {
        "cell_type": "markdown",
        "source": ["# Title\n", "![a](attachment:a.png)"],
        "attachments": {"a.png": {"image/png": PICTURE}},
    },
    code(
        ["x = 1\n", "print(x)"],
        {"output_type": "stream", "name": "stdout", "text": ["1\n", "done\n"]},
        result(text_plain="<Figure>", image_png=PICTURE),
        count=7,
    ),
    code(
        "boom", {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mE: v"]}
    ),
    code("table", result(text_html="<table>", text_plain=["  a\n", "0 1"]), count=None),
    code("empty"),
    {"cell_type": "raw", "source": "as it is"},
]


def text_of(cells: list[Any], **more: Any) -> str:
    metadata = {"language_info": {"name": "python"}}
    made = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5, **more}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "n.ipynb").write_text(text_of(CELLS))
    return tmp_path


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


async def shown(tools: FileTools, path: str = "n.ipynb", offset: int = 1, at: int = 0) -> str:
    page = await tools.read_file(path, offset, char_offset=at)
    assert isinstance(page, str)
    return page


async def test_a_notebook_is_read_as_cells_with_numbers_sources_and_outputs(
    tools: FileTools,
) -> None:
    header, _, text = (await shown(tools)).partition("\n")
    assert header.startswith("[notebook, 6 cells, python; edit_file needs its raw JSON")
    assert header.endswith("lines 1–25 of 25 · end]")
    size = f"about {len(PICTURE) * 3 // 4:,} bytes"
    assert (
        text
        == f"""── cell 1 · markdown ──
# Title
![a](attachment:a.png)
[attached a.png: image/png, {size}]
── cell 2 · code · [7] ──
x = 1
print(x)
── output of cell 2 ──
1
done
<Figure>
[image/png, {size}: not shown]
── cell 3 · code · [1] ──
boom
── output of cell 3 ──
E: v
── cell 4 · code ──
table
── output of cell 4 ──
  a
0 1
── cell 5 · code · [1] ──
empty
── cell 6 · raw ──
as it is
"""
    )
    assert PICTURE[:40] not in text


async def test_pages_of_a_notebook_are_bounded_and_join_to_the_whole(
    tools: FileTools, root: Path
) -> None:
    """R2, R3: also where one output is a single long line."""
    cells = [code(f"cell_{n} = {n}\n" * 40) for n in range(40)]
    cells.append(code("long", {"output_type": "stream", "text": "y" * 12_000}))
    text = text_of(cells)
    (root / "n.ipynb").write_text(text)
    made = notebook("n.ipynb", text)
    assert made is not None
    offset, at, joined = 1, 0, ""
    while True:
        page = await shown(tools, offset=offset, at=at)
        assert len(page) <= PAGE_CHARS
        header, _, content = page.partition("\n")
        joined += content
        following = re.search(r"offset=(\d+)(?:, char_offset=(\d+))?\)", header)
        if following is None:
            break
        offset, at = int(following[1]), int(following[2] or 0)
    assert joined == made.text


async def test_what_is_no_notebook_of_today_is_read_as_the_text_it_is(
    tools: FileTools, root: Path
) -> None:
    texts = {
        "a.ipynb": '{"cells": [], "nbformat": 4',
        "b.ipynb": '{"cells": [], "nbformat": 3}',
        "c.ipynb": '{"cells": [1], "nbformat": 4}',
        "d.ipynb": "[" * 100_000,
        "e.json": text_of(CELLS),
    }
    for name, text in texts.items():
        (root / name).write_text(text)
        first = text.partition("\n")[0][:200]
        assert first in await shown(tools, name)


async def test_w3_a_notebook_that_was_read_as_cells_is_edited_as_json(
    tools: FileTools, root: Path
) -> None:
    """W3: whoever has read the cells may edit; everything else in the file stays as it was."""
    before = (root / "n.ipynb").read_text()
    with pytest.raises(Conflict, match="you have not read it"):
        await tools.edit_file("n.ipynb", '"x = 1\\n"', '"x = 2\\n"')
    await shown(tools)
    await tools.edit_file("n.ipynb", '"x = 1\\n"', '"x = 2\\n"')
    assert (root / "n.ipynb").read_text() == before.replace("x = 1", "x = 2")
    assert "\nx = 2\nprint(x)\n" in await shown(tools)
    (root / "n.ipynb").write_text(before)
    with pytest.raises(Conflict, match="changed since you read it"):
        await tools.edit_file("n.ipynb", '"x = 1\\n"', '"x = 3\\n"')
    assert (root / "n.ipynb").read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("x = 1", 'x = "1"', r"Expecting ',' delimiter at line \d+, column \d+"),
        ('"cells"', '"sells"', "its cells are gone or of another form"),
        ("print(x)", "print(\n", "Invalid control character at line"),
    ],
)
async def test_an_edit_that_would_break_a_notebook_is_refused(
    tools: FileTools, root: Path, old: str, new: str, why: str
) -> None:
    """As when source is written into it the way it is shown."""
    before = (root / "n.ipynb").read_text()
    await shown(tools)
    with pytest.raises(EditFailed, match=why) as caught:
        await tools.edit_file("n.ipynb", old, new)
    assert "nothing was changed; its raw JSON is edited" in str(caught.value)
    assert (root / "n.ipynb").read_text() == before


async def test_a_passage_of_the_cells_that_is_not_in_the_json_is_told_how_to_find(
    tools: FileTools,
) -> None:
    await shown(tools)
    with pytest.raises(EditFailed, match=r'old_string not found.*grep\(output="content"\)'):
        await tools.edit_file("n.ipynb", "x = 1\nprint(x)", "x = 2")
    assert '"x = 1\\n"' in await tools.grep("x = 1", "n.ipynb", output="content")


async def test_a_broken_notebook_can_be_edited_until_it_is_whole(
    tools: FileTools, root: Path
) -> None:
    (root / "b.ipynb").write_text('{"nbformat": 4, "cells": [,]}')
    await shown(tools, "b.ipynb")
    await tools.edit_file("b.ipynb", "[,]", "[ ]")
    assert "[notebook, 0 cells" in await shown(tools, "b.ipynb")


KEYS = st.sampled_from(
    [
        "cell_type",
        "source",
        "outputs",
        "output_type",
        "data",
        "text",
        "text/plain",
        "image/png",
        "traceback",
        "attachments",
        "execution_count",
        "application/json",
        "x",
    ]
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(KEYS, ANY, max_size=6), max_size=4), ANY)
def test_no_notebook_makes_it_fail(cells: list[Any], metadata: Any) -> None:
    made = notebook("a.ipynb", text_of(cells, metadata=metadata))
    assert made is not None
    assert made.text.count("── cell ") >= len(cells)


async def test_w3_an_image_that_was_read_may_be_overwritten_and_one_that_was_not_may_not(
    tools: FileTools, root: Path
) -> None:
    """W3, R7."""
    for name, data in {"a.svg": png(4, 3), "b.txt": pdf(1)}.items():
        (root / name).write_bytes(data)
        with pytest.raises(Conflict, match="you have not read it"):
            await tools.write_file(name, "new")
        assert (root / name).read_bytes() == data
        assert isinstance(await tools.read_file(name), list)
        await tools.write_file(name, "new")
        assert (root / name).read_text() == "new"


async def test_w3_what_could_not_be_shown_was_not_read(tools: FileTools, root: Path) -> None:
    """W3: a damaged image, and a page after the end."""
    (root / "a.png").write_bytes(png(4, 3)[:-20])
    (root / "b.txt").write_text("one\n")
    for name, offset in (("a.png", 1), ("b.txt", 9)):
        with pytest.raises(Exception, match=r"damaged|past the end"):
            await tools.read_file(name, offset)
        with pytest.raises(Conflict, match="you have not read it"):
            await tools.write_file(name, "new")
