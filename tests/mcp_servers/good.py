"""A well-behaved MCP server, written with the SDK: `good.py` over stdio, `good.py PORT` over HTTP,
`good.py PORT sse` over the older transport."""

from __future__ import annotations

import base64
import os
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations

# 3 × 2 pixels.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAHUlEQVR4nGM4y65zY1/+/KRDDE1szx+HTlmVzQUA"
    "XaYJI+Mg/c4AAAAASUVORK5CYII="
)
server = MCPServer("good", instructions="Adds numbers.")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def write_text(chars: int) -> str:
    """A text of so many characters."""
    return "".join(f"line {n}\n" for n in range(chars // 8 + 1))[:chars]


def draw() -> Image:
    """A picture."""
    return Image(data=PNG, format="png")


def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


def environment() -> list[str]:
    """The names of its environment variables, and the folder it works in."""
    return [*sorted(os.environ), os.getcwd()]


async def grow(ctx: Context) -> str:
    """Offer one more tool, and take `fail` away."""

    def grown() -> str:
        """New."""
        return "I am new"

    server.add_tool(grown)
    server.remove_tool("fail")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


server.add_tool(add, annotations=ToolAnnotations(read_only_hint=True))
for each in (write_text, draw, fail, environment, grow):
    server.add_tool(each)

if __name__ == "__main__":
    if sys.argv[2:] == ["sse"]:
        server.run("sse", port=int(sys.argv[1]))
    elif len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
