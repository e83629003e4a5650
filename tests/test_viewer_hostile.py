"""What models, tools and people wrote, in a real browser: it stays text, and nothing in it makes the page
ask anybody for anything. Live, afterwards, and in a file opened from disk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import create_server, socket
from threading import Event, Thread
from typing import Any

import pytest

from orchestrator import Request
from orchestrator.errors import Overloaded
from orchestrator.messages import text_block
from orchestrator.testing import call, results
from tests.chromium import Page, chromium, why_not
from tests.needs import needs
from tests.test_cli_process import outrider
from tests.viewing import LONG_LINE, record_run, viewer

pytestmark = [
    pytest.mark.browser,
    needs("browser", why_not()),
]

RUN = "hostile"
FOREIGN = "http://leak.example"
VIEWS = (
    *("#", "#agent/0", "#agent/1", "#time", "#turns/0", "#turns/1", "#todos", "#conclusions"),
    *("#tools", "#events", "#search"),
)


class Trap:
    """Counts who comes. It is the proxy for all names but the viewer's, and an address by itself."""

    def __init__(self) -> None:
        self._listener = create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.seen: list[str] = []
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                came, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._note, args=(came,), daemon=True).start()

    def _note(self, came: socket) -> None:
        """A connection counts, whether anything is asked on it or not."""
        at = len(self.seen)
        self.seen.append("connected")
        with came, suppress(OSError):
            self.seen[at] = came.recv(300).decode(errors="replace").partition("\r\n")[0]
            came.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    def close(self) -> None:
        self._listener.close()


def reaching_out(to: str) -> str:
    """Every way that a page has to ask for something, as a text."""
    return f"""\x1b[31mred\x1b[0m \x1b]8;;{to}/osc\x07title\x1b]8;;\x07 \u202etxt.exe\u202c \u200f\u2066
<img src={to}/img> <img src="x" srcset="{to}/srcset 2x"> ![picture]({to}/markdown)
<link rel="stylesheet" href="{to}/css"><link rel="preconnect" href="{to}"><link rel="dns-prefetch" href="{to}">
<style>@import url("{to}/import"); * {{ background: url({to}/url) }} @font-face {{ src: url({to}/font) }}</style>
<div style="background-image: url('{to}/inline')" background="{to}/background">url({to}/bare)</div>
<svg xmlns="http://www.w3.org/2000/svg"><image href="{to}/svg"/><use href="{to}/use#x"/>
<script href="{to}/svgscript"/></svg><script src="{to}/script"></script><script>fetch("{to}/fetch")</script>
<iframe src="{to}/frame" srcdoc="<img src={to}/srcdoc>"></iframe><object data="{to}/object"></object>
<embed src="{to}/embed"><video src="{to}/video" poster="{to}/poster"></video><audio src="{to}/audio"></audio>
<meta http-equiv="refresh" content="0;url={to}/refresh"><base href="{to}/"><form action="{to}/form"></form>
<a href="{to}/link" ping="{to}/ping" target="_blank">a link</a> <input type=image src={to}/input autofocus>
<img src=x onerror="window.hacked = 1; new Image().src='{to}/onerror'"> javascript:window.hacked=1 {to}/plain </div></main></body>"""


def long_line(name: str, size: int = LONG_LINE) -> str:
    return f"{name} of one line " + "x" * size


@dataclass
class Bad:
    """A run in which everything that can hold a text holds one that reaches out; it waits for ``go_on``
    before its last words."""

    root: Path
    bad: str
    waits: Event = field(default_factory=Event)
    go_on: Event = field(default_factory=Event)

    def record(self) -> None:
        bad = self.bad

        def shout(words: str) -> str:
            """Says it, and more, in one line of a megabyte, or fails.

            Args:
                words: What to say.
            """
            if words.startswith("fail"):
                raise ValueError(bad)
            return bad + long_line("A tool's output")

        (self.root / "AGENTS.md").write_text(f"Mind this: {bad}\n")
        task = f"{bad} {long_line('The task', 60_000)}"
        record_run(self.root, self.script, RUN, task=task, tools=[shout])

    def script(self, request: Request) -> Any:
        bad, done = self.bad, len(results(request))
        if request.agent_type != "main":
            return f"{bad} the child's" if done else [call("shout", words=bad)]
        match done:
            case 0:
                plan = [{"content": bad, "status": "in_progress"}]
                thought = {"type": "thinking", "thinking": bad, "signature": "x"}
                return [thought, text_block(bad), call("write_todos", todos=plan)]
            case 1:
                named = f"<img src={FOREIGN}/name>"
                return [
                    call("shout", words=bad),
                    call("shout", words="fail"),
                    call("grep", pattern=bad),
                    call(named, x=bad),
                ]
            case 5:
                return [call("task", prompt=bad, description=bad[:200])]
            case _:
                return self.end(bad)

    def end(self, bad: str) -> str:
        if not self.waits.is_set():
            self.waits.set()
            raise Overloaded(f"busy: {bad}", retry_after=0.01)
        assert self.go_on.wait(120)
        return f"{bad} {long_line('The conclusion')}"


@dataclass(frozen=True)
class Seen:
    """A page of the run. ``own``: what every address begins with that it may ask for."""

    page: Page
    requests: list[str]
    trap: Trap
    own: str
    is_live: bool


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    trap = Trap()
    yield trap
    trap.close()


@contextmanager
def watched(browser: Any, trap: Trap) -> Iterator[tuple[Page, list[str]]]:
    """A page whose every request is counted, of any tab and frame, tried or made; all names but the
    viewer's lead to the trap, through a proxy, as does the trap's own address."""
    proxy = {"server": f"http://127.0.0.1:{trap.port}", "bypass": "127.0.0.1"}
    context = browser.new_context(proxy=proxy, viewport={"width": 1280, "height": 800})
    requests: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    trap.seen.clear()
    try:
        yield Page(context), requests
    finally:
        context.close()


@contextmanager
def recorded(root: Path, trap: Trap) -> Iterator[Bad]:
    """The run, waiting for its end."""
    root.mkdir()
    addresses = (f"http://127.0.0.1:{trap.port}", FOREIGN, FOREIGN.removeprefix("http:"))
    made = Bad(root, "\n".join(map(reaching_out, addresses)))
    run = Thread(target=made.record)
    run.start()
    try:
        while not made.waits.wait(0.1):
            assert run.is_alive(), "the run ended before its last words"
        yield made
    finally:
        made.waits.set()
        made.go_on.set()
        run.join()


@pytest.fixture(scope="module", params=["live", "afterwards", "from a file"])
def seen(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    browser: Any,
    trap: Trap,
) -> Iterator[Seen]:
    root = tmp_path_factory.mktemp("hostile") / "ws"
    with ExitStack() as stack:
        with recorded(root, trap) as bad:
            if request.param == "live":
                running = stack.enter_context(viewer(root, RUN))
                page, requests = stack.enter_context(watched(browser, trap))
                page.open(running.address)
                assert page.text("#status") == "running"
                yield Seen(page, requests, trap, f"http://127.0.0.1:{running.port}/", True)
                return
            bad.go_on.set()
        if request.param == "afterwards":
            running = stack.enter_context(viewer(root, RUN))
            address, own = running.address, f"http://127.0.0.1:{running.port}/"
        else:
            ran = outrider(root, "view", RUN, "--export", "run.html", "--log-content")
            assert ran.code == 0, ran.err
            address = own = (root / "run.html").as_uri()
        page, requests = stack.enter_context(watched(browser, trap))
        page.open(address)
        assert page.text("#status") == "finished"
        yield Seen(page, requests, trap, own, False)


# Chromium asks its maker about the search field, as about any field of any page.
BROWSERS_OWN = "content-autofill.googleapis.com"
NOTHING_ACTS = "window.hacked === undefined && !document.title.includes('title')"
ELEMENTS = (
    "main :is(script, img, image, iframe, object, embed, video, audio, style, link, base, meta, form,"
    " input, [style*=url], [background], [srcdoc], a:not([href^='#']))"
)
UNFOLD = "document.querySelectorAll('main details').forEach(it => { it.open = true; })"


def unfolded(page: Page, view: str) -> str:
    """All that a view says once all in it was opened, twice: boxes are in boxes."""
    page.go(view)
    page.wait("document.querySelector('main').innerText.length > 10")
    if view == "#search":
        page.tab.fill("#search", "<img")
        page.wait("document.querySelector('main').innerText.includes('To-dos (1)')")
    for _ in range(2):
        page.value(UNFOLD)
        page.frames()
    # innerText leaves out what is out of sight.
    shown: str = page.value("document.querySelector('main').textContent")
    return shown


def test_the_trap_catches_who_reaches_out(browser: Any, trap: Trap) -> None:
    """A page without our care, with the same text, asks: by address, and by name, through the proxy."""
    for to in (f"http://127.0.0.1:{trap.port}", FOREIGN):
        with watched(browser, trap) as (page, requests):
            page.tab.set_content(reaching_out(to), wait_until="commit")
            deadline = time.monotonic() + 20
            while not any("/img" in line for line in trap.seen):
                assert time.monotonic() < deadline, trap.seen
                page.tab.wait_for_timeout(20)
            assert any(url.startswith(to) for url in requests)


def test_no_request_leaves_the_host(seen: Seen) -> None:
    """Every view, everything in it opened: what the browser asked for or tried to, as its own events,
    the trap and its console tell."""
    for view in VIEWS:
        shown = unfolded(seen.page, view)
        assert seen.page.value(f'document.querySelectorAll("{ELEMENTS}").length') == 0, view
        assert seen.page.value(NOTHING_ACTS), view
        assert not {"\x1b", "\u202e", "\u200f"} & set(shown), view
    seen.page.tab.wait_for_timeout(300)
    assert {url for url in seen.requests if not url.startswith(seen.own)} == set()
    assert len(seen.requests) >= 1
    assert [line for line in seen.trap.seen if BROWSERS_OWN not in line] == []
    # A request that the content policy stopped would be said here.
    assert seen.page.errors == []
    assert len(seen.page.tab.context.pages) == 1


def test_what_was_planted_is_to_be_read_as_it_is(seen: Seen) -> None:
    """Tags, colours and right-to-left marks, wherever they were planted: so that the test above cannot
    pass since nothing is there."""
    places = {
        "#": ["<img src=", "[U+202E]txt.exe"],
        "#agent/1": ["<img src=", "␛[31mred␛[0m", "[U+202E]txt.exe", "[U+200F]", "[U+2066]"],
        "#turns/0": ["<img src=", "@import url(", "␛[31mred␛[0m", "[U+202E]txt.exe", "Mind this"],
        "#turns/1": ["<svg xmlns=", "␛[31mred␛[0m", "[U+202E]txt.exe"],
        "#todos": ["<img src=", "[U+202E]txt.exe"],
        "#conclusions": ["<img src=", "␛[31mred␛[0m", "[U+202E]txt.exe"],
        "#tools": [f"<img src={FOREIGN}/name>"],
        "#time": ["<img src="],
        "#search": ["<img src=", "[U+202E]txt.exe"],
    }
    for view, words in places.items():
        # What an agent was sent comes a moment after its view.
        deadline = time.monotonic() + 20
        while missing := [each for each in words if each not in unfolded(seen.page, view)]:
            assert time.monotonic() < deadline, (view, missing)


def test_a_line_of_a_megabyte_is_text_in_pieces(seen: Seen) -> None:
    """The task and a conclusion, in the agent's page and in what it was sent: a piece at first, which says
    how much is left, and more of it on request."""
    for view, size in {"#turns/0/1": r"6\d,\d{3}", "#agent/0": r"1,0\d\d,\d{3}"}.items():
        if seen.is_live and view == "#agent/0":
            continue  # it has not concluded yet
        unfolded(seen.page, view)
        seen.page.wait("document.querySelector('main .text') !== null")
        box = (
            "[...document.querySelectorAll('main .text')].find(it => "
            f"/of {size} characters are left/.test(it.textContent))"
        )
        assert seen.page.value(f"(window.box = {box}) !== undefined"), view
        before = seen.page.value("window.box.textContent.length")
        assert before < 21_000
        seen.page.value("window.box.querySelector('button').click()")
        assert seen.page.value("window.box.textContent.length") > before + 19_000
        assert seen.page.value("document.querySelector('main').scrollWidth") <= 1_280
    for view in ("#", "#conclusions", "#events"):
        assert len(unfolded(seen.page, view)) < 60_000, view
