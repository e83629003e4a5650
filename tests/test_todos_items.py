import pytest
from hypothesis import given
from hypothesis import strategies as st

import todos
from todos import STATUSES, Todo, TodoChange, TodoError, parse, render, update

contents = st.one_of(
    st.text(min_size=1),
    st.text("<!-> 123[x]-\n", min_size=1),
).filter(lambda text: text.encode("utf-8", "replace").split() and text.split())
changes = st.lists(
    st.one_of(
        st.fixed_dictionaries({"content": contents, "status": st.sampled_from(STATUSES)}),
        st.fixed_dictionaries(
            {
                "content": contents,
                "status": st.sampled_from(STATUSES),
                "id": st.from_regex(r"[A-Za-z0-9_.-]{1,40}", fullmatch=True),
            }
        ),
    )
)


def plan(*contents: str) -> tuple[Todo, ...]:
    return update((), [{"content": content, "status": "pending"} for content in contents])


def test_public_names_are_sorted() -> None:
    assert todos.__all__ == sorted(todos.__all__)


def test_new_items_get_short_ids_in_order() -> None:
    assert [todo.id for todo in plan("read", "edit", "test")] == ["1", "2", "3"]


def test_a_change_by_id_keeps_what_it_leaves_out() -> None:
    items = update(plan("read", "edit"), [{"id": "2", "status": "completed"}])
    assert items == (Todo("read", "pending", "1"), Todo("edit", "completed", "2"))


def test_a_change_by_equal_content_updates_instead_of_adding() -> None:
    items = update(plan("read", "edit"), [{"content": " read\n", "status": "in_progress"}])
    assert items == (Todo("read", "in_progress", "1"), Todo("edit", "pending", "2"))


def test_an_unknown_id_with_known_content_updates_that_item() -> None:
    items = update(plan("read"), [{"id": "a", "content": "read", "status": "completed"}])
    assert items == (Todo("read", "completed", "1"),)


def test_an_id_of_the_models_own_is_kept() -> None:
    items = update(plan("read"), [{"id": "fix.1", "content": "fix", "status": "pending"}])
    assert items[1] == Todo("fix", "pending", "fix.1")


def test_a_changed_text_keeps_its_id() -> None:
    items = update(plan("read"), [{"id": "1", "content": "read twice", "status": "pending"}])
    assert items == (Todo("read twice", "pending", "1"),)


def test_sending_the_whole_list_again_changes_only_the_statuses() -> None:
    items = plan("read", "edit")
    again: list[TodoChange] = [{"content": t.content, "status": "completed"} for t in items]
    assert [(t.id, t.status) for t in update(items, again)] == [
        ("1", "completed"),
        ("2", "completed"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"content": "x", "status": "done"}, "pending, in_progress, completed, cancelled"),
        ({"content": " \n", "status": "pending"}, "not empty"),
        ({"status": "pending"}, "not empty"),
        ({"id": "9", "status": "completed"}, "known ids: 1"),
        ({"id": "1 -->", "content": "x", "status": "pending"}, "letters, digits"),
        ({"content": 7, "status": "pending"}, "are texts"),
        ({"content": "x", "status": []}, "not one of"),
    ],
)
def test_a_bad_change_is_an_error_and_changes_nothing(change: TodoChange, message: str) -> None:
    """T2: invalid status → error, list unchanged (the good change before it is not made)."""
    items = plan("read")
    with pytest.raises(TodoError, match=message):
        update(items, [{"id": "1", "status": "completed"}, change])
    assert items == (Todo("read", "pending", "1"),)


def test_an_item_sent_without_a_status_keeps_it_or_starts_pending() -> None:
    changes: list[TodoChange] = [{"id": "1", "content": "a"}, {"content": "b"}]  # type: ignore[typeddict-item]
    items = update(update(plan("a"), [{"id": "1", "status": "completed"}]), changes)
    assert [todo.status for todo in items] == ["completed", "pending"]


@given(changes)
def test_reading_a_rendered_list_gives_the_list(made: list[TodoChange]) -> None:
    """T1: the file holds the whole list, whatever the texts are."""
    items = update((), made)
    assert parse(render(items)) == items
    assert render(items).encode().decode() == render(items)


@given(st.text("-*[]x~ X<!->1aé\r\n\t\u2028"))
def test_any_text_parses_and_its_ids_are_unique(text: str) -> None:
    items = parse(text)
    assert len({todo.id for todo in items}) == len(items)
    assert parse(render(items)) == items


def test_edits_by_a_person_are_understood() -> None:
    """T1: new lines get ids, other text is passed over, any list marker will do."""
    text = """# Plan
- [x] read <!-- 1 -->
* [X] also done <!--4-->
  1. [] new line
- [~] copied line <!-- 1 -->
- [-] dropped <!-- b -->
- [?] unknown mark
- no box
- [ ] <!-- 7 -->
"""
    assert parse(text) == (
        Todo("read", "completed", "1"),
        Todo("also done", "completed", "4"),
        Todo("new line", "pending", "5"),
        Todo("copied line", "in_progress", "6"),
        Todo("dropped", "cancelled", "b"),
    )
