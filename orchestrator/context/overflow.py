"""Recognising "the request is larger than the window" from a provider's words.

Providers have no common code for it, so this reads wording, in English and Chinese, in three steps:

1. Rates, quotas, money and moderation use the same verbs: whatever names them is no overflow.
2. A text that names the *window* (context length, maximum prompt length …) and says that it is
   exceeded is one.
3. A text that says of the *content* (prompt, input, messages …) that it is too long is one too,
   unless it is about another size: output tokens, names and strings, media, bytes, counts of things.

Text that fits none of it is no overflow: a false alarm would drop history for nothing. Every gap in
the patterns is bounded, so reading stays linear in the text.
"""

from __future__ import annotations

import re

# Patterns are compiled at first use, by `re`'s own cache: most runs never see an error text.
_FLAGS = re.IGNORECASE | re.VERBOSE

# A long error text is a stack trace or an echo of the request; what the provider says is at its ends.
_END_CHARS = 4_000

_SIMPLIFIED = str.maketrans(
    "過長輸對話請數頻餘額權審圖檔訊提詞", "过长输对话请数频余额权审图档讯提词"
)

# Limits that a smaller request would not lift, or not for long.
_RATE_OR_RIGHT = r"""
      rate[\ _-]?limit | throttl | too\ many\ requests | concurren | overloaded
    | \bper[\ _-]?(?:min(?:ute)?|day|hour|second|month|week)\b | /\ ?min\b | \b[tr]p[mdh]\b
    | \d[tr]pm\b | given\ time\ frame | \b(?:daily|monthly|weekly|hourly)\b | resets?\ (?:at|in|\d)
    | quota | billing | credits?\b | balance\b | arrearage | good\ standing | usage\ (?:is\ required|limit)
    | moderation | content[\ _](?:policy|filter|management) | inappropriate | \bsensitive | flagged
    | 限流 | 流控 | 限速 | 速率 | 频繁 | 频率 | 频次 | 并发 | 次数 | 用量 | 访问量 | 业务量 | 调用量 | 限额
    | 每(?:分钟|小时|[日天秒月周]) | [当今单][日天月]
    | 欠费 | 余额 | 充值 | 配额 | 额度 | 套餐 | 资源包 | 账户 | 账号 | 授权 | 权限 | 过期
    | 审核 | 敏感 | 违规 | 违禁 | 合规 | 不安全
"""

# Other sizes. They count only against step 3: a text that names the window means the window.
_OTHER_SIZE = r"""
      (?:output|completion|response|generat\w+|thinking|budget|reasoning)[\ _-](?:tokens?|length|limit)
    | max[\ _](?!prompt|input|total|context)(?:\w{1,12}[\ _])?tokens?\W{1,3}
        (?:is|are|was|must|should|can|exceed|to|value|parameter|\d)
    | maximum\ tokens\ you\ requested | minimum | service\ unavailable
    | (?:try|retry)\ (?:again\ )?(?:later|in\ \d|after) | wait\ (?:a\ |before)
    | \b(?:string|array|list|value|input)\ should\ (?:be|have) | \b(?:string|array)\ too\ long
    | \b(?:string|array|list|value|names?|description|title|id|key|ur[il]|header|schema|metadata|user
        |label|stop|suffix|field|password|batch|parameter|temperature|top_[pk])\W{0,3}
        (?:\w+\ ){0,2}(?:too\ (?:long|large|many)|exceed|length|size|longer|must\ be|should|out\ of)
    | (?:images?|pictures?|audio|video|files?|pdfs?|documents?|attachments?|pages?|media|base64)\b
        [^.]{0,60}?(?:too\ |exceed|larger|longer|size|limit|max|dimension|at\ most|seconds)
    | (?:payload|body|entity|packet|upload)\b[^.]{0,30}?(?:too\ large|size|exceed|limit)
    | \d\ ?(?:[kmg]i?b|bytes?|pixels?|px|seconds?|minutes?|pages?)\b | number\ of\ bytes
    | (?:number|count)\ of\ (?:messages|requests|tools|images|items|inputs|functions|stop)\b
    | received\ message | too\ many\ (?:messages|tools|images|items|inputs|functions|files|texts)
    | 图片 | 图像 | 图档 | 视频 | 音频 | 语音 | 文件 | 附件 | 像素 | 字节 | 请求体 | 稍后
    | (?:名称|名字|描述|标题|标签|字段|标识|密码|函数|工具|链接|地址|条数|个数|轮数|时间|时长)
        [^，。,;；]{0,16}?(?:超|过长|太长|过大|不能|最)
    | (?:参数|取值|温度|temperature|top_p|max_?\w{0,12}_?tokens?)
        [^：:，。,]{0,12}(?:超|不能|不得|必须|应|范围|过大)
    | (?:输出|生成|回复|响应)[^，。,;；]{0,16}?(?:超|过长|太长|过大|上限|不能|最大)
"""

# A point ends a sentence unless it stands in a number or a version ("gpt-5.4").
_SAME_SENTENCE = r"(?:[^.\n]|\.\d)"
_CONTEXT = r"context[\ _-]?(?:length|window|size|limit|budget)"
_TOO = r"too[\ _](?:long|large|big|many)"
_OVER = rf"""(?:exceed\w* | \bover(?:flow\w*|\ (?:the|its|\d|limit|max)) | beyond
    | (?:larg|long|great|bigg)er\ than | more\ than | {_TOO}\b | (?:not|n't)\ fit)"""

_WINDOW = rf"""
      # Codes and class names: context_length_exceeded, ContextWindowExceededError, prompt_too_long …
      (?:context|prompt|input)_?(?:length|window|size|limit|tokens?)?_?(?:exceeded|overflow)
    | exceed_?context | out_?of_?context\b | out_?of_?context_?(?:error|length|window)
    | (?:input|prompt|context|characters?|tokens?)_too_(?:long|large)
    # "maximum context length is 8,192", "Max input tokens: 8192": said only when it is not kept.
    | max(?:imum)?\ (?:\w+\ ){{0,2}}(?:context|prompt|input|sequence|model)[ ]
        (?:length|window|size|limit|tokens?\b|characters)
    | {_OVER}{_SAME_SENTENCE}{{0,80}}?
        \b(?:{_CONTEXT}|max_(?:seq|model)_len|max_(?:prompt|input)_tokens|n_ctx)
    | \b{_CONTEXT}{_SAME_SENTENCE}{{0,40}}?(?:{_OVER}|\b(?:exhausted|full|reached)\b)
    | reached{_SAME_SENTENCE}{{0,40}}?\b{_CONTEXT}
    | \b(?:out\ of|not\ enough|no)\ (?:room|space)\b{_SAME_SENTENCE}{{0,40}}?\b(?:context|completion)
    | \d\ tokens?\b{_SAME_SENTENCE}{{0,24}}?\b(?:but|while|only)\b
        {_SAME_SENTENCE}{{0,40}}?\b{_CONTEXT}
    | (?:less\ than|at\ most|<=?)\ (?:or\ equal\ to\ )?`?max_(?:seq|model)_len
    | n_keep\b.{{0,20}}\bn_ctx
    # Input and output together.
    | (?:input|prompt)\w*\W{{1,3}}(?:length\ |tokens\ )?(?:\+|and|plus)\W{{1,3}}max_\w{{0,12}}tokens
    | max(?:imum)?\ size:?\ [\d,]+\ tokens | total\ text\ bytes | text\ exceeds?\ max\ message\ tokens
    # 上下文 is the word for it; "over" may come before or behind.
    | 上下文[^。；;\n]{{0,24}}?(?:超|过长|太长|过大|太大|溢出|已满|不足|上限) | 最大上下文
    | (?:超|大于|高于)[^。；;\n]{{0,24}}?上下文 | 压缩上下文
    | 输入[^。；;\n]{{0,16}}?输出[^。；;\n]{{0,16}}?(?:之和|总和|总长|总数)[^。；;\n]{{0,12}}?(?:超|大于)
"""

_THING = r"""(?:prompts?|inputs?|messages?|conversation|contexts?|history|sequence|total[\ _]tokens?
    |tokens\ in\ (?:the|your)\ request|token[\ _](?:count|length)|length\ of\ (?:the\ )?tokens|requested\ tokens?)"""
# The words that may stand between a thing and what is said of it. Anything else changes the subject:
# "context deadline exceeded", "messages.3.name is too long".
_BETWEEN = r"""(?:tokens?|lengths?|len|size|count|number|total|text|data|content|contexts?|prompts?
    |messages?|input|image|query|request|the|your|this|that|which|or|and|of|in|to|for|is|are|was|has|have
    |been|be|would|will|should|cannot|can|not|must|far|much|contains?|max|new|num|sum|you|sent|submitted
    |\d[\d,]*)"""

_CONTENT = rf"""
    \b{_THING}(?:[\W_]{{1,5}}{_BETWEEN}){{0,8}}[\W_]{{1,5}}
        (?:{_OVER}|must\ (?:be|have)\ (?:less|at\ most|fewer|no\ more|<|shorter))
    | \brequest\b{_SAME_SENTENCE}{{0,40}}?\b(?:{_OVER}){_SAME_SENTENCE}{{0,24}}?\btokens?\ limit
    | \brequest\b[^.]{{0,24}}?\d\ ?tokens?\b[^.]{{0,16}}?{_OVER}
    | \b(?:prompt|input|messages?|request)\b[^.]{{0,24}}?\d\ tokens\b[^.]{{0,40}}?
        \b(?:max(?:imum)?|limit|at\ most|only|allowed)\b
    | model(?:'s)?\ token\ limit | token\ limit\ (?:of|for)\ (?:the|this)\ model
    | too\ many\ (?:input|prompt|context|message)\ tokens
    | too\ many\ tokens\b[^.]{{0,40}}?(?:\bprompt|\binput|\bmessages|size\ limit)
    | \b(?:prompt|input)\b[^.]{{0,40}}?\d,?\ (?:but|while)\b[^.]{{0,24}}?\b(?:max|limit)
    | (?:at\ most|up\ to|limit\ of|only(?:\ \w+)?|maximum\ of)\ [\d,]+[ ]
        (?:(?:context|prompt|input)\ tokens|tokens\ of\ (?:context|input))
    | range\ of\ (?:input|prompt|messages?)\ length
    | reached\ (?:its|the|their)\ (?:conversation\ limit|maximum\ length)
    | (?:maximum\ length|length\ limit)\ (?:for|of)\ (?:this|the)\ (?:conversation|chat)
    # Advice that fits nothing else.
    | (?:reduce|shorten|decrease|truncate|shorter|trim)\W{{1,3}}(?:\w+\ ){{0,4}}?
        (?:prompt|inputs?|messages|conversation|context|history)\b
    # 输入超过最大长度限制, Prompt 超长, token数量超过上限, 请求的 tokens 超出模型支持的范围
    | (?:输入|对话|会话|提示词?|prompt|messages?|消息|历史|文本|问题|字数|请求)
        [^，。；,;\n]{{0,16}}?(?:过长|太长|超长|超限|过大|太大)
    | (?:字数|tokens?|令牌)[^，。；,;\n]{{0,8}}?(?:太多|过多)
    | (?:输入|对话|会话|提示词?|prompt|messages?|消息|历史|文本|字数|内容长度|tokens?|令牌)
        [^。；;\n]{{0,24}}?(?:超过|超出|大于|高于|多于)
        [^。；;\n]{{0,16}}?(?:限|最大|长度|模型|允许|支持|\d{{3}})
    | (?:超过|超出|大于)[^。；;\n]{{0,16}}?(?:输入|(?:tokens?|令牌)\ ?(?:数|长度|总数|限|上限)|最大长度)
    | (?:输入|prompt|消息|对话|tokens?|令牌)[^。；;\n]{{0,16}}?(?:不[能得可]|不应|最多)[^。；;\n]{{0,6}}?
        (?:超过|超出|大于|\d{{3}})
"""


def is_context_overflow(text: str) -> bool:
    """Whether a provider's error text says that the request is larger than the model's window."""
    text = _said(text)
    if _in(_RATE_OR_RIGHT, text):
        return False
    return _in(_WINDOW, text) or (_in(_CONTENT, text) and not _in(_OTHER_SIZE, text))


_TOKENS = r"(\d[\d,]{0,14})"
# How providers write the two shares of a request, each with its input and its output.
_SHARES = (
    rf"(?P<input>{_TOKENS})\ \+\ (?P<output>{_TOKENS})\ >",
    rf"\((?P<output>{_TOKENS})\ >\ {_TOKENS}\ -\ (?P<input>{_TOKENS})\)",
    (
        rf"(?P<input>{_TOKENS})\ (?:tokens\ )?(?:in|from|of)\ (?:the|your|text)\ [^.]{{0,60}}?"
        rf"(?P<output>{_TOKENS})\ (?:tokens\ )?(?:in|for)\ the\ (?:completion|output)"
    ),
    (
        rf"requested\ (?P<output>{_TOKENS})\ output\ tokens\b[^.]{{0,60}}?"
        rf"(?P<input>{_TOKENS})\ input\ tokens"
    ),
    rf"(?P<input>{_TOKENS})\ .?inputs.?\ tokens\ and\ (?P<output>{_TOKENS})\ .?max_new_tokens",
)
_TOGETHER = r"""
      (?:input|prompt)\w*\W{1,3}(?:length\ |tokens\ )?(?:\+|and|plus)\W{1,3}max_\w{0,12}tokens
    | input\ and\ (?:maximum\ )?output\ tokens
    | 输入[^。；;\n]{0,16}?输出[^。；;\n]{0,16}?(?:之和|总和|总长|总数)
"""


def shares_in(text: str) -> tuple[int, int] | None:
    """The input and the output, in tokens, that an overflow text says were asked for together."""
    text = _said(text)
    for pattern in _SHARES:
        if found := re.search(pattern, text, _FLAGS):
            return _number(found["input"]), _number(found["output"])
    return None


def is_input_plus_output_overflow(text: str) -> bool:
    """Whether an overflow text says that input *and* ``max_tokens`` are over the window together.

    False where its numbers show that the input alone is: asking for less output would not help.
    """
    if not is_context_overflow(text):
        return False
    if (shares := shares_in(text)) is not None:
        window = window_in(text)
        return (window is None or shares[0] < window) and shares[1] > 0
    return _in(_TOGETHER, _said(text))


_SIZE = r"(?P<size>(?<!\d)\d[\d,_]{0,14})\s?(?P<unit>k\b|万)?"
# Nothing that turns to another number: "exceeded by 512 tokens", "…, but you requested 4,000", or
# the error code in "exceeds limit (2013)".
_UP_TO_SIZE = r"""(?:(?!\bby\b|request|receiv|however|given|contain|\bbut\b|\bhas\b|while|your|output
    |exceeds\ limit\ \(\d{4}\))[^\d"{}.\n])"""
# Where an overflow text names the window, the surest place first.
_NAMED = (
    rf"\d\ \+\ \d[\d,]*\ >\ {_SIZE}",
    rf"\d\ >\ {_SIZE}\ -\ \d",
    rf"\d\ (?:tokens?\ )?>=?\ {_SIZE}",
    rf"{_SIZE}\ (?:tokens?\ )?(?:maximum|max|context\ (?:length|window|size))\b",
    rf"\[\d\ ?,\ ?{_SIZE}\]",
    (
        r"\b(?:n_ctx|max_(?:(?:seq|model|context)_)?len\w*|max_(?:prompt|input)_tokens)"
        rf"\W{{1,4}}(?:of\ |is\ (?:set\ to\ )?)?{_SIZE}"
    ),
    rf"\bmax(?:imum)?\b{_UP_TO_SIZE}{{1,40}}?{_SIZE}",
    (
        r"(?:\b(?<!exceeds\ )limit|exceeds\ limit(?!\ \(\d{4}\))|\ballowed)\b"
        rf"{_UP_TO_SIZE}{{1,24}}?{_SIZE}"
    ),
    rf"(?:at\ most|up\ to|less\ than|no\ more\ than|fewer\ than|not\ exceed|only(?:\ \w+)?|<=?)\ {_SIZE}",
    rf"\b{_CONTEXT}\b{_UP_TO_SIZE}{{1,24}}?{_SIZE}",
    rf"(?:longer|larger|greater|more)\ than\ {_UP_TO_SIZE}{{0,24}}?{_SIZE}",
    rf"(?:最大|最多|上限|限制|窗口)[^\d，。；;\n]{{0,16}}?{_SIZE}",
    rf"(?:超过|超出|大于)[^\d，。；;\n]{{0,16}}?{_SIZE}",
)
# A smaller number is a count, a status or a code.
_LEAST_TOKENS = 256
_UNIT = r"tokens?|令牌"
_OTHER_UNIT = r"bytes|characters|字符"


def window_in(text: str) -> int | None:
    """The window in tokens that an overflow text names; ``None`` where it names none."""
    text = _said(text)
    if _in(_OTHER_UNIT, text) and not _in(_UNIT, text):
        return None
    for pattern in _NAMED:
        for found in re.finditer(pattern, text, _FLAGS):
            unit = (found["unit"] or "").lower()
            tokens = _number(found["size"]) * {"k": 1_000, "万": 10_000}.get(unit, 1)
            if tokens >= _LEAST_TOKENS:
                return tokens
    return None


def _said(text: str) -> str:
    if len(text) > 2 * _END_CHARS:
        text = f"{text[:_END_CHARS]}\n{text[-_END_CHARS:]}"
    return text.translate(_SIMPLIFIED)


def _in(pattern: str, text: str) -> bool:
    return re.search(pattern, text, _FLAGS) is not None


def _number(digits: str) -> int:
    return int(digits.replace(",", "").replace("_", ""))
