"""The benchmarks' one command works, part by part, in its smallest size. Nothing is timed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(__file__).parent.parent / "benchmarks" / "run.py"


def benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Nobody asks which lines of a benchmark's processes were run, and counting them takes minutes.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    return subprocess.run(
        [sys.executable, str(COMMAND), "--small", "--rounds", "1", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def told_by(path: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    ran = benchmark("--json", str(path), *arguments)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(path.read_text())
    return told, ran.stdout


# The parts b and d are the same measurement of other work, and take minutes also in their smallest size.
@pytest.mark.parametrize(("part", "cases"), [("a", ["a", "a50", "awhole"]), ("c", ["c"])])
def test_outrider_and_both_raw_loops_bring_every_fact_home(
    part: str, cases: list[str], tmp_path: Path
) -> None:
    told, shown = told_by(tmp_path / "told.json", "--only", part)
    assert [found["case"] for found in told["seen"][part]] == cases
    for found in told["seen"][part]:
        assert [row["variant"] for row in found["rows"]] == ["plain", "streamed", "outrider"]
        for row in found["rows"]:
            assert row["delivered"] == row["expected"] > 0
            assert row["rejected"] == 0
        for figure in ("cpu", "wall", "billed"):
            assert told["figures"][f"{found['case']} {figure}"] > 0
    assert told["conditions"]["size"] == "small"
    assert "load before, and after each part" in shown


def test_sizes_and_start_up_are_told_and_a_loss_is_flagged_without_failing(tmp_path: Path) -> None:
    """Against a baseline in which one figure was far better, and another a little."""
    now, _ = told_by(tmp_path / "now.json", "--only", "e,f,g")
    assert now["losses"] == []
    figures = now["figures"]
    assert figures["g packages"] <= 35
    assert figures["g megabytes"] > 1
    # A journal cannot be larger than what is in it by much, nor smaller than it compresses to.
    assert 0.05 < figures["f a journal/text"] < 20
    before = {**figures, "g packages": 3, "g megabytes": figures["g megabytes"] / 1.05}
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"figures": before}))
    told, shown = told_by(tmp_path / "told.json", "--only", "g", "--baseline", str(baseline))
    assert told["losses"] == ["g packages"]
    assert "over 10% worse than the baseline: g packages" in shown


def test_an_unknown_part_is_named_with_those_that_there_are() -> None:
    ran = benchmark("--only", "a,z")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "no part 'z'; there are a, b, c, d, e, f, g" in ran.stderr


def test_the_baseline_of_the_project_has_every_figure_that_it_says_to_aim_at() -> None:
    baseline = json.loads(COMMAND.with_name("baseline.json").read_text())
    source = COMMAND.read_text()
    names = [name for name in baseline["figures"] if f'"{name}": ' in source]
    assert len(names) == 11
