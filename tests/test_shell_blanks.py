"""Guarded places that were empty are empty again, whatever a command has made of the names around them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace.shell.blanks import blanks, emptied

PLACES = (("a", "b"), ("a", "c", "d"), ("e",))
NAMES = st.sampled_from("abcdex")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
MADE = st.tuples(st.sampled_from(["folder", "file", "link", "remove", "move"]), PATHS, PATHS)


def make(root: str, what: str, path: str, other: str) -> None:
    """As a command would, as far as it goes."""
    place, target = f"{root}/{path}", f"{root}/{other}"
    with suppress(OSError, shutil.Error):
        match what:
            case "folder":
                os.makedirs(place)
            case "file":
                Path(place).write_text("made")
            case "link":
                os.symlink(other, place)
            case "move":
                os.rename(place, target)
            case _ if os.path.islink(place) or os.path.isfile(place):
                os.unlink(place)
            case _:
                shutil.rmtree(place)


@pytest.fixture
def root() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as found:
        yield found


def texts(root: str) -> int:
    """How many files there are, wherever; links not followed."""
    return sum(
        len([f for f in files if not os.path.islink(os.path.join(folder, f))])
        for folder, _, files in os.walk(root)
    )


@given(st.lists(MADE, max_size=8), st.lists(MADE, min_size=1, max_size=12))
def test_what_was_empty_is_empty_again_and_nothing_is_lost(
    before: list[tuple[str, str, str]], by_command: list[tuple[str, str, str]]
) -> None:
    """Not even through a link on the way; a link that was there leads where it led."""
    with tempfile.TemporaryDirectory() as root:
        for made in before:
            make(root, *made)
        places = blanks(root, PLACES)
        for made in by_command:
            make(root, *made)
        files = texts(root)
        emptied(root, places, "kept")
        assert texts(root) == files
        now = {blank.parts: blank for blank in blanks(root, PLACES)}
        for was in places:
            assert was.parts in now, "nothing stands there"
            found = now[was.parts]
            if was.link is None:
                assert found.link is None
            elif found.depth >= was.depth:
                assert (found.depth, found.link) == (was.depth, was.link)
            else:
                assert found.link is None, (
                    "the folder that it was in is gone, and no link took its place"
                )
        # Done twice it does nothing.
        assert emptied(root, places, "kept") == []


def test_a_folder_that_gave_way_to_a_link_does_not_lead_to_the_place(root: str) -> None:
    """The place was a link in a folder; now the folder itself is one."""
    os.makedirs(f"{root}/a")
    os.symlink("elsewhere", f"{root}/a/b")
    places = blanks(root, [("a", "b")])
    shutil.rmtree(f"{root}/a")
    os.makedirs(f"{root}/x/b")
    os.symlink("x", f"{root}/a")
    (taken,) = emptied(root, places, "kept")
    assert taken.parts == ("a",)
    assert not os.path.lexists(f"{root}/a")
    assert os.readlink(f"{root}/{taken.kept}") == "x"
