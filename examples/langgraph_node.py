"""The context pipeline as a node of a LangGraph graph.

The graph is an ordinary loop of model and tools; the node `room` stands in front of the model and
keeps the conversation within its window. Messages in the graph's state are Messages API JSON.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from examples.own_loop import Files, make_room, page, scripted


class GraphState(TypedDict):
    messages: list[Any]
    facts: list[str]


def build(files: Files) -> Any:
    """The graph: room → model → tools → room …, until the model calls no tool."""

    def room(state: GraphState) -> GraphState:
        facts = list(state["facts"])
        messages = make_room(state["messages"], files, scripted, facts)
        return {"messages": messages, "facts": facts}

    def model(state: GraphState) -> dict[str, Any]:
        reply = {"role": "assistant", "content": scripted(state["messages"])}
        return {"messages": [*state["messages"], reply]}

    def tools(state: GraphState) -> dict[str, Any]:
        results = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": page(**use["input"])}
            for use in state["messages"][-1]["content"]
            if use["type"] == "tool_use"
        ]
        return {"messages": [*state["messages"], {"role": "user", "content": results}]}

    def after_model(state: GraphState) -> str:
        blocks = state["messages"][-1]["content"]
        return "tools" if any(b["type"] == "tool_use" for b in blocks) else END

    graph = StateGraph(GraphState)
    graph.add_node("room", room)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "room")
    graph.add_edge("room", "model")
    graph.add_conditional_edges("model", after_model, ["tools", END])
    graph.add_edge("tools", "room")
    return graph.compile()


def main() -> str:
    with tempfile.TemporaryDirectory() as folder:
        start = {"messages": [{"role": "user", "content": "Find what was lost."}], "facts": []}
        end = build(Files(Path(folder))).invoke(start, {"recursion_limit": 1_000})
    return str(end["messages"][-1]["content"][0]["text"])


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
