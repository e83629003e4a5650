"""The audit: what is right passes, and whatever is broken is found and named, first place first."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Context, Reply, Request, run
from orchestrator.audit import Audit, audit
from orchestrator.cli import main
from orchestrator.errors import Overloaded
from orchestrator.events import Event, MessageAdded, ModelReplied, RunEnded
from orchestrator.journal import read_records, salvage
from orchestrator.journal.rows import INSERT, row_of
from orchestrator.journal.seam import Entry
from orchestrator.ledger import Usage
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call
from tests.test_cli_process import Cli, cli

__all__ = ["cli"]

RUN = "first"


def page(number: int) -> str:
    """A page of a long document.

    Args:
        number: Which page.
    """
    return f"page {number}: " + f"word{number} " * (580 if number % 5 else 2_000)


class Script:
    """Main starts a child that fails once; then it reads pages until two compactions were made."""

    def __init__(self) -> None:
        self.failures = 0
        self.answers = 0

    def __call__(self, request: Request) -> Any:
        if request.purpose == "summary":
            return "Pages were read."
        if request.agent_type != "main":
            if self.failures == 0:
                self.failures += 1
                raise Overloaded("no room", retry_after=0.01)
            return self.named(
                request, [{"type": "text", "text": "The child saw key sk-live-0123456789abcdef01."}]
            )
        self.answers += 1
        if self.answers == 1:
            return self.named(
                request, [call("task", prompt="look"), {"type": "text", "text": "one"}]
            )
        if self.answers < 85:
            return self.named(request, [call("page", number=self.answers)])
        return self.named(request, [{"type": "text", "text": "All is read."}])

    def named(self, request: Request, content: list[dict[str, Any]]) -> Reply:
        number = self.answers * 10 + self.failures
        uses = [block for block in content if block["type"] == "tool_use"]
        for use in uses:
            use["id"] = f"call_{number}"
        usage = Usage(len(request.body) // 4 - 50, 10, 20, 30, 10, 20)
        stop = "tool_use" if uses else "end_turn"
        return Reply(content, stop, usage, request_id=f"req_{number}", message_id=f"msg_{number}")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a run of two agents, with offloads, compactions and a failed call."""
    root = tmp_path_factory.mktemp("recorded")

    async def go() -> None:
        model = ScriptedModel(Script(), window=16_000)
        report = await run("read", model=model, root=root, run_id=RUN, tools=[page],
                           context=Context(window=16_000, keep_turns=2))  # fmt: skip
        assert report.status == "finished"
        assert report.agents[0].compactions >= 2
        assert report.agents[0].offloaded >= 5

    anyio.run(go)
    return root


@pytest.fixture
def root(recorded: Path, tmp_path: Path) -> Path:
    """A copy of it to break."""
    return Path(shutil.copytree(recorded, tmp_path / "ws"))


def audited(root: Path) -> Audit:
    return audit(RunDir(root, RUN))


def check(root: Path, name: str) -> Any:
    return next(check for check in audited(root).checks if check.name == name)


def rewrite(root: Path, seq: int, change: Callable[[Event], Event]) -> None:
    """Another event in a record's place, with a digest that is right: a lie, not an accident."""
    journal = RunDir(root, RUN).journal
    record = next(r for r in read_records(journal) if r.seq == seq)
    fact = change(record.fact)
    data = json.dumps(fact.model_dump()).encode()
    row = row_of(seq, record.ts, Entry(record.agent_id, record.turn, fact), data)
    connection = sqlite3.connect(journal)
    with connection:
        connection.execute("DELETE FROM records WHERE seq = ?", (seq,))
        connection.execute(INSERT, row)
    connection.close()


def test_records_that_follow_from_nothing_are_found_and_nothing_crashes(
    root: Path, cli: Cli
) -> None:
    """Each as it was written, by its digest, and yet no run wrote them so: the first reply is another's."""
    first = seqs(root, ModelReplied)[0]
    rewrite(root, first, lambda fact: MessageAdded(text="hm", origin="user"))
    states = check(root, "states")
    assert not states.ok
    assert any("does not follow from those before it" in str(each) for each in states.problems)
    ran = cli("audit", RUN)
    assert (ran.code, "unexpected" in ran.err) == (1, False)
    for by in ("tool", "agent"):
        shown = cli("tokens", RUN, "--by", by)
        assert "unexpected" not in shown.err


def seqs(root: Path, kind: type[Any]) -> list[int]:
    return [r.seq for r in read_records(RunDir(root, RUN).journal) if isinstance(r.fact, kind)]


# ── what is right ──


def test_a_whole_run_passes_and_names_what_was_not_reported(recorded: Path) -> None:
    """L2: sums proven, the call that told no tokens named with its agent, turn and kind."""
    done = audited(recorded)
    assert [(c.name, c.ok) for c in done.checks] == [
        (name, True)
        for name in ("journal", "responses", "sums", "states", "offloaded", "archives",
                     "conclusions", "log")
    ]  # fmt: skip
    assert all(c.checked > 0 for c in done.checks)
    (call,) = done.unreported
    assert (call.turn, call.event, call.kind) == (1, "model_failed", "overloaded")
    assert call.agent_id.startswith("general-")
    assert done.first is None
    assert done.ok


def test_the_command_says_so_and_ends_with_0(cli: Cli, root: Path) -> None:
    ran = cli("audit", RUN)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("\nok ") == 8
    assert "Of 1 calls the provider reported no tokens:\n  general-" in ran.out
    found = json.loads(cli("audit", RUN, "--json").out)
    assert (found["ok"], found["first"], found["status"]) == (True, None, "finished")
    assert found["records"] == {"whole": [[1, found["checks"][0]["checked"]]], "lost": []}
    assert found["unreported"][0]["kind"] == "overloaded"


def test_a_run_without_its_end_is_whole_as_far_as_it_came(recorded: Path, tmp_path: Path) -> None:
    """L4: a process that died after its last record but before the log had it is no damage."""
    seen: list[Audit] = []

    async def go() -> None:
        def look(records: object) -> None:
            seen.append(audit(RunDir(tmp_path, "live")))

        await run("x", model=ScriptedModel(lambda _: "y"), root=tmp_path, run_id="live",
                  observers=[look])  # fmt: skip

    anyio.run(go)
    assert [done.status for done in seen[:-1]] == ["running"] * (len(seen) - 1)
    assert all(done.ok for done in seen)
    log = RunDir(tmp_path, "live").log
    lines = log.read_bytes().splitlines(keepends=True)
    ended = seqs_of(RunDir(tmp_path, "live"), RunEnded)
    connection = sqlite3.connect(RunDir(tmp_path, "live").journal)
    with connection:
        connection.execute("DELETE FROM records WHERE seq = ?", (ended[0],))
    connection.close()
    log.write_bytes(b"".join(lines[:-3]) + lines[-3][:20])
    done = audit(RunDir(tmp_path, "live"))
    assert (done.ok, done.status) == (True, "crashed")
    assert "a resumed run writes the rest" in " ".join(done.checks[-1].notes)


def seqs_of(place: RunDir, kind: type[Any]) -> list[int]:
    return [r.seq for r in read_records(place.journal) if isinstance(r.fact, kind)]


def test_a_journal_without_hashes_says_what_is_not_checked(root: Path) -> None:
    """An older journal: the files' presence is checked, and it is said that the rest is not."""
    from orchestrator.events import Offloaded

    (root / RunDir(root, RUN).log).unlink()
    for seq in seqs(root, Offloaded):
        rewrite(root, seq, lambda fact: fact.model_copy(update={"sha256": None}))
    offloaded = check(root, "offloaded")
    assert offloaded.ok
    assert "what is in them is not checked" in offloaded.notes[0]


# ── what is broken ──


def test_a_changed_byte_in_a_record_is_found(root: Path) -> None:
    """The record is named, all others can still be read, and its line in the log is told of."""
    journal = RunDir(root, RUN).journal
    data = journal.read_bytes()
    at = data.index(b'"tool":"page"')  # short events are not packed
    journal.write_bytes(data[:at] + b'"tool":"pace"' + data[at + 13 :])
    done = audited(root)
    (lost,) = done.lost
    assert lost[2] == "not as it was written"
    assert str(done.first) == f"journal: record {lost[0]}: not as it was written"
    total = seqs_in_log(root)
    assert done.whole == [(1, lost[0] - 1), (lost[0] + 1, total)]
    assert "1 lines are of records that the journal has lost" in done.checks[-1].notes


def seqs_in_log(root: Path) -> int:
    return len(RunDir(root, RUN).log.read_bytes().splitlines())


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.987])
def test_a_cut_file_is_found_and_what_is_whole_is_told(root: Path, keep: float) -> None:
    """L5: also where the log alone knows how many records there were."""
    journal = RunDir(root, RUN).journal
    size = journal.stat().st_size
    with journal.open("r+b") as file:
        file.truncate(int(size * keep))
    done = audited(root)
    total = seqs_in_log(root)
    assert not done.ok
    assert done.lost
    assert sum(last - first + 1 for first, last in done.whole) + sum(
        last - first + 1 for first, last, _ in done.lost
    ) == total  # fmt: skip
    assert (keep < 0.3) or done.whole


@pytest.mark.parametrize("seed", range(12))
def test_no_flipped_byte_crashes_the_audit_and_none_in_a_record_is_missed(
    root: Path, seed: int
) -> None:
    """Bytes flipped all over the file: found wherever they change what is read."""
    import random

    journal = RunDir(root, RUN).journal
    before = [(r.record, r.written) for r in salvage(journal).whole]
    data = bytearray(journal.read_bytes())
    randomly = random.Random(seed)
    for _ in range(8):
        data[randomly.randrange(100, len(data))] ^= 1 << randomly.randrange(8)
    journal.write_bytes(bytes(data))
    done = audited(root)
    after = [(r.record, r.written) for r in salvage(journal).whole]
    assert done.ok == (after == before) or not done.ok
    assert all(each in before for each in after)


@pytest.mark.parametrize("what", ["empty", "text", "header", "gone"])
def test_a_journal_that_cannot_be_read_is_one_sentence(cli: Cli, root: Path, what: str) -> None:
    journal = RunDir(root, RUN).journal
    if what == "empty":
        journal.write_bytes(b"")
    elif what == "text":
        journal.write_bytes(b"no database " * 400)
    elif what == "header":
        journal.write_bytes(b"\0" * 100 + journal.read_bytes()[100:])
    else:
        journal.unlink()
    ran = cli("audit", RUN)
    assert ran.code == (2 if what == "gone" else 1)
    assert "Traceback" not in ran.err + ran.out
    assert len(ran.err.splitlines()) == 1


def test_a_missing_row_is_named(root: Path) -> None:
    connection = sqlite3.connect(RunDir(root, RUN).journal)
    with connection:
        connection.execute("DELETE FROM records WHERE seq IN (7, 8, 20)")
    connection.close()
    done = audited(root)
    assert [each[:2] for each in done.lost] == [(7, 8), (20, 20)]
    assert str(done.first) == "journal: records 7–8: missing"


def test_records_that_only_the_log_has_are_missed(root: Path) -> None:
    """The newest records deleted: the journal alone cannot know of them."""
    connection = sqlite3.connect(RunDir(root, RUN).journal)
    with connection:
        connection.execute("DELETE FROM records WHERE seq > (SELECT max(seq) - 3 FROM records)")
    connection.close()
    total = seqs_in_log(root)
    assert [each[:2] for each in audited(root).lost] == [(total - 2, total)]


def test_a_response_counted_twice_is_found(root: Path) -> None:
    """Each response once: the same answer of the provider's in two records."""
    first, second = seqs(root, ModelReplied)[:2]
    facts = {r.seq: r.fact for r in read_records(RunDir(root, RUN).journal)}
    rewrite(root, second, lambda _: facts[first])
    responses = check(root, "responses")
    assert f"record {second}: request req_" in str(responses.problems[0])
    assert str(responses.problems[0]).endswith(f"was counted before, in record {first}")


def test_figures_that_do_not_add_up_are_found(root: Path) -> None:
    """Usage of one call changed, digests right: the ends say another sum, and the log another line."""
    seq = seqs(root, ModelReplied)[3]

    def more(fact: Event) -> Event:
        assert isinstance(fact, ModelReplied)
        assert fact.usage is not None
        usage = fact.usage + Usage(output_tokens=1)
        return fact.model_copy(update={"usage": usage})

    rewrite(root, seq, more)
    done = audited(root)
    broken = [c.name for c in done.checks if not c.ok]
    assert broken == ["sums", "states", "log"]
    assert "its usage is not the sum of the calls before it: output_tokens are" in str(done.first)


def files(root: Path, pattern: str) -> list[Path]:
    found = sorted(RunDir(root, RUN).folder.rglob(pattern))
    assert found
    return found


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("results/*page*", "offloaded"),
        ("history.md", "archives"),
        ("conclusion.md", "conclusions"),
        ("result.md", "conclusions"),
        ("log.jsonl", "log"),
    ],
)
@pytest.mark.parametrize("how", ["deleted", "changed", "emptied", "a folder", "a link outside"])
def test_a_file_that_is_not_as_it_was_is_named(
    cli: Cli, root: Path, pattern: str, name: str, how: str
) -> None:
    """Exit code 1, and the first broken place is that file."""
    path = files(root, pattern)[0]
    before = path.read_bytes()
    path.unlink()
    if how == "changed":
        middle = len(before) // 2
        path.write_bytes(before[:middle] + b"#" + before[middle + 1 :])
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "a folder":
        path.mkdir()
    elif how == "a link outside":
        outside = root.parent / "outside"
        outside.write_bytes(before)
        path.symlink_to(outside)
    if name == "log" and how == "a link outside":
        return  # the log is what it says, wherever it lies
    ran = cli("audit", RUN, "--json")
    assert [c["name"] for c in json.loads(ran.out)["checks"] if not c["ok"]] == [name]
    assert ran.code == 1
    assert ran.err.startswith(f"outrider: audit of {RUN}: first broken place: {name}: ")


EDITS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a line deleted": lambda lines: lines[:5] + lines[6:],
    "two lines swapped": lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]],
    "a line twice": lambda lines: [*lines[:5], lines[4], *lines[5:]],
    "a figure changed": lambda lines: [edit(line, b'"input_tokens":', b'"input_tokens":1') for line in lines],
    "a field added": lambda lines: [edit(line, b'"event":', b'"extra":1,"event":') for line in lines],
    "a field removed": lambda lines: [edit(line, b',"is_error":false', b"") for line in lines],
    "a type changed": lambda lines: [edit(line, b'"is_error":false', b'"is_error":0') for line in lines],
    "an agent renamed": lambda lines: [edit(line, b'"agent_type":"main"', b'"agent_type":"mine"') for line in lines],
    "a line of nonsense": lambda lines: [*lines[:5], b"{]\n", *lines[5:]],
    "an empty line": lambda lines: [*lines[:5], b"\n", *lines[5:]],
    "torn at its end": lambda lines: [*lines[:-1], lines[-1][:-5]],
    "its end missing": lambda lines: lines[:-2],
    "a line more": lambda lines: [*lines, lines[-1]],
}  # fmt: skip


def edit(line: bytes, old: bytes, new: bytes) -> bytes:
    return line.replace(old, new, 1) if b'"turn":3' in line or b'"turn":4' in line else line


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS.keys())
def test_an_edited_log_is_found(root: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path = RunDir(root, RUN).log
    lines = path.read_bytes().splitlines(keepends=True)
    edited = change(lines)
    assert edited != lines
    path.write_bytes(b"".join(edited))
    done = audited(root)
    assert [c.name for c in done.checks if not c.ok] == ["log"] or done.lost
    assert not done.ok


def test_a_log_with_content_is_checked_too_and_secrets_in_it_are_no_edits(tmp_path: Path) -> None:
    """Texts are compared around what was taken out, also what only that environment knew."""

    async def go() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MY_TOKEN", "tuesday-afternoon")
            await run("say tuesday-afternoon and sk-live-0123456789abcdef01",
                      model=ScriptedModel(lambda _: "tuesday-afternoon it is"),
                      root=tmp_path, run_id=RUN, log_content=True)  # fmt: skip

    anyio.run(go)
    log = check(tmp_path, "log")
    assert log.ok
    assert "a secret was taken out" in log.notes[0]
    path = RunDir(tmp_path, RUN).log
    path.write_text(path.read_text().replace("it is", "it was"))
    assert not check(tmp_path, "log").ok


def test_problems_hold_none_of_the_content(root: Path) -> None:
    """What is wrong is said without repeating what people and models wrote."""
    path = files(root, "conclusion.md")[0]
    path.write_text("something else")
    shown = json.dumps(audited(root).as_json())
    assert "sk-live" not in shown
    assert "something else" not in shown


def test_a_path_out_of_the_workspace_is_not_followed(root: Path) -> None:
    """A journal from elsewhere cannot make the audit read what is not the run's."""
    from orchestrator.events import Offloaded

    seq = seqs(root, Offloaded)[0]
    rewrite(root, seq, lambda fact: fact.model_copy(update={"path": "../../../etc/hostname"}))
    assert "is not in the workspace" in str(check(root, "offloaded").problems[0])


def test_an_event_of_a_later_version_is_said_to_be_that(root: Path) -> None:
    class Later(MessageAdded):
        event: Any = "from_the_future"

    rewrite(root, 5, lambda _: Later(text="x", origin="user"))
    assert "written by a version of Outrider that this one does not know" in str(
        audited(root).first
    )


def test_an_unknown_run_is_exit_code_2(root: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr("sys.argv", ["outrider", "audit", "nosuch"])
        assert main() == 2
