"""Images and documents in whole runs: shown as blocks, moved to files, never sent to be summarised."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Context, Reply, Report, Request, run
from orchestrator.ledger import Usage
from orchestrator.messages import Block, text_block
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.testing.scripted import Scripted
from tests.histories import orphans
from tests.pictures import bytes_of, image, pdf, png, shown_in, tokens_of

pytestmark = pytest.mark.anyio

WINDOW = 32_000
SHOTS = 60


def picture(number: int) -> bytes:
    return png(8, 8, seed=number, padding=30_000)


def shot(number: int) -> list[Block]:
    """Take a screenshot.

    Args:
        number: Which.
    """
    return [text_block(f"screenshot {number}"), image(picture(number))]


class Viewer:
    """Looks at one screenshot after another, goes back to the first that left, and answers.

    Every request is held to the window as the service counts: an image by its pixels, at most 1,600
    tokens, although its base64 here is about 10,000.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.first_moved: str | None = None
        self.model = ScriptedModel(self.script, window=WINDOW)

    def script(self, request: Request) -> Reply:
        self.requests.append(request)
        assert tokens_of(request) + request.max_tokens <= WINDOW
        assert orphans(list(request.messages)) == []
        self.first_moved = self.first_moved or next(iter(moved_in(request)), None)
        said = self.answer(request)
        content = [text_block(said)] if isinstance(said, str) else said
        return Reply(
            content=content,
            stop_reason="end_turn" if isinstance(said, str) else "tool_use",
            usage=Usage(input_tokens=tokens_of(request), output_tokens=50),
            model="scripted",
        )

    def answer(self, request: Request) -> str | list[Block]:
        if request.purpose == "summary":
            return "Goal: look at all screenshots."
        turn = sum(r.purpose == "agent" for r in self.requests)
        if turn <= SHOTS:
            return [{**call("shot", number=turn), "id": f"c{turn}"}]
        if turn == SHOTS + 1 and self.first_moved is not None:
            return [{**call("read_file", path=self.first_moved), "id": "back"}]
        return "seen"

    async def go(self, root: Path, **context: Any) -> Report:
        return await run(
            "look at everything",
            model=self.model,
            root=root,
            tools=[shot],
            context=Context(**context),
            run_id="shots",
        )


def moved_in(request: Request) -> list[str]:
    """Paths of the images that were moved to files, and are no longer shown."""
    return re.findall(
        r"\[offloaded (\S+) · image/png, [\d,]+ bytes · not shown\]", str(results(request))
    )


def log_of(root: Path, report: Report, event: str) -> list[dict[str, Any]]:
    lines = (root / report.log).read_text().splitlines()
    return [e for e in map(json.loads, lines) if e["event"] == event]


async def test_o8_many_images_stay_within_the_window_and_come_back_when_asked_for(
    tmp_path: Path,
) -> None:
    """O3, O8, R7: old images move in batches, whole; `read_file` shows one again."""
    viewer = Viewer()
    report = await viewer.go(tmp_path)
    assert (report.status, report.conclusion) == ("finished", "seen")
    moved = log_of(tmp_path, report, "offloaded")
    assert len(moved) >= SHOTS - 20
    assert len({e["path"] for e in moved}) == len(moved)
    shown = {picture(number) for number in range(1, SHOTS + 1)}
    for event in moved:
        data = (tmp_path / event["path"]).read_bytes()
        assert data in shown
        assert (event["tool"], event["chars"]) == ("shot", len(data))
        assert event["path"].endswith("-shot.png")
    # The batches are few: each breaks the cached prefix once.
    assert len({e["turn"] for e in moved}) <= len(moved) // 3

    path = viewer.first_moved
    assert path == moved[0]["path"]
    assert bytes_of(shown_in(viewer.requests[-1])[-1]) == picture(1)
    assert results(viewer.requests[-1])[-1].startswith(f"[{path} · image/png · 8×8 · ")


@pytest.mark.parametrize("offload_at", [None, 5_000])
async def test_c17_no_image_is_in_any_summary_request(
    tmp_path: Path, offload_at: int | None
) -> None:
    """C17: neither where images are still in the history, nor where they have left it."""
    viewer = Viewer()
    report = await viewer.go(tmp_path, offload_at=offload_at, keep_turns=4, compact_at=0.5)
    assert report.status == "finished"
    summaries = [r for r in viewer.requests if r.purpose == "summary"]
    assert summaries
    assert report.agents[0].compactions >= 1
    for request in summaries:
        assert shown_in(request) == []
        assert b"base64" not in request.body
        assert b"iVBORw0KGgo" not in request.body
        assert b"screenshot" in request.body


async def test_o1_a_huge_text_in_a_list_is_offloaded_at_birth_and_the_rest_stays(
    tmp_path: Path,
) -> None:
    """O1, O3: the limit is that of each text; order is kept; the placeholder's call reads it back."""
    texts = ["at the limit".ljust(100, "."), "over it".ljust(101, "."), "\ud800"]

    def several() -> list[Block]:
        """Several blocks."""
        first, second, odd = map(text_block, texts)
        return [first, image(png()), second, text_block(""), odd]

    seen: list[Request] = []

    def script(request: Request) -> Scripted:
        seen.append(request)
        got = results(request)
        if not got:
            return [call("several")]
        if len(got) == 1:
            return [call("read_file", path=got[0].split('read_file(path="')[1].split('"')[0])]
        return got[1]

    report = await run(
        "go",
        model=ScriptedModel(script),
        root=tmp_path,
        tools=[several],
        context=Context(offload_at=100),
    )
    (birth,) = log_of(tmp_path, report, "offloaded")
    assert (birth["reason"], birth["chars"]) == ("birth", 101)
    assert (tmp_path / birth["path"]).read_text() == texts[1]
    first, shown, stub, empty, odd = seen[1].messages[-1]["content"][0]["content"]
    assert first == text_block(texts[0])
    assert bytes_of(shown) == png()
    assert stub["text"].startswith(f"[offloaded {birth['path']} · 101 characters, 1 lines · ")
    assert (empty["text"], odd["text"]) == ("(empty)", "?")
    assert report.conclusion.endswith(texts[1])


async def test_o7_a_text_in_a_list_that_cannot_be_stored_stays(tmp_path: Path) -> None:
    """O7: and the log says so."""

    def several() -> list[Block]:
        """Several blocks, and no place to store them."""
        folder = tmp_path / ".outrider/runs/r/agents/main"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results").write_text("a file where the folder should be")
        return [text_block("x" * 101), image(png())]

    def script(request: Request) -> Scripted:
        return results(request)[0] if results(request) else [call("several")]

    report = await run(
        "go",
        model=ScriptedModel(script),
        root=tmp_path,
        tools=[several],
        context=Context(offload_at=100),
        run_id="r",
    )
    assert report.conclusion == "x" * 101
    assert [e["tool"] for e in log_of(tmp_path, report, "offload_failed")] == ["several"]


async def test_r7_a_pdf_reaches_the_model_as_a_document(tmp_path: Path) -> None:
    """R7: and one that cannot be shown is an error result; the run goes on."""
    (tmp_path / "paper").write_bytes(pdf(3))
    (tmp_path / "book").write_bytes(pdf(300))

    def script(request: Request) -> Scripted:
        if not results(request):
            return [call("read_file", path="paper"), call("read_file", path="book")]
        (document,) = shown_in(request)
        assert bytes_of(document) == pdf(3)
        return "\n".join(results(request))

    report = await run("read", model=ScriptedModel(script), root=tmp_path)
    paper, book = report.conclusion.split("\n")
    assert paper.startswith("[paper · application/pdf · 3 pages · ")
    assert book.startswith("[error] book: is application/pdf of ")
    assert "300 pages" in book
