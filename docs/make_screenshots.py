"""Pictures of `outrider view` for its page in the documentation: ``python docs/make_screenshots.py``.

Records a run of scripted models in a temporary folder, opens it in the system's Chromium, and writes
each view, light and dark side by side, to ``docs/images/``. Needs ``pip install playwright`` and
``apt install chromium``.
"""

from __future__ import annotations

import base64
import contextlib
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from playwright.sync_api import sync_playwright

from orchestrator import Context, Reply, Request, run
from orchestrator.cli import main as outrider
from orchestrator.errors import Overloaded
from orchestrator.ledger import Usage
from orchestrator.messages import text_block
from orchestrator.testing import ScriptedModel, call, results

IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 1120, 700
MOST_BYTES = 80_000
VIEWS = {
    "overview": "#",
    "agent": "#agent/1",
    "time": "#time",
    "turns": "#turns/1/30",
    "todos": "#todos",
    "conclusions": "#conclusions",
    "tools": "#tools",
    "events": "#events",
}
MODEL = "claude-sonnet-4-5"
PLAN = (
    "Measure the import on last night's data",
    "Find what each stage spends its time on",
    "Compare with the release before",
    "Propose the smallest change",
)
BRIEFS = (
    ("general", "Read the stages of the import, page by page, and say where the time goes."),
    ("general", "Find every query that the import makes for each row."),
    ("general", "Compare the loader with the one of the last release."),
    ("general", "Look for locks that are held over a network call."),
)


def manual(number: int) -> str:
    """A page of the import's manual.

    Args:
        number: Which page.
    """
    return f"Page {number}. " + f"Stage {number % 7} copies rows of table t{number}. " * 60


def made(request: Request, blocks: list[dict[str, Any]], cached: int) -> Reply:
    """A reply with the figures that a caching service would report that holds ``cached`` tokens."""
    size = len(request.body) // 4
    read, fresh = min(cached, size), min(50, max(0, size - cached))
    new = size - read - fresh
    usage = Usage(fresh, 40 + len(str(blocks)) // 4, read, new, new)
    stop = "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"
    for index, block in enumerate(blocks):
        if block["type"] == "tool_use":
            block["id"] = f"call_{len(request.messages)}_{index}"
    return Reply(blocks, stop, usage, model=MODEL)


class Story:
    """What the models say: a main agent that plans and asks four others."""

    def __init__(self) -> None:
        self.refused = False
        self.sizes: dict[str, int] = {}

    async def __call__(self, request: Request) -> Reply:
        await anyio.sleep(0.05 + len(request.body) % 7 / 50)
        size, before = len(request.body) // 4, self.sizes.get(request.agent_id, 0)
        if request.purpose == "summary":
            text = "Goal: say where the time goes. Stages 1 to 6 copy rows in batches; nothing slow yet."
            return made(request, [text_block(text)], before)
        blocks = self.main(request) if request.agent_type == "main" else self.child(request)
        self.sizes[request.agent_id] = size - 50
        return made(request, blocks, before if size >= before else 1_200)

    def main(self, request: Request) -> list[dict[str, Any]]:
        match len(results(request)):
            case 0:
                todos = [{"content": text, "status": "pending"} for text in PLAN]
                todos[0]["status"] = "in_progress"
                said = text_block("I begin with a plan, and hand the reading to others.")
                return [said, call("write_todos", todos=todos)]
            case 1:
                return [call("task", prompt=text, subagent_type=kind) for kind, text in BRIEFS]
            case 5:
                todos = [{"content": text, "status": "completed"} for text in PLAN[:3]]
                todos.append({"content": PLAN[3], "status": "in_progress"})
                return [call("write_todos", todos=todos)]
            case _:
                return [text_block(CONCLUSION)]

    def child(self, request: Request) -> list[dict[str, Any]]:
        brief = request.messages[0]["content"][0]["text"]
        number = next(n for n, (_, text) in enumerate(BRIEFS) if text in brief)
        uses = [b for m in request.messages for b in m["content"] if b["type"] == "tool_use"]
        done = max((b["input"].get("number", 0) for b in uses), default=0)
        if number == 3 and not self.refused:
            self.refused = True
            raise Overloaded("no room at the moment", retry_after=0.3)
        if done >= (46, 9, 7, 5)[number]:
            return [
                text_block(f"{BRIEFS[number][1]}\n\nDone: stage {number + 2} waits for a lock.")
            ]
        more = [call("grep", pattern=f"t{done}", path="src")] if done % 3 == number % 3 else []
        return [call("manual", number=done + 1), *more]


CONCLUSION = """The import is slow because stage 4 asks for each row's owner by itself: 1.2 million queries.

1. src/stage4.py:88 reads `owner_of(row)` inside the loop. One join does the same.
2. src/lock.py:31 holds the table's lock while it calls the mail service.

Smallest change: join the owners in `rows_of()`; measured on last night's data 41 min become 6 min."""


def record(root: Path) -> None:
    for name in ("stage4", "lock", "loader"):
        (root / "src").mkdir(exist_ok=True)
        (root / "src" / f"{name}.py").write_text(f"def {name}(): ...  # t1 t3 t6\n" * 40)

    async def go() -> None:
        await run(
            "Find out why the nightly import takes 41 minutes since the last release, and propose "
            "the smallest change that mends it.",
            model=ScriptedModel(Story(), name=MODEL),
            root=root,
            tools=[manual],
            context=Context(window=32_000, offload_at=4_000),
            run_id="nightly-import",
        )

    anyio.run(go)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "work"
        root.mkdir()
        record(root)
        page = root / "run.html"
        sys.argv = ["outrider", "view", "--root", str(root), "--log-content", "--export", str(page)]
        with contextlib.redirect_stderr(io.StringIO()):
            assert outrider() == 0
        shoot(page)


def shoot(page: Path) -> None:
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        both = browser.new_page(viewport={"width": 2 * WIDTH + 12, "height": HEIGHT})
        for name, view in VIEWS.items():
            shots = [shot(browser, page, view, scheme) for scheme in ("light", "dark")]
            images = "".join(
                f'<img src="data:image/png;base64,{base64.b64encode(data).decode()}" width={WIDTH}>'
                for data in shots
            )
            style = "body{margin:0;display:flex;gap:12px;background:#888}"
            both.set_content(f"<style>{style}</style>{images}")
            session = both.context.new_cdp_session(both)
            for quality in range(70, 0, -10):
                asked = {"format": "webp", "quality": quality}
                made = base64.b64decode(session.send("Page.captureScreenshot", asked)["data"])
                if len(made) <= MOST_BYTES:
                    break
            (IMAGES / f"view-{name}.webp").write_bytes(made)
            print(f"{name}: {len(made) // 1024} KB")  # noqa: T201
        browser.close()


def shot(browser: Any, page: Path, view: str, scheme: str) -> bytes:
    context = browser.new_context(color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT})
    tab = context.new_page()
    tab.goto(f"{page.as_uri()}{view}")
    tab.wait_for_timeout(500)
    data: bytes = tab.screenshot()
    context.close()
    return data


if __name__ == "__main__":
    main()
