"""A run of 61 agents on two levels against a service that fails in every way, audited to the token."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Context, Limits, Report, run
from orchestrator.audit import audit
from orchestrator.events import Compacted, ModelFailed, ModelReplied
from orchestrator.journal import read_records
from orchestrator.ledger import Usage
from orchestrator.readings import Key, summarise, tokens_by
from orchestrator.rundir import RunDir
from orchestrator.testing.standin import Answer, Fault, Server, serve
from orchestrator.testing.standin.brains import Tree
from orchestrator.testing.standin.faults import Kind
from orchestrator.testing.standin.ledger import FIGURES, Row
from orchestrator.testing.standin.material import lookup
from tests.test_logs import faults

pytestmark = pytest.mark.asyncio

TREE = Tree(children=(6, 9), parallel=9, calls=2, kilobytes=2)
# The first leaf under each node goes on and on: it compacts, and reaches its limit of turns.
ENDLESS = dataclasses.replace(TREE, odd={0: "endless"})
KINDS: tuple[Kind, ...] = (
    *("cut", "overloaded", "silent_eof", "error_event", "reset", "html"),
    *("garbage", "reset_after_headers", "server_error", "garbage_bytes", "cut"),
)
FAULTS = [
    Fault("rate_limit", retry_after=0.01),
    Fault("cut", nth=2),
    *(Fault(kind, agent="general-*", nth=nth) for nth, kind in enumerate(KINDS, start=3)),
    Fault("cut", purpose="summary", nth=2),
    Fault("overloaded", purpose="handback"),
]


def brain(body: Mapping[str, Any]) -> Answer:
    return ENDLESS(body) if re.search(r"\[node 0\.\d\.0\]", json.dumps(body)) else TREE(body)


async def stormy(server: Server, root: Path) -> Report:
    return await run(
        TREE.task,
        model="claude-opus-5",
        base_url=server.base_url,
        root=root,
        tools=[lookup],
        limits=Limits(max_turns=30),
        context=Context(window=8_000, offload_at=1_800),
    )


def told(row: Row) -> dict[str, int]:
    return {figure: getattr(row, figure) for figure in FIGURES}


def of(usage: Usage | None) -> dict[str, int]:
    return {figure: getattr(usage or Usage(), figure) for figure in FIGURES}


async def test_the_audit_of_a_stormy_run_equals_the_servers_own_ledger(tmp_path: Path) -> None:
    """L1, L2, E1: 61 agents, retries, cut streams, compactions: agent by agent, request by request, every
    figure; and every line of its log fits the documented schema."""
    async with serve(brain, faults=FAULTS) as server:
        report = await stormy(server, tmp_path)
        rows = [row for row in server.ledger.rows if row.endpoint == "messages"]
    assert report.status == "finished"
    assert len(report.agents) == 61
    place = RunDir(tmp_path, report.run_id)
    records = list(read_records(place.journal))
    facts = [record.fact for record in records]
    assert sum(isinstance(fact, Compacted) for fact in facts) >= 6
    failed = [fact for fact in facts if isinstance(fact, ModelFailed)]
    assert len(failed) >= 12
    assert any(fact.usage for fact in failed)  # of cut streams, as far as they were told
    assert {fact.purpose for fact in facts if isinstance(fact, ModelReplied)} >= {
        *("agent", "summary", "handback")
    }

    done = audit(place)
    assert done.first is None
    assert done.ok
    assert [check.name for check in done.checks if not check.checked] == []

    # The server's ledger: the whole, each agent, each request.
    assert done.calls == len(rows)
    assert of(done.usage) == {f: sum(getattr(row, f) for row in rows) for f in FIGURES}
    agents = summarise(records, report.run_id).agents
    by_agent = server.ledger.by_agent()
    for agent in agents:
        assert of(agent.usage) == {f: by_agent[agent.agent_id][f] for f in FIGURES}
        assert agent.requests == by_agent[agent.agent_id]["requests"]
    served = {row.request_id: row for row in rows}
    for fact in facts:
        if isinstance(fact, ModelReplied | ModelFailed) and fact.request_id is not None:
            assert of(fact.usage) == told(served[fact.request_id])
    silent = [row for row in rows if not any(told(row).values())]
    assert len(done.unreported) == len(silent)
    keys: tuple[Key, ...] = ("agent", "model", "turn")
    for key in keys:
        by = tokens_by(records, key)
        assert sum((row.usage for row in by), Usage()) == done.usage

    # E1: after five reports every estimate is within a tenth of what was reported.
    own: dict[str, list[tuple[int, int]]] = {}
    for record in records:
        fact = record.fact
        if isinstance(fact, ModelReplied) and fact.purpose != "summary" and fact.usage:
            known = own.setdefault(record.agent_id, [])
            known.append((fact.estimate_tokens, fact.context_tokens))
    late = [pair for known in own.values() for pair in known[5:]]
    assert len(late) >= 100
    assert [pair for pair in late if abs(pair[0] - pair[1]) > 0.1 * pair[1]] == []

    lines = [json.loads(line) for line in place.log.read_text("ascii").splitlines()]
    assert len(lines) == len(records)
    assert [wrong for line in lines for wrong in faults(line)] == []
