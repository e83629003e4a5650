"""A journal costs what the run wrote, however long it runs."""

from __future__ import annotations

from pathlib import Path

from benchmarks.resume import to_the_first_record, written


def test_the_journal_grows_with_the_text_and_not_with_the_number_of_steps(tmp_path: Path) -> None:
    """L6: at most 1.3 times the text that the run produced, at 160 steps as at four times as many, most of
    them offloaded again later on (1,600: ``python benchmarks/resume.py``)."""
    for steps in (160, 640):
        root = tmp_path / str(steps)
        root.mkdir()
        _, size, text = written(steps, root)
        assert size <= 1.2 * text


def test_a_resume_gets_to_work_on_what_was_recorded(tmp_path: Path) -> None:
    written(20, tmp_path)
    seconds, cpu = to_the_first_record(tmp_path)
    assert cpu > 0
    assert seconds > 0
