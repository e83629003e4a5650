"""Overflow by its words: what providers say of a request over the window, and what only sounds so.

The texts are written in the providers' styles; numbers, names and hosts are made up.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.context.overflow import (
    is_context_overflow,
    is_input_plus_output_overflow,
    window_in,
)

# (text, the window in tokens that it names)
OVERFLOWS: list[tuple[str, int | None]] = [
    # Anthropic, directly, on Bedrock and behind gateways
    ("prompt is too long: 214007 tokens > 200000 maximum", 200_000),
    ("messages: too many total text bytes: 9100200 > 9000000", None),
    ("ValidationException: Input is too long for requested model.", None),
    ("The model returned the following errors: Input is too long for requested model.", None),
    ("Unhandled stop reason: model_context_window_exceeded", None),
    ("litellm.ContextWindowExceededError: BadRequestError: the text was refused", None),
    # OpenAI and what speaks like it
    (
        (
            "This model's maximum context length is 16385 tokens. However, your messages resulted in "
            "17020 tokens (16800 in the messages, 220 in the functions). Please reduce the length of "
            "the messages or functions."
        ),
        16_385,
    ),
    ("Your input exceeds the context window of this model. Please adjust it and try again.", None),
    ("Your input exceeds gpt-5.4's context window of 272,000 tokens", 272_000),
    ('{"error":{"message":"Too big","code":"context_length_exceeded","param":"messages"}}', None),
    ("Input tokens exceed the configured limit of 272000 tokens.", 272_000),
    ("Codex ran out of room in the model's context window. Start a new conversation.", None),
    ("Request body too large for mini-model. Max size: 8000 tokens.", 8_000),
    # Google
    (
        "The input token count (1300512) exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
    ),
    (
        (
            "Unable to submit request because the input token count is 40211 but the model only "
            "supports up to 32767. Reduce the input token count and try again."
        ),
        32_767,
    ),
    ("INVALID_ARGUMENT: Your input context is too long", None),
    ("Request contains 35900 tokens, which exceeds the limit of 32768.", 32_768),
    # Other clouds and aggregators
    ("too many input tokens. Max input tokens: 8192, request input token count: 15540", 8_192),
    ("Input Tokens Exceeded: Number of input tokens exceeds maximum length.", None),
    (
        (
            "The estimated number of input and maximum output tokens (9000) exceeded this model "
            "context window limit (8192)."
        ),
        8_192,
    ),
    (
        "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
        4_096,
    ),
    (
        (
            "This endpoint's maximum context length is 163840 tokens. However, you requested about "
            "172900 tokens (4429 of text input, 4631 of tool input, 163840 in the output)."
        ),
        163_840,
    ),
    ("prompt token count of 130411 exceeds the limit of 128000", 128_000),
    ('{"code":"model_max_prompt_tokens_exceeded"}', None),
    (
        "This model's maximum prompt length is 131072 but the request contains 140001 tokens.",
        131_072,
    ),
    (
        (
            "[input_too_large] The prompt is too long for this model's context window "
            "(505759 tokens > 500000 tokens)"
        ),
        500_000,
    ),
    (
        "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
        262_144,
    ),
    ("The prompt is too long: 206001, model maximum context length: 131071", 131_071),
    ("Please reduce the length of the messages or completion.", None),
    (
        "Current length is 90112 while limit is 65536. Please reduce the length of the prompt.",
        65_536,
    ),
    (
        (
            "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5121. "
            "Try using a shorter prompt"
        ),
        4_081,
    ),
    (
        "too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs.",
        None,
    ),
    ("total tokens exceeds the model's maximum limit of 4096", 4_096),
    (
        "Prompt contains 65673 tokens and 0 images, too large for model with 32768 maximum context length",
        32_768,
    ),
    ("Failed: prompt has too many tokens", None),
    ("Token limit exceeded: your prompt has 150000 tokens, max is 128000", 128_000),
    ("the prompt is 140123 tokens long; this model accepts only 131072", 131_072),
    ("This request has 210000 tokens, which is over the model's limit of 200000 tokens", 200_000),
    ("Your input is too long. Max input length is 4096 tokens, but you sent 5441.", 4_096),
    ("Input length of input_ids is 2061, but `max_length` is set to 2048.", 2_048),
    ("tokens in your request (150000) exceed this model's limit of 128000", 128_000),
    ("This model can only handle 8192 tokens of context", 8_192),
    ("not enough room in the context: 9000 tokens requested", None),
    ("Conversation length exceeded. Please start a new session", None),
    ("The message you submitted was too long.", None),
    # Servers at home
    (
        "request (66202 tokens) exceeds the available context size (65536 tokens), try increasing it",
        65_536,
    ),
    (
        '{"error":{"code":400,"type":"exceed_context_size_error","n_prompt_tokens":643,"n_ctx":512}}',
        512,
    ),
    ("Context size has been exceeded.", None),
    ("Requested tokens (2100) exceed context window of 2048", 2_048),
    ("prompt too long; exceeded max context length by 4021 tokens", None),
    ("the input length exceeds the context length", None),
    ("Reached context length of 4096 tokens, and mid-generation overflow is not supported", 4_096),
    (
        "The number of tokens to keep from the initial prompt is greater than the context length",
        None,
    ),
    ("Cannot truncate prompt with n_keep (9001) >= n_ctx (4096)", 4_096),
    ("The prompt size exceeds the context window size and cannot be processed.", None),
    ("Prompt length 9000 is greater than max_seq_len 8192", 8_192),
    ("The decoder prompt (length 40000) is longer than the maximum model length of 32768.", 32_768),
    ("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", 59_862),
    ("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131_040),
    ("Prompt length (5000) exceeds maximum input length (4096).", 4_096),
    ("the prompt has 9120 tokens, which does not fit the context length of 8192 tokens", 8_192),
    ("Prompt has 41,000 tokens, but the configured context size is 32,768 tokens", 32_768),
    ("`inputs` must have less than 4096 tokens. Given: 5120", 4_096),
    # Chinese providers, in English
    ("Your request exceeded model token limit: 262144 (requested: 270000)", 262_144),
    ("Input token length too long", None),
    ("The length of tokens in the request is too long", None),
    ("invalid params, context window exceeds limit (2013)", None),
    ("Range of input length should be [1, 129024]", 129_024),
    ("Total message token length exceed model limit (6144 tokens)", 6_144),
    ("max_total_tokens (100000794) must be less than or equal to max_seq_len (32768)", 32_768),
    ("length of prompt_tokens (68957) must be less than max_seq_len (65536).", 65_536),
    ("Total tokens of image and text exceed max message tokens.", None),
    ("tokens_too_long: the prompt cannot be processed", None),
    ("characters_too_long: the max input characters is 24000", None),
    ("Prompt exceeds max length", None),
    # … and in Chinese
    ("上下文长度超过模型限制（131072 tokens）", 131_072),
    ("超出最大上下文长度 65536", 65_536),
    ("上下文过长，请压缩后重试", None),
    ("对话上下文超限，请开启新会话", None),
    ("当前上下文已满", None),
    ("输入令牌数(1300512)超过了允许的最大令牌数(1048576)", 1_048_576),
    ("输入长度超过限制", None),
    ("输入内容过长，请减少文本长度", None),
    ("Prompt 超长", None),
    ("提示词过长", None),
    ("token数量超过上限，请精简历史", None),
    ("请求的 tokens 数超出模型支持的最大长度 32768", 32_768),
    ("输入的 token 数不能超过 30720", 30_720),
    ("输入与输出 token 之和超过模型上限 8192", 8_192),
    ("消息内容太长，最多支持 128k tokens", 128_000),
    ("對話長度超過模型上限", None),
    ("当前对话已达到上下文长度上限", None),
    ("文本总长度超出模型处理能力", None),
    ("您输入的内容过长，请删减后再提问", None),
]

OTHER_ERRORS = [
    # Rates and overload
    (
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute. "
        "Please reduce the prompt length or the maximum tokens requested, or try again later."
    ),
    (
        "Request too large for some-model on tokens per min (TPM): Limit 30000, Requested 31538. The "
        "input or output tokens must be reduced in order to run successfully."
    ),
    "ThrottlingException: Too many tokens, please wait before trying again.",
    "Too many tokens per day, please wait before trying again.",
    "Tokens per minute limit exceeded - too many tokens processed.",
    "Service unavailable: too many tokens",
    "request reached organization TPD rate limit, current: 1506556, limit: 1500000",
    "tpm_rate_limit_exceeded",
    "monthly token limit exceeded",
    "request count exceeds the limit of 100",
    "The engine is currently overloaded, please try again later",
    "Concurrency limit reached: 3 requests",
    # Money and rights
    "You exceeded your current quota, please check your plan and billing details.",
    "prompt tokens limit exceeded: 12345 > 9000. To increase, add credits to your account",
    "Extra usage is required for long context requests",
    "The long context beta is not yet available for this subscription.",
    "Input flagged by moderation: the prompt exceeds the allowed score",
    "The response was filtered because the prompt met the content management policy",
    # Output
    "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens",
    "max_tokens is too large: 64000. This model supports at most 16384 completion tokens.",
    (
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less "
        "than the `context_window` for this model"
    ),
    "The maximum tokens you requested exceeds the model limit of 4096.",
    "Range of max_tokens should be [1, 8192]",
    "`max_tokens` must be greater than `thinking.budget_tokens`",
    "max_tokens: Input should be greater than or equal to 1",
    # Other things that are too long, too large or too many
    "Invalid 'messages[3].name': string too long. Expected a string with maximum length 64.",
    "Invalid 'tools': array too long. Expected an array with maximum length 128.",
    "tools.0.custom.name: String should have at most 64 characters",
    "tools.4.name is too long",
    "temperature: Input should be less than or equal to 2",
    "The input parameter top_p exceeds the range",
    "messages.4.content.0.image.source: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
    "An image in the conversation exceeds the dimension limit for many-image requests (2000px)",
    "A maximum of 100 PDF pages may be provided in the input",
    "Input audio is too long: 1500 seconds is longer than the maximum of 1400 seconds",
    "Request payload size exceeds the limit: 20971520 bytes.",
    "request body too large",
    "413 Request Entity Too Large",
    "414 Request-URI Too Long",
    "Number of messages exceeds the limit of 100",
    "batch size 33 exceeds the maximum allowed batch size 32",
    "The cached content is of 1171 tokens. The minimum token count to start caching is 4096.",
    # Nothing of the kind
    'Post "https://api.example/v1": context deadline exceeded (Client.Timeout exceeded)',
    "context canceled",
    "The context is large, but acceptable.",
    "Unsupported parameter: 'max_context_length'",
    "received message larger than max (5000000 vs. 4194304)",
    "max_tokens_exceeded",
    "Maximum recursion depth exceeded",
    "Your request timed out because the input took too long to process",
    "messages: text content blocks must be non-empty",
    "model not found: some-model-128k",
    "Internal server error",
    "",
    # Chinese
    "请求过于频繁，请稍后再试",
    "您的账户已欠费，输入超过配额",
    "余额不足，请充值后重试",
    "超过每分钟 token 限制",
    "已达到今日调用次数上限",
    "触发限流：输入 tokens 超过 TPM 上限",
    "免费额度已用尽，请购买资源包",
    "输入内容审核不通过，请修改提示词",
    "输入或生成内容可能包含敏感信息",
    "max_tokens 超过模型最大输出长度 8192",
    "输出长度超过限制",
    "图片大小超过限制 10MB",
    "文件过大，最大支持 20MB",
    "工具名称过长，最多 64 个字符",
    "输入参数 temperature 超出取值范围",
    "Authorization Token非法",
]


def ids(text: object) -> str:
    return str(text)[:40]


@pytest.mark.parametrize(("text", "window"), OVERFLOWS, ids=ids)
def test_e6_overflow_is_recognised_by_its_words(text: str, window: int | None) -> None:
    """E4, E6: in every provider's words; and the window that a text names corrects ours."""
    assert is_context_overflow(text)
    assert window_in(text) == window


@pytest.mark.parametrize("text", OTHER_ERRORS, ids=ids)
def test_e8_what_only_sounds_like_overflow_is_not(text: str) -> None:
    """E6, E8: other limits use the same verbs; unknown text is no overflow."""
    assert not is_context_overflow(text)
    assert not is_input_plus_output_overflow(text)


# Written after the rules, which were not changed for any of them.
HELD_OUT_OVERFLOWS = [
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4200 `inputs` tokens and 100 `max_new_tokens`",
    "Input validation error: `inputs` must have less than 1000 tokens. Given: 1203",
    "The input token count (1200345) exceeds the maximum number of tokens allowed (1048576).",
    "Input is too long for requested model.",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000. Try using a shorter prompt",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "The prompt (total length 5000) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens.",
    "ValueError: Requested token count exceeds the model's maximum context length of 131072 tokens.",
    "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
    "input length 10000 exceeds context length 8192",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "context window exceeded: the request has 250k tokens",
    "Range of input length should be [1, 30720]",
    "输入长度超过模型最大上下文长度限制",
    "输入tokens数超过模型上限 131072",
    "prompt tokens 130000 超出最大上下文窗口",
    "对话内容过长，超出了模型的最大 token 限制，请缩短后重试",
    "请求的 token 数量超过了模型支持的最大上下文长度 (32768)",
    "exceeded max context size: 200001 > 200000",
    "The conversation is too long. Please start a new conversation: context limit reached",
    "Error: the request's input tokens (33000) plus max output tokens exceed the model's context window (32768).",
    "messages too long: 210000 tokens, limit is 200000",
    "context_length_exceeded",
    "Request too large: total tokens 128500 exceed the model's context size of 128000",
    "The total number of input tokens exceeds the limit of 1,048,576 for this model",
]
HELD_OUT_OTHERS = [
    "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.",
    "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
    "max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    "Invalid API key provided",
    "tool names must be at most 64 characters",
    "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
    "请求过于频繁，请稍后再试：每分钟 token 数超过限制",
    "余额不足，请充值",
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
    "The server had an error while processing your request. The context was lost",
    "Too many requests, please wait before trying again. tokens per day (TPD)",
    "The file is too long: filename must be under 255 characters",
    "thinking.budget_tokens must be less than max_tokens",
    "stop sequences: too many, maximum is 4",
    "Request timed out: the connection was idle for too long",
    "Output blocked by content filtering policy",
    "密码长度超过限制",
    "metadata.user_id: string should have at most 256 characters",
]


def test_e6_the_rules_hold_for_texts_that_they_were_not_made_for() -> None:
    """E6, E8: recall of at least 0.97, and no false alarm."""
    found = [text for text in HELD_OUT_OVERFLOWS if is_context_overflow(text)]
    assert len(found) >= 0.97 * len(HELD_OUT_OVERFLOWS)
    assert [text for text in HELD_OUT_OTHERS if is_context_overflow(text)] == []


@pytest.mark.parametrize("text", [text for text, _ in OVERFLOWS], ids=ids)
def test_overflow_is_recognised_in_any_wrapping(text: str) -> None:
    """Case, JSON around it and a client's prefix change nothing."""
    assert is_context_overflow(text.upper())
    body = {"error": {"message": text, "type": "invalid_request_error", "code": 400}}
    assert is_context_overflow(json.dumps(body, ensure_ascii=False))
    assert is_context_overflow(f"Error code: 400 - {body}")
    assert is_context_overflow(f"LLM request failed: status 400 (model=claude-opus-5-5): {text}")


@pytest.mark.parametrize(
    ("text", "together"),
    [
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", True),
        ("input length and `max_tokens` exceed context limit: 201000 + 1000 > 200000", False),
        ("input length and max_tokens exceed context limit", True),
        (
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum "
                "context length is 65536 tokens and your request has 59062 input tokens "
                "(8192 > 65536 - 59062)."
            ),
            True,
        ),
        (
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9000 "
                "tokens (8000 in the messages, 1000 in the completion)."
            ),
            True,
        ),
        (
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9001 "
                "tokens (9000 in the messages, 1 in the completion)."
            ),
            False,
        ),
        (
            (
                "This model's maximum context length is 4097 tokens, however you requested 4569 tokens "
                "(4569 in your prompt; 0 for the completion)."
            ),
            False,
        ),
        (
            (
                "This model's maximum context length is 32768 tokens. However, you requested 8000 "
                "output tokens and your prompt contains at least 24769 input tokens, for a total of "
                "at least 32769 tokens."
            ),
            True,
        ),
        (
            (
                "`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1800 `inputs` tokens and "
                "512 `max_new_tokens`"
            ),
            True,
        ),
        (
            (
                "Requested token count exceeds the model's maximum context length of 131072 tokens. "
                "You requested a total of 140000 tokens: 130000 tokens from the input messages and "
                "10000 tokens for the completion."
            ),
            True,
        ),
        ("输入与输出 token 之和超过模型上限 8192", True),
        ("prompt is too long: 214007 tokens > 200000 maximum", False),
        ("上下文过长", False),
    ],
    ids=ids,
)
def test_e7_input_plus_output_is_told_from_input_alone(text: str, together: bool) -> None:
    """E7: only where less output would help."""
    assert is_context_overflow(text)
    assert is_input_plus_output_overflow(text) is together


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """No text breaks the reading, and a window is never a small number."""
    is_context_overflow(text)
    is_input_plus_output_overflow(text)
    assert (window_in(text) or 256) >= 256


@pytest.mark.parametrize(
    "part",
    [
        "prompt ",
        "exceeds ",
        "context ",
        "tokens ",
        "max ",
        "9",
        "9,",
        "(1 > 2 - ",
        "输入",
        "超",
        "上下文 ",
        "prompt tokens of the input ",
        "a.1",
        " ",
        "limit limit ",
        "\n",
        "input+max_",
    ],
    ids=repr,
)
def test_long_texts_are_read_quickly(part: str) -> None:
    """Every gap is bounded: nothing here takes more than a moment (pytest would hang, not fail)."""
    text = part * (200_000 // len(part))
    is_context_overflow(text)
    is_input_plus_output_overflow(text)
    window_in(text)


def test_what_a_provider_says_is_read_at_both_ends_of_a_long_text() -> None:
    """An error may carry a stack trace before it, or an echo of the request behind it."""
    said, echo = "prompt is too long: 214007 tokens > 200000 maximum", "lorem ipsum\n" * 5_000
    for text in (said + echo, echo + said):
        assert is_context_overflow(text)
        assert window_in(text) == 200_000
