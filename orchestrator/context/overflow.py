"""Recognising "the request is larger than the window" from a provider's words.

Providers have no common code for it. The rules below are about wording, in English and Chinese: an
exclusion list first (rate limits, quotas, output caps and other limits use the same verbs), then
patterns that need both the thing (prompt, input, context …) and the relation (too long, exceeds …).
Text that fits neither is not an overflow: a false alarm would drop history for nothing.
"""

from __future__ import annotations

import re

_NOT_OVERFLOW = re.compile(
    r"""
      rate.?limit | per.?min(?:ute)?\b | /\s?min\b | \b[tr]pm\b | tokens?\ per\ (?:min|day|hour|second)
    | quota | billing | credit | arrearage | throttl | too\ many\ requests | concurrency
    | try\ again\ (?:later|in|after) | wait\ (?:a\ bit|before) | given\ time\ frame | resets?\ (?:at|\d)
    | service\ unavailable | usage\ is\ required | good\ standing
    | number\ of\ output\ tokens | max_tokens\ is\ too\ large | completion\ tokens,\ whereas
    | max_tokens:\ \d+\ >\ \d+ | maximum\ tokens\ you\ requested | minimum\ token\ count
    | image.{0,60}(?:dimension|pixel|size) | dimensions?\ (?:limit|exceed)
    | (?:string|array|name|description)\ too\ long
    | 限流 | 流控 | 频繁 | 频率 | 欠费 | 余额 | 充值 | 审核 | 授权 | 配额 | 并发 | 每分钟 | 每日
    """,
    re.IGNORECASE | re.VERBOSE,
)

_THING = (
    r"(?:prompt|inputs?\b|input[_ ]tokens?|context|messages|conversation|request(?:ed)?\ token)"
)
_OVERFLOW = re.compile(
    rf"""
      model_context_window_exceeded | context_length_exceeded | context_window_exceeded
    | exceed_context_size | out\ ?of\ ?context
    | {_THING}[^.]{{0,80}}?(?:\btoo\ (?:long|large|big)|exceed|over\ the|larger\ than|greater\ than
        |does\ not\ fit|do\ not\ fit|overflow|must\ (?:be|have)\ (?:less|at\ most|fewer|<))
    | (?:exceed|over|greater\ than|larger\ than|longer\ than|fit)[^.]{{0,60}}?
        (?:context\ (?:length|window|size|limit)|model\ token\ limit|max\ message\ tokens)
    | max(?:imum)?\ (?:context|prompt|input)\ length
    | (?:at\ most|limit\ of|up\ to)\ [\d,]+\ (?:context|prompt|input)\ tokens
    | range\ of\ input\ length\ should\ be | (?:input\ )?characters?_too_long
    | too\ many\ (?:total\ text\ bytes|(?:input|prompt)\ tokens)
    | prompt_tokens\b.{{0,40}}max_seq_len | \bn_keep\b.{{0,20}}\bn_ctx\b
    | when\ context\ .{{0,10}}overflows | reduce\ the\ length\ of\ the\ (?:messages|prompt|input)
    | configured\ context\ size
    | (?:上下文|输入|对话|提示词?|令牌|文本|字数|token\s*数量?).{{0,24}}?(?:超过|超出|过长|太长|超长|超限)
    | (?:超过|超出).{{0,12}}(?:上下文|输入长度|令牌)
    """,
    re.IGNORECASE | re.VERBOSE,
)

# "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"
_SUM = re.compile(r"(\d[\d,]*)\s*\+\s*(\d[\d,]*)\s*>\s*(\d[\d,]*)")
_LIMIT = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r">\s*(\d[\d,]*)\s*(?:maximum|tokens)?",
        r"(?:available|configured) context size (?:\(|is )(\d[\d,]*)",
        r"(?:context|prompt|input) length (?:is|of) (?:only )?(\d[\d,]*)",
        # Four digits in brackets after "limit" may be an error code: five are a size.
        r"(?:limit|max)\w*(?: (?:of|is|number of tokens allowed))?[:\s(]*(\d[\d,]{4,}|\d{3,4}(?= tok))",
        r"at most (\d[\d,]*)",
        r"n_ctx[\"':\s(]+(\d[\d,]*)",
        r"(?:超过|超出)[^\d]{0,16}(\d[\d,]*)",
        r"should be \[1, ?(\d[\d,]*)\]",
    )
)


def is_context_overflow(text: str) -> bool:
    """Whether a provider's error text says that the request is larger than the model's window."""
    return not _NOT_OVERFLOW.search(text) and bool(_OVERFLOW.search(text))


def is_input_plus_output_overflow(text: str) -> bool:
    """Whether the text says that input and ``max_tokens`` together are over the window."""
    return is_context_overflow(text) and bool(_SUM.search(text))


def window_in(text: str) -> int | None:
    """The window in tokens that an overflow text names; ``None`` where it names none."""
    if found := _SUM.search(text):
        return _number(found[3])
    for pattern in _LIMIT:
        if (found := pattern.search(text)) and (tokens := _number(found[1])) >= 256:
            return tokens
    return None


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
