"""The tools as a model calls them, under asyncio and trio."""

import inspect
import json
import os
import socket
import threading
import typing
from pathlib import Path

import anyio
import anyio.lowlevel
import docstring_parser
import pytest
from pydantic import TypeAdapter

import workspace
from tests.pictures import bytes_of, pdf, png
from workspace import (
    READ_ONLY,
    Access,
    BadPattern,
    Denied,
    FileTools,
    NotFound,
    NotText,
    OutOfRange,
    Refused,
    ResultStore,
    Rule,
    WrongKind,
    search,
    tree,
)
from workspace.files import Files
from workspace.tree import MOST_LINES

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for path, text in {
        "a.py": "import os\nneedle = 1\n",
        "b.md": "# needle\r\nNeedle\r\n",
        "sub/c.py": "x = 'needle'\n",
        "sub/deep/d.txt": "none\n",
        "build/out.py": "needle\n",
        ".github/ci.yml": "needle: 1\n",
        ".git/config": "needle\n",
        ".gitignore": "build/\n*.log\n",
        "sub/.gitignore": "!keep.log\n",
        "sub/keep.log": "needle\n",
        "sub/drop.log": "needle\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    (root / "bin.dat").write_bytes(b"needle\0needle\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.py").write_text("needle SECRET\n")
    return root


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


async def text_of(tools: FileTools, path: str, **arguments: typing.Any) -> str:
    shown = await tools.read_file(path, **arguments)
    assert isinstance(shown, str)
    return shown


async def test_the_tests_run_under_the_backend_they_name(anyio_backend: str) -> None:
    assert anyio.get_cancelled_exc_class().__module__.split(".")[0] == anyio_backend


async def test_the_tools_are_those_of_the_contract(tools: FileTools) -> None:
    """Tools as models see them: names, arguments, defaults."""
    signatures = {tool.__name__: inspect.signature(tool) for tool in tools.functions()}
    shown = {
        name: [
            f"{p.name}" if p.default is p.empty else f"{p.name}={p.default!r}"
            for p in signature.parameters.values()
        ]
        for name, signature in signatures.items()
    }
    assert shown == {
        "ls": ["path='.'"],
        "read_file": ["path", "offset=1", "limit=200", "char_offset=0"],
        "write_file": ["path", "content"],
        "edit_file": ["path", "old_string", "new_string", "replace_all=False"],
        "delete_file": ["path"],
        "glob": ["pattern", "path='.'"],
        "grep": ["pattern", "path='.'", "glob=None", "output='files'", "literal=False"],
    }
    assert set(READ_ONLY) <= set(signatures)


async def test_the_root_is_told_by_its_real_path(root: Path) -> None:
    """P1."""
    (root.parent / "alias").symlink_to(root)
    assert FileTools(root.parent / "alias").root == FileTools(root).root


async def test_the_schemas_are_small(tools: FileTools) -> None:
    """T4's spirit: they are part of every request; at most 2,600 bytes in all."""
    schemas = []
    for tool in tools.functions():
        text = docstring_parser.parse(tool.__doc__ or "")
        described = {param.arg_name: param.description for param in text.params}
        hints = typing.get_type_hints(tool)
        parameters = inspect.signature(tool).parameters
        assert set(described) <= set(parameters)
        properties = {}
        for name, parameter in parameters.items():
            properties[name] = TypeAdapter(hints[name]).json_schema()
            if parameter.default is not parameter.empty:
                properties[name]["default"] = parameter.default
            if name in described:
                properties[name]["description"] = described[name]
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        schemas.append(
            {"name": tool.__name__, "description": text.short_description, "input_schema": schema}
        )
    assert len(json.dumps(schemas, separators=(",", ":"))) <= 2_600


async def test_what_is_public_is_sorted_and_there() -> None:
    """STYLE 9."""
    assert workspace.__all__ == sorted(workspace.__all__, key=lambda n: (not n.isupper(), n))
    assert all(hasattr(workspace, name) for name in workspace.__all__)


# Files


async def test_ls_shows_folders_with_a_slash_and_files_with_their_size(
    tools: FileTools, root: Path
) -> None:
    (root / "sub" / "link").symlink_to("deep")
    assert (await tools.ls("sub")).split("\n") == [
        ".gitignore (10 bytes)",
        "c.py (13 bytes)",
        "deep/",
        "drop.log (7 bytes)",
        "keep.log (7 bytes)",
        "link (symlink)",
    ]


async def test_ls_tells_an_empty_folder_from_a_missing_one(tools: FileTools, root: Path) -> None:
    """G5."""
    (root / "empty").mkdir()
    assert await tools.ls("empty") == "[empty is empty]"
    with pytest.raises(NotFound, match="missing: not found"):
        await tools.ls("missing")


async def test_ls_says_when_it_shows_not_all(tools: FileTools, root: Path) -> None:
    """G2: one over the cap is flagged, exactly at the cap is not."""
    (root / "many").mkdir()
    for n in range(1_000):
        (root / "many" / f"{n:04}").touch()
    assert "incomplete" not in await tools.ls("many")
    (root / "many" / "x").touch()
    assert (await tools.ls("many")).endswith("[incomplete: 1,000 of 1,001 names; use glob]")


async def test_reading_on_as_told_gives_the_whole_file(tools: FileTools, root: Path) -> None:
    """R2, R3: by the literal call of each header, byte for byte."""
    text = "".join(f"{n} é{'x' * (n % 300)}\r\n" for n in range(300)) + "y" * 12_000 + "\fend"
    (root / "big").write_bytes(text.encode())
    arguments: dict[str, typing.Any] = {"path": "big"}
    content = ""
    while arguments:
        shown = await text_of(tools, **arguments)
        assert len(shown) <= 5_000
        header, _, part = shown.partition("\n")
        content += part
        _, _, call = header.partition("go on: read_file(")
        arguments = eval(f"dict({call.removesuffix(')]')})") if call else {}
    assert content == text


async def test_what_read_shows_can_be_edited(tools: FileTools, root: Path) -> None:
    """R5: in a file with CRLF line ends."""
    shown = (await text_of(tools, "b.md")).split("\n", 1)[1]
    assert await tools.edit_file("b.md", shown, "new\n") == (
        "edited b.md: replaced 1 passage at line 1"
    )
    assert (root / "b.md").read_bytes() == b"new\r\n"


async def test_errors_of_reading_reach_the_caller(tools: FileTools) -> None:
    """R1."""
    with pytest.raises(NotFound):
        await tools.read_file("none")
    with pytest.raises(OutOfRange, match="the file has 2 lines"):
        await tools.read_file("a.py", 3)
    with pytest.raises(Refused):
        await tools.read_file("../out/x.py")


@pytest.mark.parametrize(
    ("data", "kind", "media_type"),
    [(png(4, 3), "image", "image/png"), (pdf(2), "document", "application/pdf")],
)
async def test_an_image_or_a_pdf_comes_back_as_a_content_block(
    tools: FileTools, root: Path, data: bytes, kind: str, media_type: str
) -> None:
    """R7: by its bytes, whatever its name; never as base64 in text."""
    (root / "odd.txt").write_bytes(data)
    shown = await tools.read_file("odd.txt")
    assert isinstance(shown, list)
    text, block = shown
    assert text["text"].startswith(f"[odd.txt · {media_type} · ")
    assert len(text["text"]) < 200
    assert (block["type"], block["source"]["media_type"]) == (kind, media_type)
    assert bytes_of(block) == data


async def test_what_only_looks_like_an_image_is_text_or_an_error(
    tools: FileTools, root: Path
) -> None:
    """R6, R7: an SVG and a notebook are text; an image that is too large is an error with its size."""
    (root / "a.png").write_text("<svg/>")
    (root / "b.ipynb").write_text('{"cells": []}')
    (root / "c.png").write_bytes(png(padding=5_000_000))
    (root / "d.bin").write_bytes(b"\x7fELF\0")
    assert (await text_of(tools, "a.png")).endswith("\n<svg/>")
    assert (await text_of(tools, "b.ipynb")).endswith('\n{"cells": []}')
    with pytest.raises(WrongKind, match=r"c\.png: is image/png of 5,000,\d\d\d bytes"):
        await tools.read_file("c.png")
    with pytest.raises(NotText, match="is an executable"):
        await tools.read_file("d.bin")


async def test_an_image_is_under_the_same_rules_as_a_text(root: Path) -> None:
    """P3, P4: a deny rule, and a symlink that leads outside."""
    (root.parent / "out" / "x.png").write_bytes(png())
    (root / "x.png").symlink_to("../out/x.png")
    (root / "secret.png").write_bytes(png())
    tools = FileTools(root, Access(deny_read=(Rule("secret.*"),)))
    for path in ("x.png", "../out/x.png", "secret.png"):
        with pytest.raises(Refused):
            await tools.read_file(path)


async def test_an_offloaded_image_is_shown_again_with_the_same_tool(root: Path) -> None:
    """O2, O3, R7."""
    store = ResultStore(root, ".outrider/runs/R/agents/A/results")
    stored = await store.write_bytes("shot", png(4, 3), ".png")
    shown = await FileTools(root, Access(readable_private=lambda: [store.folder])).read_file(
        stored.path
    )
    assert isinstance(shown, list)
    assert bytes_of(shown[1]) == png(4, 3)


async def test_writing_tells_what_was_done(tools: FileTools, root: Path) -> None:
    assert await tools.write_file("new/n.txt", "one\none\n") == "created new/n.txt (8 characters)"
    assert await tools.edit_file("new/n.txt", "one", "1", replace_all=True) == (
        "edited new/n.txt: replaced 2 passages, the first at line 1"
    )
    assert await tools.write_file("new/n.txt", "") == "overwrote new/n.txt (0 characters)"
    assert await tools.delete_file("new/n.txt") == "deleted new/n.txt"
    assert await tools.delete_file("sub") == "deleted sub (7 names in all)"
    assert not (root / "sub").exists()


async def test_parallel_agents_lose_no_edit(root: Path) -> None:
    """W4: in one task group, each with tools of its own."""
    (root / "p.txt").write_text("".join(f"<{n}>\n" for n in range(10)))

    async def agent(n: int) -> None:
        tools = FileTools(root)
        await tools.read_file("p.txt")
        await anyio.lowlevel.checkpoint()
        await tools.edit_file("p.txt", f"<{n}>", f"<{n}!>")

    async with anyio.create_task_group() as group:
        for n in range(10):
            group.start_soon(agent, n)
    assert (root / "p.txt").read_text() == "".join(f"<{n}!>\n" for n in range(10))


async def test_an_offloaded_result_is_read_back_with_the_same_tools(root: Path) -> None:
    """O2, O3, L8: pages join to the stored text; grep works in it; it is ignored otherwise."""
    store = ResultStore(root, ".outrider/runs/R/agents/A/results")
    (root / ".gitignore").write_text(".outrider/runs/\n")
    stored = await store.write("grep", "line with needle\r\nlast \ud800")
    tools = FileTools(root, Access(readable_private=lambda: [store.folder]))
    assert (await text_of(tools, stored.path)).endswith("\nline with needle\r\nlast \ud800")
    assert await tools.grep("needle", path=stored.path) == stored.path
    assert await tools.grep("needle", path=store.folder) == stored.path
    assert await tools.glob("*.txt", path=store.folder) == stored.path
    assert ".outrider" not in await tools.grep("needle")
    with pytest.raises(Refused):
        await tools.grep("needle", path=".outrider")


# glob


async def test_glob_lists_files_from_the_root_in_order(tools: FileTools) -> None:
    """G4, G3: `.gitignore` at every level is respected, `.git` is passed over."""
    assert (await tools.glob("*.py")).split("\n") == ["a.py", "sub/c.py"]
    assert await tools.glob("/*.py") == "a.py"
    assert (await tools.glob("*.{py,md}")).split("\n") == ["a.py", "b.md", "sub/c.py"]
    assert await tools.glob("*.log") == "sub/keep.log"
    assert await tools.glob(".github/**") == ".github/ci.yml"
    assert await tools.glob("/*", path="sub/deep") == "sub/deep/d.txt"
    assert await tools.glob("*.py", path="a.py") == "a.py"


async def test_glob_that_finds_nothing_says_where_it_looked(tools: FileTools) -> None:
    """G3: and that ignored files were left out; a folder that is named is searched."""
    assert await tools.glob("out.py") == (
        "[no file matches out.py in . (files that .gitignore names only if path names their "
        "folder)]"
    )
    assert await tools.glob("out.py", path="build") == "build/out.py"
    with pytest.raises(NotFound):
        await tools.glob("*", path="none")
    with pytest.raises(BadPattern):
        await tools.glob("[")


async def test_symlinks_are_listed_only_where_they_stay_inside(
    tools: FileTools, root: Path
) -> None:
    """P3: glob and grep do not leave through them."""
    (root / "in.py").symlink_to("sub/c.py")
    (root / "evil.py").symlink_to("../out/x.py")
    (root / "dir").symlink_to("../out")
    (root / "loop").symlink_to(".")
    assert (await tools.glob("*.py")).split("\n") == ["a.py", "in.py", "sub/c.py"]
    assert (await tools.grep("needle", glob="*.py")).split("\n") == ["a.py", "sub/c.py"]
    for path in ("evil.py", "dir"):
        with pytest.raises(Refused):
            await tools.glob("*", path=path)
        with pytest.raises(Refused):
            await tools.grep("needle", path=path)


async def test_denied_files_are_hidden_from_searches(root: Path) -> None:
    """P4."""
    (root / "alias.py").symlink_to("sub/c.py")
    tools = FileTools(root, Access(deny_read=(Rule("SUB/**"), Rule("b.*"))))
    assert await tools.glob("*.{py,md}") == "a.py"
    assert (await tools.grep("needle")).split("\n") == ["a.py", ".github/ci.yml"]
    with pytest.raises(Denied):
        await tools.grep("needle", path="sub")


async def test_a_search_starts_below_folders_that_are_not_ignored_themselves(
    tools: FileTools, root: Path
) -> None:
    """G3: the ignore files above the folder that is searched hold too."""
    assert await tools.glob("*.log", path="sub") == "sub/keep.log"
    assert (await tools.glob("*.log", path="sub/deep")).startswith("[no file matches")


# grep


async def test_grep_answers_with_files_lines_or_counts(tools: FileTools) -> None:
    """G1; CRLF ends are no part of a line."""
    assert (await tools.grep("needle")).split("\n") == [
        "a.py",
        "b.md",
        ".github/ci.yml",
        "sub/c.py",
        "sub/keep.log",
    ]
    assert await tools.grep("needle$", output="content") == (
        "b.md:1:# needle\nsub/keep.log:1:needle"
    )
    assert await tools.grep("(?i)needle", path="b.md", output="count") == "b.md:2"


async def test_grep_takes_one_file_a_filter_or_plain_text(tools: FileTools, root: Path) -> None:
    """G1."""
    assert await tools.grep("needle", path="a.py", output="content") == "a.py:2:needle = 1"
    assert await tools.grep("needle", glob="*.yml") == ".github/ci.yml"
    assert "py" not in await tools.grep("needle", glob="!*.py")
    (root / "t.txt").write_text("a.c(\nabc\n")
    assert await tools.grep("a.c(", literal=True, output="content") == "t.txt:1:a.c("
    with pytest.raises(BadPattern, match="column 4"):
        await tools.grep("a.c(")
    assert (await tools.grep("nowhere")).startswith("[no match for nowhere in . ")


async def test_binary_files_are_skipped_and_foreign_bytes_are_searched_around(
    tools: FileTools, root: Path
) -> None:
    """G3, R6."""
    assert "1 binary files skipped" in await tools.grep("needle", path="bin.dat")
    (root / "latin").write_bytes(b"caf\xe9 needle\n")
    (root / "bom").write_bytes(b"\xef\xbb\xbfneedle\n")
    assert await tools.grep("^caf", output="content") == "latin:1:caf\ufffd needle"
    assert await tools.grep("^needle", path="bom") == "bom"


async def test_what_is_no_file_is_passed_over(tools: FileTools, root: Path) -> None:
    """G3: a fifo or a socket does not block or break a search."""
    os.mkfifo(root / "deep-fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(root)  # the length of a socket's path is limited
        try:
            listener.bind("sock")
        finally:
            os.chdir(here)
        assert (await tools.grep("needle", path="a.py", output="count")) == "a.py:1"
        found = await tools.grep("needle", glob="{deep-fifo,sock,a.py}")
    assert found.startswith("a.py")


async def test_a_capped_answer_is_flagged_and_one_exactly_at_the_cap_is_not(
    tools: FileTools, root: Path
) -> None:
    """G2."""
    (root / "l.txt").write_text("hit\n" * MOST_LINES)
    shown = await tools.grep("hit", output="content")
    assert shown.count("\n") == MOST_LINES - 1
    assert "incomplete" not in shown
    (root / "l.txt").write_text("hit\n" * (MOST_LINES + 1))
    shown = await tools.grep("hit", output="content")
    assert shown.count("l.txt:") == MOST_LINES
    assert shown.endswith("[incomplete: only the first 1,000 are shown; narrow the search]")
    (root / "many").mkdir()
    for n in range(MOST_LINES):
        (root / "many" / f"{n}.x").write_text("hit")
    assert "incomplete" not in await tools.glob("*.x")
    (root / "many" / "more.x").write_text("hit")
    assert "incomplete" in await tools.glob("*.x")
    assert "incomplete" in await tools.grep("hit", path="many")


async def test_a_time_limit_gives_what_there_is_with_a_note(root: Path) -> None:
    """G2."""
    tools = FileTools(root, time_limit=0.0)
    for shown in (await tools.glob("*"), await tools.grep("needle")):
        assert "[incomplete: the time limit was reached" in shown


async def test_the_clock_is_looked_at_inside_a_large_file(root: Path) -> None:
    """G2: not only between files."""
    (root / "large.txt").write_text("hit\n" * 100_000)
    looks = iter([True, True, True])
    hits = tree.find_lines(
        Files(root),
        search.regex("hit$"),
        "large.txt",
        lambda parts: True,
        "count",
        lambda: next(looks, False),
    )
    count = int(hits.lines[0].removeprefix("large.txt:"))
    assert 0 < count < 100_000
    assert hits.is_out_of_time


async def test_a_pattern_that_would_take_for_ever_stops_at_the_time_limit(root: Path) -> None:
    """G2: and everything else goes on meanwhile."""
    (root / "a.txt").write_text("a" * 40 + "b\n")
    (root / "long.txt").write_text("x" * 250_000 + "\n")
    tools = FileTools(root, time_limit=0.5)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        shown = await tools.grep("(a+)+$", glob="a.txt")
        shown += await tools.grep("x*.*x*y", glob="long.txt")
        group.cancel_scope.cancel()
    assert shown.count("time limit was reached") == 2
    assert turns > 100


async def test_a_repeated_group_or_a_long_line_gives_the_same_answer(
    tools: FileTools, root: Path
) -> None:
    """G1: also where the work is done in the helper process."""
    (root / "t.txt").write_text("one two\nno-match!\nx,y,z,\n")
    assert await tools.grep(r"^(\w+,)+$", output="content", glob="t.txt") == "t.txt:3:x,y,z,"
    (root / "rows.txt").write_text("a,b,\nnone\n" * 3_000)
    assert await tools.grep(r"^(\w+,)+$", output="count", glob="rows.txt") == "rows.txt:3000"
    (root / "long.txt").write_text("é" * 20_000 + "needle 1" + "y" * 20_000 + "\n")
    shown = await tools.grep(r"needle\s+\d", output="content", glob="long.txt")
    assert "match at char_offset=20000]" in shown
    assert len(shown) < 500


async def test_a_search_can_be_cancelled(root: Path) -> None:
    """S13: the helper process ends with it."""
    (root / "a.txt").write_text("a" * 40 + "b\n")
    tools = FileTools(root, time_limit=600.0)
    with anyio.move_on_after(0.3) as scope:
        await tools.grep("(a+)+$", glob="a.txt")
    assert scope.cancelled_caught


async def test_files_that_vanish_give_partial_results(tools: FileTools, root: Path) -> None:
    """G3: a search goes on while files come and go under it."""
    (root / "flux").mkdir()
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for n in range(30):
                (root / "flux" / f"{n}.txt").write_text("needle")
            for n in range(30):
                (root / "flux" / f"{n}.txt").unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(20):
            assert "a.py" in await tools.grep("needle")
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(os.geteuid() == 0, reason="permission bits do not bind root")
async def test_unreadable_files_give_partial_results_and_a_note(
    tools: FileTools, root: Path
) -> None:
    """G3."""
    (root / "a.py").chmod(0)
    (root / "sub").chmod(0)
    try:
        shown = await tools.grep("needle")
    finally:
        (root / "sub").chmod(0o700)
    assert shown.startswith("b.md\n")
    assert "[not searched: a.py: permission refused" in shown
    assert "sub: permission refused" in shown
