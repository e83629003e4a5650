"""A headless Chromium for tests: the system's own, driven by playwright's Python package."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
# The sandbox needs privileges that containers lack; no name but this machine's can be looked up.
ARGUMENTS = ("--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


def why_not() -> str | None:
    """Why there can be no browser here; ``None`` where there can."""
    missing = [] if find_spec("playwright") else ["playwright (pip install playwright)"]
    if _program() is None:
        missing.append("chromium (apt install chromium)")
    return f"not installed: {', '.join(missing)}" if missing else None


def _program() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser (playwright's ``Browser``)."""
    sync_playwright = import_module("playwright.sync_api").sync_playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_program(), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


_PATIENCE_SECONDS = 20


class Page:
    """A page that remembers what it asked for and what went wrong on it."""

    def __init__(self, context: Any) -> None:
        self.tab = context.new_page()
        self.tab.set_default_timeout(_PATIENCE_SECONDS * 1_000)
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("console", self._console)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def open(self, address: str) -> None:
        self.tab.goto(address)
        self.wait("!['', 'reading'].includes(document.querySelector('#status').textContent)")

    def go(self, view: str) -> None:
        """To a view, once it is drawn."""
        self.tab.evaluate("view => { location.hash = view; }", view)
        self.wait("document.querySelector('main').childNodes.length > 0")
        self.frames()

    def frames(self, count: int = 3) -> None:
        """Wait for so many frames to be drawn."""
        self.tab.evaluate(
            "n => new Promise(done => { const step = () => n-- ? requestAnimationFrame(step) : done();"
            " step(); })",
            count,
        )

    def wait(self, condition: str) -> None:
        """Until ``condition`` holds. Asked from here: the page's policy lets nobody evaluate text in
        it again and again, which is what playwright's own waiting does."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.tab.evaluate(condition):
            assert time.monotonic() < deadline, f"not so in time: {condition}"
            self.tab.wait_for_timeout(20)

    def text(self, selector: str = "main") -> str:
        found: str = self.tab.inner_text(selector)
        return found

    def value(self, expression: str) -> Any:
        return self.tab.evaluate(expression)


def tasks_ms(browser: Any, page: Page, folder: Path, act: Any) -> list[float]:
    """The tasks of the page's main thread while ``act`` ran, each by the processor time that it took,
    in milliseconds. Not the time on the wall: other processes do not count."""
    path = folder / "trace.json"
    browser.start_tracing(page=page.tab, path=path, categories=["toplevel", "__metadata"])
    act()
    browser.stop_tracing()
    events = json.loads(path.read_text())["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks: list[float] = [
        event["tdur"] / 1_000
        for event in events
        if "tdur" in event and (event["pid"], event["tid"]) in main
    ]
    assert tasks, "the trace holds the page's tasks"
    return tasks
