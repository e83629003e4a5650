"""docs/local-models.md is true: its command runs over a server that has less than the provider's, and what
it says of keys, windows, names and messages is what the code does."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Limits, run
from orchestrator.context import window_for
from orchestrator.testing.standin import Fault, Settings, say, serve
from subagents import load
from tests.test_cli_process import Ran, clean_environment, cli, root
from tests.test_docs import ROOT, blocks
from tests.test_docs_commands import commands_in
from tests.test_docs_troubleshooting import texts
from tests.warm import WARM

__all__ = ["cli", "root"]
PAGE = ROOT / "docs/local-models.md"
SMALL = Settings(cache=False, count_tokens=False, model_list=False)
pytestmark = pytest.mark.asyncio


async def carried_out(root: Path, line: str, base_url: str) -> Ran:
    words = [base_url if word == "http://127.0.0.1:8080" else word for word in shlex.split(line)]
    process = await asyncio.create_subprocess_exec(
        *(*WARM, *words[1:]),
        cwd=root,
        env=clean_environment(root.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def test_the_command_needs_no_key_and_no_list_of_models(root: Path) -> None:
    (line,) = commands_in("".join(blocks(PAGE, "sh")))
    async with serve(lambda body: say("There."), settings=SMALL) as server:
        ran = await carried_out(root, line, server.base_url)
        assert (ran.code, ran.out) == (0, "There.\n")
        assert {row.model for row in server.ledger.rows} == {"my-model"}
        wrong = await carried_out(root, line, f"{server.base_url}/v1")
        assert "has no model my-model, or that is not the address of a Messages API" in wrong.err


async def test_its_settings_send_every_definition_to_that_server(root: Path) -> None:
    (settings,) = blocks(PAGE, "toml")
    async with serve(lambda body: say("There."), settings=SMALL) as server:
        (root / ".outrider/agents").mkdir(parents=True)
        (root / ".outrider/config.toml").write_text(
            settings.replace("http://127.0.0.1:8080", server.base_url)
        )
        file = root / ".outrider/agents/small.md"
        file.write_text("---\nname: small\ndescription: x\nmodel: haiku\n---\nSay it.\n")
        assert load(file).problems == []
        ran = await carried_out(root, "outrider run 'Say it' --agent small", "")
        assert ran.code == 0, ran.err
        assert {row.model for row in server.ledger.rows} == {"my-model"}


async def test_an_unknown_name_has_the_window_that_the_page_says() -> None:
    said = re.search(r"taken for ([\d,]+) tokens", PAGE.read_text())
    assert said is not None
    assert window_for("my-model").window == int(said[1].replace(",", ""))


async def test_a_cost_limit_is_refused_and_a_token_limit_is_not(root: Path) -> None:
    from orchestrator import ConfigError

    async with serve(lambda body: say("There."), settings=SMALL) as server:
        given: dict[str, Any] = {"model": "my-model", "base_url": server.base_url, "root": root}
        with pytest.raises(ConfigError, match="no price is known for my-model"):
            await run("Say it", limits=Limits(max_cost=1.0), **given)
        report = await run("Say it", limits=Limits(max_tokens=100_000), **given)
        assert report.status == "finished"


async def test_a_page_of_a_proxy_is_an_invalid_reply(root: Path) -> None:
    async with serve(lambda body: say("x"), faults=[Fault("garbage", times=None)]) as server:
        report = await run("Say it", model="my-model", base_url=server.base_url, root=root)
    assert report.reason == "provider:invalid_reply"
    assert "`provider:invalid_reply`" in PAGE.read_text()


async def test_its_messages_are_texts_of_the_code() -> None:
    said = re.findall(r"^\| `([^`]+…[^`]*)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(said) >= 4
    for message in said:
        pattern = ".*".join(re.escape(part) for part in message.split("…"))
        assert re.search(pattern, texts()), message
