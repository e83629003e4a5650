"""The viewer in a real browser: live, large, hostile, from a file; keys, phone, light and dark."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from orchestrator import Report, Request
from orchestrator import events as ev
from orchestrator.journal import read_records
from orchestrator.ledger import Usage
from orchestrator.rundir import RunDir
from orchestrator.testing import call, results
from tests.chromium import Page, chromium, tasks_ms, why_not
from tests.needs import needs
from tests.test_cli_process import outrider
from tests.viewing import (
    LONG_LINE,
    Fact,
    LongRead,
    Viewer,
    crowd,
    hostile,
    record_run,
    started,
    two_children,
    viewer,
    write_journal,
)

pytestmark = [
    pytest.mark.browser,
    needs("browser", why_not()),
]

VIEWS = ("#", "#agent/0", "#time", "#turns/0", "#todos", "#conclusions", "#tools", "#events")
AGENTS, EVENTS = 200, 20_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = Page(context)
    yield page
    context.close()


def apart(act: Callable[[], Any]) -> Any:
    """``act`` in a thread of its own: the browser's driver has an event loop in this one."""
    got: list[Any] = []
    thread = Thread(target=lambda: got.append(act()))
    thread.start()
    thread.join()
    return got[0]


def workspace(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    root = tmp_path_factory.mktemp(name) / "ws"
    root.mkdir()
    return root


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with runs of each kind: two children, a long one with compactions, a hostile one."""
    root = workspace(tmp_path_factory, "small")

    def record() -> None:
        record_run(root, two_children, run_id="team")
        LongRead().go(root, offload_at=None, run_id="long")
        record_run(root, hostile, run_id="hostile", task="a hostile task \x1b[31m<b>\u202e")

    apart(record)
    return root


@pytest.fixture(scope="module")
def team(small: Path) -> Iterator[Viewer]:
    with viewer(small, "team") as running:
        yield running


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a run of many agents and events."""
    root = workspace(tmp_path_factory, "large")
    apart(lambda: write_journal(root, crowd(AGENTS, EVENTS, tools=120, main_turns=300)))
    return root


@pytest.fixture(scope="module")
def large(crowded: Path) -> Iterator[Viewer]:
    with viewer(crowded) as running:
        yield running


# ── what it shows ──

# What needs the whole run replayed comes a moment later.
COSTLY = "document.querySelector('main').innerText.includes('Most costly tool')"


def test_the_first_screen_says_how_it_stands_and_where_the_tokens_went(
    page: Page, team: Viewer
) -> None:
    page.open(team.address)
    page.wait(COSTLY)
    shown = page.text()
    saved = json.loads(team.get("/accounts").body)["isolation"]["saved_tokens"]
    isolation = "Isolation cost" if saved < 0 else "Isolation saved"
    assert page.text("#status") == "finished"
    for words in ("Tokens", "Cost", "from the cache", "Most tokens", isolation):
        assert words in shown
    assert page.tab.locator(".agents [role=row][aria-level]").count() == 3
    assert page.errors == []


def test_every_view_draws_without_an_error(page: Page, team: Viewer) -> None:
    page.open(team.address)
    for view in VIEWS:
        page.go(view)
        page.wait("document.querySelector('main').innerText.length > 10")
        assert page.errors == [], view


def test_the_token_does_not_stay_in_the_address(page: Page, team: Viewer) -> None:
    page.open(team.address)
    assert team.token not in page.tab.url
    page.tab.reload()
    page.wait("document.querySelector('#status').textContent === 'finished'")


def test_no_request_leaves_the_host(page: Page, team: Viewer) -> None:
    page.open(team.address)
    for view in VIEWS:
        page.go(view)
    assert len(page.requests) > 8
    assert {url.partition("//")[2].partition("/")[0] for url in page.requests} == {
        f"127.0.0.1:{team.port}"
    }


def test_the_chart_shows_lines_and_marks_and_has_a_table(page: Page, small: Path) -> None:
    with viewer(small, "long") as running:
        page.open(running.address)
        page.go("#agent/0")
        page.wait("document.querySelectorAll('.chart .rule').length === 3")
        chart = page.tab.locator("svg.chart")
        assert "the same as a table below" in chart.get_attribute("aria-label")
        assert "compaction" in " ".join(page.tab.locator(".chart .mark title").all_text_contents())
        page.tab.click("text=As a table")
        page.wait("document.querySelectorAll('main table tbody tr').length > 30")
        assert "compaction:" in page.text("main table")


def test_a_turn_shows_its_sections_what_is_new_and_what_left(page: Page, small: Path) -> None:
    with viewer(small, "long") as running:
        page.open(running.address)
        page.go("#turns/0/1")
        page.wait("document.querySelector('.section') !== null")
        for _ in range(60):
            if "compaction 1" in page.text(".body"):
                break
            page.tab.keyboard.press("]")
        assert "gone since the turn before" in page.text(".body")
        assert "compaction 1, kept in .outrider/" in page.text(".body")
        turn = page.tab.url.rpartition("/")[2]
        page.tab.keyboard.press("[")
        assert page.tab.url.endswith(f"/{int(turn) - 1}")
        before = page.tab.locator(".body .block").count()
        page.tab.keyboard.press("c")
        assert page.tab.locator(".body .block").count() < before
        page.tab.locator(".body .block summary").last.click()
        page.wait("document.querySelector('.body .block .text') !== null")
        assert page.errors == []


# ── live ──


UPDATES = 6


@dataclass(frozen=True)
class Growing:
    """A figure of a view that grows as a run goes on. ``kind``: with which records; ``after``: what it is
    after some records of the run; ``act``: what the run does for the n-th time."""

    figure: str
    kind: type[ev.Fact]
    after: Callable[[Sequence[ev.Record]], int]
    act: Callable[[int], Any] = lambda n: call("ls")


def rows_of(kind: str) -> str:
    return f"document.querySelector('main .{kind}').getAttribute('aria-rowcount') - 1"


def counted(*kinds: type[ev.Fact]) -> Callable[[Sequence[ev.Record]], int]:
    return lambda records: sum(isinstance(record.fact, kinds) for record in records)


def tokens_of(records: Sequence[ev.Record]) -> int:
    usages = (r.fact.usage for r in records if isinstance(r.fact, ev.ModelReplied))
    return sum(usage.total_tokens for usage in usages if usage is not None)


CALLS = counted(ev.ModelReplied, ev.ToolReturned)
GROWING = {
    "#": Growing(
        "document.querySelector('.triple .much').firstChild.data.replaceAll(',', '')",
        *(ev.ModelReplied, tokens_of),
    ),
    "#agent/0": Growing(rows_of("calls"), ev.ToolReturned, CALLS),
    "#time": Growing(rows_of("calls"), ev.ToolReturned, CALLS),
    "#turns/0": Growing(rows_of("turnlist"), ev.ModelReplied, counted(ev.ModelReplied)),
    "#tools": Growing(
        "document.querySelector('.tools .row [role=gridcell]:nth-child(2)').textContent",
        *(ev.ToolReturned, counted(ev.ToolReturned)),
    ),
    "#todos": Growing(
        "document.querySelectorAll('main .todo').length",
        *(ev.TodosWritten, counted(ev.TodosWritten)),
        lambda n: call(
            "write_todos", todos=[{"content": f"{i}", "status": "pending"} for i in range(n)]
        ),
    ),
    "#conclusions": Growing(
        "document.querySelectorAll('main .text').length",
        *(ev.AgentEnded, counted(ev.AgentEnded)),
        lambda n: call("task", prompt=f"look for the {n}. time"),
    ),
    "#events": Growing(rows_of("events"), ev.ToolReturned, len),
}
# Notes by the page's own clock when a figure is to be read on it, so that nothing counts which only the test
# takes.
NOTE = """(() => {
    window.shown = [];
    const note = () => requestAnimationFrame(() => {
        let figure = 0;
        try { figure = +(FIGURE); } catch { return; }
        if (figure !== window.shown.at(-1)?.[1]) window.shown.push([Date.now() / 1000, figure]);
    });
    new MutationObserver(note).observe(document.querySelector('main'), {
        attributes: true, childList: true, subtree: true, characterData: true,
    });
    note();
})()"""


def delays_of_a_live_run(page: Page, root: Path, view: str) -> list[float]:
    """Seconds from each record that makes a view's figure grow until the page shows it. A call is made once
    what the one before led to is shown, so that no record waits with another."""
    root.mkdir()
    growing = GROWING[view]
    steps = [Event() for _ in range(UPDATES)]
    reports: list[Report] = []

    def script(request: Request) -> Any:
        if request.agent_type != "main":
            return "seen it"
        done = len(results(request))
        if done == UPDATES:
            return "the end"
        assert steps[done].wait(60)
        return [growing.act(done + 1)]

    run = Thread(target=lambda: reports.append(record_run(root, script)))
    run.start()
    journal = RunDir(root, "first").journal

    def after(count: int) -> int:
        """What the figure is after so many records of the kind, once they are there."""
        while True:
            records = list(read_records(journal))
            at = [r.seq for r in records if isinstance(r.fact, growing.kind)]
            if len(at) >= count:
                return growing.after(records[: at[count - 1]])
            assert run.is_alive()

    delays = []
    try:
        while not journal.is_file():
            assert run.is_alive()
        with viewer(root) as running:
            page.open(running.address)
            assert page.text("#status") == "running"
            page.go(view)
            page.value(NOTE.replace("FIGURE", growing.figure))
            for count, step in enumerate(steps, 1):
                step.set()
                figure = after(count)
                page.wait(f"window.shown.at(-1)?.[1] >= {figure}")
                shown = next(ts for ts, said in page.value("window.shown") if said >= figure)
                records = [r for r in read_records(journal) if isinstance(r.fact, growing.kind)]
                delays.append(shown - records[count - 1].ts)
            page.wait("document.querySelector('#status').textContent === 'finished'")
            page.tab.goto("about:blank")
    finally:
        for step in steps:
            step.set()
        run.join()
    assert [report.status for report in reports] == ["finished"]
    return delays


@pytest.mark.parametrize("view", GROWING)
def test_a_live_run_is_shown_within_two_seconds(page: Page, tmp_path: Path, view: str) -> None:
    """Every one of its updates in every view, by the clock, from the time in its record until it is drawn.
    The run may be made anew, twice, where the machine had other things to do; then, too, all of them
    count."""
    slowest = []
    for attempt in range(3):
        delays = delays_of_a_live_run(page, tmp_path / f"ws{attempt}", view)
        assert len(delays) == UPDATES
        slowest.append(max(delays))
        if slowest[-1] < 2.0:
            break
    assert min(slowest) < 2.0, f"the slowest update of each run, in seconds: {slowest}"
    assert page.errors == []


# ── large ──


def test_a_large_run_opens_and_only_what_is_in_sight_is_on_the_page(
    page: Page, large: Viewer
) -> None:
    page.open(large.address)
    page.wait("document.querySelector('#status').textContent === 'finished'")
    assert page.value("document.querySelector('.agents').getAttribute('aria-rowcount')") == "201"
    page.go("#events")
    page.wait("+document.querySelector('.events').getAttribute('aria-rowcount') > 19900")
    assert page.value("document.querySelectorAll('*').length") < 1_500


EVERYTHING = "+document.querySelector('.events')?.getAttribute('aria-rowcount') > 19900"


def opened(page: Page, address: str) -> float:
    """Seconds by the clock, from asking for the page until every event is on it."""
    page.tab.goto("about:blank")
    began = time.monotonic()
    page.tab.goto(f"{address}#events")
    page.wait(EVERYTHING)
    return time.monotonic() - began


def test_a_large_run_opens_within_three_seconds(page: Page, large: Viewer) -> None:
    """The best of three, since a machine may have other things to do; on a quiet one it takes a fifth
    of that. The server has read the run before."""
    opened(page, large.address)
    assert min(opened(page, large.address) for _ in range(3)) < 3.0
    assert page.errors == []


def test_a_large_run_that_was_never_read_opens_within_three_seconds(
    page: Page, crowded: Path
) -> None:
    """With a server that has just begun to answer, so that all of the run is still to be read: the best
    of three servers, by the clock, without the time in which the server stood in line for a processor
    that others held. On a quiet machine, where there is no such time, it takes a half of that."""

    def seconds() -> float:
        with viewer(crowded) as running:
            before = in_line_seconds(running.process.pid)
            took = opened(page, running.address) + before - in_line_seconds(running.process.pid)
            page.tab.goto("about:blank")
            return took

    assert min(seconds() for _ in range(3)) < 3.0
    assert page.errors == []


def in_line_seconds(pid: int) -> float:
    """How long the process was ready to run and did not, so far: by the kernel, where it counts that."""
    lines = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(line[1]) for line in lines) / 1e9


@pytest.mark.parametrize("read_before", [True, False])
def test_opening_a_large_run_takes_a_bounded_amount_of_processor_time(
    browser: Any, page: Page, crowded: Path, tmp_path: Path, read_before: bool
) -> None:
    """The server's and the page's together, until every event is there: what no other process changes
    much. The bound is about twice what it takes, as machines differ."""
    with viewer(crowded) as running:
        if read_before:
            opened(page, running.address)
        before = processor_seconds(running.process.pid)
        spent = sum(tasks_ms(browser, page, tmp_path, lambda: opened(page, running.address)))
        spent = spent / 1_000 + processor_seconds(running.process.pid) - before
    assert spent < (2.0 if read_before else 3.0)


def processor_seconds(pid: int) -> float:
    """What the process has used so far, by the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Each view with what makes it long, and how many places in it scroll.
LONG_VIEWS = {
    "#": 1,
    "#agent/0": 3,
    "#time": 2,
    "#turns/0/300": 2,
    "#todos": 1,
    "#conclusions": 1,
    "#tools": 1,
    "#events": 1,
    "#search": 2,
}
SCROLLING = """window.scrolling = [...document.querySelectorAll('main, main *')].filter(
    it => it.scrollHeight > it.clientHeight + 40 && /auto|scroll/.test(getComputedStyle(it).overflowY)
)"""


@pytest.mark.parametrize("view", LONG_VIEWS)
def test_scrolling_a_large_run_holds_no_task_over_100_ms(
    browser: Any, page: Page, large: Viewer, view: str, tmp_path: Path
) -> None:
    """Every place that scrolls in every view, to its end and back. By processor time: on the wall a task
    takes as long as a machine's other work lets it. (By the clock: ``benchmarks/viewer.py``.)"""
    page.tab.goto(f"{large.address}#events")
    page.wait(EVERYTHING)
    page.go(view)
    if view == "#search":
        page.tab.fill("#search", "0")
        page.wait("document.querySelector('main').innerText.includes('Agents (')")
    if view.startswith("#agent"):
        page.wait("document.querySelector('main .text') !== null")
        page.tab.click("text=As a table")
    if view.startswith("#turns"):
        page.wait("document.querySelector('.body .block') !== null")
    page.frames()
    places = page.value(f"({SCROLLING}).length")
    for place in range(places):
        scrolled = f"window.scrolling[{place}]"

        def there_and_back(scrolled: str = scrolled) -> None:
            for step in range(60):
                by = 700 if step < 40 else -900
                page.value(f"{scrolled}.scrollBy(0, {by}), {scrolled}.scrollBy({by}, 0)")
                page.frames(1)

        page.value(f"{scrolled}.scrollTop = 0")
        longest = max(tasks_ms(browser, page, tmp_path, there_and_back))
        assert longest < 100, (place, page.value(f"{scrolled}.className"))
        page.value(f"{scrolled}.scrollTop = 1e9")
        assert page.value(f"{scrolled}.scrollTop") > 30
    assert places >= LONG_VIEWS[view]
    assert page.errors == []


# ── hostile ──

HACKED = "window.hacked === undefined && document.title.indexOf('title') === -1"


def check_hostile(page: Page) -> None:
    page.wait("document.querySelector('main .text') !== null")
    shown = page.text("main")
    assert "<script>window.hacked = 1</script>" in shown
    assert "<img src=x onerror='window.hacked = 1'>" in shown
    assert "␛[31mred␛[0m" in shown
    assert "[U+202E]txt.exe" in shown
    assert page.value("document.querySelectorAll('main script, main img').length") == 0
    assert page.value(HACKED)


def test_a_hostile_conclusion_stays_text(page: Page, small: Path) -> None:
    """Tags, colours, right-to-left marks and a line of a megabyte."""
    with viewer(small, "hostile") as running:
        page.open(running.address)
        assert "␛[31m<b>[U+202E]" in page.text("main")
        page.go("#agent/0")
        check_hostile(page)
        assert page.value("document.querySelector('main .text').textContent.length") < 30_000
        left = page.text("main .text button")
        assert f"of {LONG_LINE:,}"[:6] in left
        page.tab.click("main .text button")
        assert page.value("document.querySelector('main .text').textContent.length") > 40_000
        page.go("#conclusions")
        check_hostile(page)
        for view in VIEWS:
            page.go(view)
            assert page.value(HACKED)
        assert page.errors == []


# ── from a file ──


@pytest.fixture(scope="module")
def exported(small: Path) -> dict[str, Path]:
    files = {}
    for run_id in ("team", "long", "hostile"):
        ran = outrider(small, "view", run_id, "--export", f"{run_id}.html", "--log-content")
        assert ran.code == 0, ran.err
        files[run_id] = small / f"{run_id}.html"
    return files


def test_the_export_opens_from_disk_and_shows_the_same(
    page: Page, team: Viewer, exported: dict[str, Path]
) -> None:
    page.open(team.address)
    page.wait(COSTLY)
    live = {}
    for view in VIEWS:
        page.go(view)
        page.wait("document.querySelector('main').innerText.length > 10")
        page.frames()
        live[view] = page.text()
    own = Page(page.tab.context)
    own.open(exported["team"].as_uri())
    for view in VIEWS:
        own.go(view)
        own.wait("document.querySelector('main').innerText.length > 10")
        own.frames()
        assert own.text() == live[view], view
    assert own.requests == [exported["team"].as_uri()]
    assert own.errors == []


def test_a_hostile_conclusion_stays_text_in_a_file_too(
    page: Page, exported: dict[str, Path]
) -> None:
    page.open(exported["hostile"].as_uri())
    page.go("#agent/0")
    check_hostile(page)
    assert page.errors == []


# ── for everybody ──


def test_everything_can_be_reached_by_keys(page: Page, team: Viewer) -> None:
    page.open(team.address)
    press = page.tab.keyboard.press
    press("?")
    assert page.value("document.querySelector('dialog').open")
    assert "next, previous row" in page.text("dialog")
    press("Escape")
    for number, title in enumerate(
        ("Overview", "Agent", "Time", "Turns", "To-dos", "Conclusions", "Tools", "Events"), 1
    ):
        press(str(number))
        page.wait(f"document.querySelector('nav [aria-current]').textContent === '{title}'")
    press("1")
    page.wait("document.activeElement.matches('.agents')")
    press("j")
    press("j")
    press("Enter")
    page.wait("location.hash === '#agent/1'")
    press("/")
    page.tab.keyboard.type("seen it")
    page.wait("document.querySelector('main').innerText.includes('Conclusions (2)')")
    press("Escape")


def test_the_tree_folds_and_sorts(page: Page, team: Viewer) -> None:
    page.open(team.address)
    rows = page.tab.locator(".agents [role=row][aria-rowindex]")
    assert rows.count() == 3
    page.tab.keyboard.press("j")
    page.tab.keyboard.press("ArrowLeft")
    assert rows.count() == 1
    page.tab.keyboard.press("ArrowRight")
    assert rows.count() == 3
    page.tab.click(".agents [role=columnheader] button:text('Tokens')")
    totals = [
        int(text.replace(",", ""))
        for text in page.tab.locator(".agents [role=gridcell]:nth-child(4)").all_inner_texts()
    ]
    assert totals == sorted(totals, reverse=True)
    assert page.value("document.querySelector('[aria-sort=descending]').dataset.sort") == "total"


def test_search_finds_agents_events_plans_and_conclusions(page: Page, team: Viewer) -> None:
    page.open(team.address)
    page.tab.fill("#search", "reviewer")
    page.wait("document.querySelector('main').innerText.includes('Agents (1)')")
    page.tab.fill("#search", "look")
    page.wait("document.querySelector('main').innerText.includes('To-dos (1)')")
    page.tab.fill("#search", "agent_spawned")
    page.wait("+document.querySelector('main .events').getAttribute('aria-rowcount') === 3")


# Of rows and their cells, what stands out to the right of its list.
CUT_OFF = """[...document.querySelectorAll('main .list')].flatMap(list => {
    const edge = list.getBoundingClientRect().right + 1;
    return [...list.querySelectorAll('[role=gridcell], [role=columnheader]')]
        .filter(cell => cell.getBoundingClientRect().right > edge).map(cell => cell.textContent);
})"""


@pytest.mark.parametrize("width", [375, 390, 704, 768, 990, 1280])
def test_no_screen_needs_scrolling_sideways_and_no_column_is_cut_off(
    browser: Any, exported: dict[str, Path], width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 700}, has_touch=True)
    try:
        page = Page(context)
        page.open(exported["long"].as_uri())
        for view in VIEWS:
            page.go(view)
            page.wait("document.querySelector('main').innerText.length > 10")
            assert page.value("document.documentElement.scrollWidth") <= width, view
            assert page.value("document.querySelector('main').scrollWidth") <= width, view
            assert page.value(CUT_OFF) == [], view
    finally:
        context.close()


# ── on a phone ──

# Controls that a finger cannot reach or hit: outside of the page's width once they are scrolled to, under
# something else, or smaller than 24 pixels, where they are no words in a line of text.
OUT_OF_REACH = """[...document.querySelectorAll(
    'header :is(a, button, input), main :is(button, select, summary, .list), #hint code'
)].filter(it => it.checkVisibility()).map(it => {
    it.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    const box = it.getBoundingClientRect(), x = box.left + Math.min(box.width, 40) / 2;
    const hit = document.elementFromPoint(x, box.top + Math.min(box.height, 40) / 2);
    const small = it.matches('header *, .bar *') && (box.width < 24 || box.height < 24);
    const outside = box.left < -1 || box.right > innerWidth + 1;
    return outside || small || !hit || !(it.contains(hit) || hit.contains(it)) ? it.outerHTML : null;
}).filter(Boolean)"""
# Words that do not stand out from what is behind them: less than 4.5 to 1, as WCAG asks.
FAINT = """(() => {
    const light = it => {
        const [r, g, b] = it.map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const read = text => text.match(/[\\d.]+/g).map(Number);
    const behind = it => {
        for (let at = it; at; at = at.parentElement) {
            const found = read(getComputedStyle(at).backgroundColor);
            if (found.length === 3 || found[3] === 1) return found;
        }
        return [255, 255, 255];
    };
    const said = [...document.querySelectorAll('body *')].filter(it => it.checkVisibility()
        && [...it.childNodes].some(node => node.nodeType === 3 && node.data.trim()) && !it.closest('svg'));
    return said.map(it => {
        const [one, other] = [light(read(getComputedStyle(it).color)), light(behind(it))].sort();
        return (other + 0.05) / (one + 0.05) < 4.5 ? it.outerHTML.slice(0, 200) : null;
    }).filter(Boolean);
})()"""


@pytest.fixture(scope="module")
def going_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A run with children and a plan that goes on for as long as somebody looks at it."""
    root, waits, go_on = workspace(tmp_path_factory, "live"), Event(), Event()

    def script(request: Request) -> Any:
        if request.agent_type == "main" and len(results(request)) == 3:
            waits.set()
            assert go_on.wait(300)
        return two_children(request)

    run = Thread(target=lambda: record_run(root, script))
    run.start()
    try:
        while not waits.wait(0.1):
            assert run.is_alive(), "the run ended"
        with viewer(root) as running:
            yield running
    finally:
        go_on.set()
        run.join()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 412])
def test_the_live_page_can_be_read_and_used_on_a_phone(
    browser: Any, going_on: Viewer, width: int, scheme: str
) -> None:
    """While the run goes on: no scrolling sideways, every control within reach of a finger, words that
    stand out from what is behind them."""
    context = browser.new_context(
        viewport={"width": width, "height": 700},
        color_scheme=scheme,
        has_touch=True,
        is_mobile=True,
        device_scale_factor=2,
    )
    try:
        page = Page(context)
        page.open(going_on.address)
        assert page.text("#status") == "running"
        for view in (*VIEWS, "#search"):
            page.go(view)
            if view == "#search":
                page.tab.fill("#search", "e")
            page.wait("document.querySelector('main').innerText.length > 10")
            page.frames()
            assert page.value("document.documentElement.scrollWidth") <= width, view
            assert page.value("document.querySelector('main').scrollWidth") <= width, view
            assert page.value("innerWidth") == width, view
            assert page.value(OUT_OF_REACH) == [], view
            assert page.value(FAINT) == [], view
        page.tab.tap("nav a:text('Agent')")
        page.wait("document.querySelector('nav [aria-current]').textContent === 'Agent'")
        page.tab.tap("#keys")
        assert page.value("document.querySelector('dialog').getBoundingClientRect().right") <= width
        page.tab.tap("dialog button")
        background = page.value("getComputedStyle(document.body).backgroundColor")
        page.tab.tap("#theme")
        assert page.value("getComputedStyle(document.body).backgroundColor") != background
        assert page.errors == []
    finally:
        context.close()


LONG_NAME = "a-name-that-nobody-would-choose-for-an-agent-but-somebody-did-" * 2
FAILED = "there is no room for this request at the moment; come back later"


def awkward() -> Iterator[Fact]:
    """A run that crashed: an agent with a long name, one that failed, one that said nothing."""
    task = ev.RunStarted(task="do it " * 900, task_chars=5_400, model="m", version="0", root="/")
    yield "main", 0, task
    yield "main", 0, started("main")
    for name in (f"{LONG_NAME}-1", "writer-2", "reviewer-3"):
        yield name, 0, started(name, "main", brief="word " * 90)
    reply = ev.ModelReplied(
        model="claude-sonnet-4-5", blocks=[], stop_reason="end_turn", usage=Usage(400, 9, 9_000)
    )
    yield f"{LONG_NAME}-1", 1, reply
    failure = ev.ModelFailed(model="claude-sonnet-4-5", kind="overloaded", message=FAILED)
    yield "writer-2", 1, failure
    for name, status, reason in (
        ("writer-2", "failed", "provider:overloaded"),
        ("reviewer-3", "empty", "no_answer"),
    ):
        usage = Usage()
        yield (
            *(name, 1),
            ev.AgentEnded(status=status, reason=reason, turns=1, tool_calls=0, usage=usage),  # type: ignore[arg-type]
        )


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of files: an awkward run, and one of which nothing but its beginning is recorded."""
    root = workspace(tmp_path_factory, "odd")
    runs = {"awkward": list(awkward()), "empty": list(awkward())[:1]}
    for run_id, facts in runs.items():
        apart(lambda facts=facts, run_id=run_id: write_journal(root, facts, run_id))  # type: ignore[misc]
        ran = outrider(root, "view", run_id, "--log-content", "--export", f"{run_id}.html")
        assert ran.code == 0, ran.err
    return {run_id: (root / f"{run_id}.html").as_uri() for run_id in runs}


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("run_id", ["awkward", "empty"])
def test_long_names_failures_and_nothing_at_all_have_their_place(
    browser: Any, odd: dict[str, str], run_id: str, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 700})
    try:
        page = Page(context)
        page.open(odd[run_id])
        for view in VIEWS:
            page.go(view)
            page.wait("document.querySelector('main').innerText.length > 3")
            assert page.value("document.documentElement.scrollWidth") <= width, view
            assert page.value("document.querySelector('main').scrollWidth") <= width, view
        assert page.errors == []
    finally:
        context.close()


def test_an_agent_that_failed_says_why(page: Page, odd: dict[str, str]) -> None:
    page.open(odd["awkward"])
    assert page.text("#status") == "crashed"
    assert "failed (provider:overloaded)" in page.text()
    page.go("#agent/2")
    page.wait("document.querySelector('main').innerText.includes('Last error')")
    assert FAILED in page.text("main .facts")


def test_views_of_a_run_without_agents_say_that_there_is_nothing(
    page: Page, odd: dict[str, str]
) -> None:
    page.open(odd["empty"])
    assert "No agent has started yet." in page.text()
    assert "0 agents" in page.text()
    said = {"#turns/0": "No call yet.", "#todos": "No agent has", "#tools": "No tool was called"}
    for view, words in said.items():
        page.go(view)
        page.wait(f"document.querySelector('main').innerText.includes('{words}')")


def test_who_wants_no_motion_gets_none(browser: Any, odd: dict[str, str]) -> None:
    moves = "[...document.querySelectorAll('main *')].some(n => getComputedStyle(n).animationName !== 'none')"
    for wish, moving in (("no-preference", True), ("reduce", False)):
        context = browser.new_context(reduced_motion=wish)
        try:
            page = Page(context)
            page.open(odd["awkward"])
            page.value("document.querySelector('.dot').classList.add('running')")
            assert page.value(moves) is moving
        finally:
            context.close()


def test_the_frame_around_a_list_is_for_who_uses_keys(page: Page, team: Viewer) -> None:
    page.open(team.address)
    page.wait("document.activeElement.matches('.agents')")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.value(outline) == "none"
    page.tab.keyboard.press("j")
    assert page.value(outline) != "none"


def test_without_texts_the_page_says_how_to_have_them(browser: Any, small: Path) -> None:
    """Sizes stand where texts would, and search finds names still."""
    with viewer(small, "team", texts=False) as running:
        context = browser.new_context()
        try:
            page = Page(context)
            page.open(running.address)
            assert page.text("#hint code") == "outrider view team --log-content"
            assert "11 characters · text is shown with --log-content" in page.text()
            for view in VIEWS:
                page.go(view)
                page.wait("document.querySelector('main').innerText.length > 10")
                assert "merged" not in page.text()
            page.tab.fill("#search", "explorer")
            page.wait("document.querySelector('main').innerText.includes('Agents (1)')")
            assert page.errors == []
        finally:
            context.close()


def test_light_and_dark_follow_the_system_and_the_key(browser: Any, team: Viewer) -> None:
    context = browser.new_context(color_scheme="dark")
    try:
        page = Page(context)
        page.open(team.address)
        color = "getComputedStyle(document.body).backgroundColor"
        dark = page.value(color)
        page.tab.keyboard.press("d")
        light = page.value(color)
        assert dark != light
        page.tab.keyboard.press("d")
        assert page.value(color) == dark
    finally:
        context.close()


def test_every_control_has_a_name_and_every_list_a_role(page: Page, team: Viewer) -> None:
    page.open(team.address)
    for view in VIEWS:
        page.go(view)
        nameless = page.value(
            "[...document.querySelectorAll('button, input, select, [role=img], [role=grid],"
            " [role=treegrid], [role=application]')].filter(node => !(node.getAttribute('aria-label')"
            " || node.textContent.trim() || node.labels?.length)).map(node => node.outerHTML)"
        )
        assert nameless == []
