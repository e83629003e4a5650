"""What a server's tool returned, as a tool result: text and pictures, framed as somebody else's data."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence

import mcp_types as types

from orchestrator.errors import ToolError
from orchestrator.messages import Block, text_block
from orchestrator.outputs import Output, framed, told
from workspace import WorkspaceError, media_blocks

# Images and documents of one result; each was measured against the API's limits before.
MOST_MEDIA = 20


def output_of(source: str, result: types.CallToolResult) -> Output:
    """The result for the model; ``source`` says whose it is. Raises `ToolError` for an error."""
    blocks = list(_merged(_blocks(result)))
    if result.is_error:
        said = "\n".join(b["text"] for b in blocks if b["type"] == "text").strip()
        raise ToolError(told(source, said or "the tool failed and does not say why"))
    if all(block["type"] == "text" for block in blocks):
        return framed(source, "\n".join(block["text"] for block in blocks))
    return framed(source, blocks)


def _blocks(result: types.CallToolResult) -> Iterator[Block]:
    media = 0
    has_text = False
    for item in result.content:
        for block in _of_item(item):
            media += block["type"] != "text"
            if block["type"] != "text" and media > MOST_MEDIA:
                block = text_block(f"[one more image: {MOST_MEDIA} are shown]")
            has_text |= block["type"] == "text"
            yield block
    # By the protocol it repeats the text, where there is text.
    if result.structured_content is not None and not has_text:
        yield text_block(json.dumps(result.structured_content, ensure_ascii=False))
    elif not result.content:
        yield text_block("(no output)")


def _merged(blocks: Iterator[Block]) -> Iterator[Block]:
    """Neighbouring texts as one: a block each would cost more than it says."""
    texts: list[str] = []
    for block in blocks:
        if block["type"] == "text":
            texts.append(block["text"])
            continue
        if texts:
            yield text_block("\n".join(texts))
            texts = []
        yield block
    if texts:
        yield text_block("\n".join(texts))


def _of_item(item: types.ContentBlock) -> Sequence[Block]:
    match item:
        case types.TextContent():
            return [text_block(item.text)]
        case types.ImageContent():
            return _media("image", item.mime_type, item.data)
        case types.AudioContent():
            return [text_block(f"[audio {item.mime_type}: models cannot hear it]")]
        case types.ResourceLink():
            kind = f" · {item.mime_type}" if item.mime_type else ""
            said = f" · {item.description}" if item.description else ""
            return [text_block(f"[resource {item.uri} · {item.name}{kind}{said}]")]
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return [text_block(f"[resource {resource.uri}]\n{resource.text}")]
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return _media(str(resource.uri), resource.mime_type or "data", resource.blob)
        case _:
            return [text_block("[content of a kind that is not known here]")]


def _media(name: str, kind: str, encoded: str) -> Sequence[Block]:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return [text_block(f"[{name} · {kind}: damaged, it is no base64]")]
    try:
        blocks = media_blocks(name, data)
    except WorkspaceError as error:
        return [text_block(f"[{error}]")]
    return blocks or [text_block(f"[{name} · {kind} · {len(data):,} bytes: cannot be shown]")]
