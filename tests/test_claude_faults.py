"""Every error of the SDK and of its transport has one of ours, with a sentence that says what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import anthropic
import httpx2
import pytest

from orchestrator.claude.faults import (
    DETAIL_CHARS,
    ERRORS,
    SENTENCES,
    Target,
    from_answer,
    from_exception,
    retry_after,
)
from orchestrator.errors import (
    CallTimedOut,
    ConnectionDropped,
    ConnectionFailed,
    ContextOverflow,
    InvalidReply,
    ModelError,
    NotPermitted,
    OutOfCredit,
    Overloaded,
    RateLimited,
    RequestRejected,
    RequestTooLarge,
    ServerFailed,
    StreamCut,
    Unauthenticated,
    UnknownModel,
)

TARGET = Target("http://server:8080/", "claude-x", secret="key-of-mine")
HTTP_REQUEST = httpx2.Request("POST", "http://server:8080/v1/messages")


def answer(
    status: int, message: str, kind: str = "invalid_request_error", **headers: str
) -> ModelError:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return from_answer(status, body, {k.replace("_", "-"): v for k, v in headers.items()}, TARGET)


def subclasses(cls: type[Exception]) -> Iterator[type[Exception]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


def made(cls: type[Exception]) -> Exception:
    """An instance of an SDK's or a transport's exception, whatever its constructor wants."""
    if issubclass(cls, anthropic.APIStatusError):
        status = getattr(cls, "status_code", 400 if cls is anthropic.APIStatusError else 500)
        response = httpx2.Response(status, request=HTTP_REQUEST)
        return cls("refused", response=response, body=None)
    error = cls.__new__(cls)
    Exception.__init__(error, "went wrong")
    vars(error)["request_id"] = None
    return error


# -- the table is complete

SDK: list[type[Exception]] = sorted(
    {anthropic.AnthropicError, *subclasses(anthropic.AnthropicError)}, key=str
)
WIRE: list[type[Exception]] = sorted(
    {httpx2.InvalidURL, httpx2.HTTPError, *subclasses(httpx2.HTTPError)}, key=str
)


@pytest.mark.parametrize("cls", [*SDK, *WIRE], ids=str)
def test_every_exception_of_the_sdk_and_its_transport_is_one_of_ours(cls: type[Exception]) -> None:
    ours = from_exception(made(cls), TARGET)
    assert isinstance(ours, ModelError)
    assert type(ours) is not ModelError


def test_the_sdk_exports_no_exception_that_the_walk_misses() -> None:
    exported = [getattr(anthropic, name) for name in anthropic.__all__]
    classes = [x for x in exported if isinstance(x, type) and issubclass(x, Exception)]
    assert set(classes) <= set(SDK)
    assert len(SDK) > 100


def test_every_row_is_used_and_every_class_has_a_sentence() -> None:
    keys = [key for key, _ in ERRORS]
    assert len(keys) == len(set(keys))
    assert {kind for _, kind in ERRORS} | {StreamCut} == set(SENTENCES)
    # Elsewhere there may be kinds of our own making, which no service causes.
    ours = {kind for kind in subclasses(ModelError) if kind.__module__ == "orchestrator.errors"}
    assert ours == set(SENTENCES)
    names = {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in (*SDK, *WIRE)}
    named = {key for key in keys if isinstance(key, str) and "." in key}
    assert named - names == {"json.JSONDecodeError"}


STATUSES = {
    400: RequestRejected,
    401: Unauthenticated,
    402: OutOfCredit,
    403: NotPermitted,
    404: UnknownModel,
    405: RequestRejected,
    408: CallTimedOut,
    409: ServerFailed,
    412: RequestRejected,
    413: RequestTooLarge,
    422: RequestRejected,
    429: RateLimited,
    431: RequestRejected,
    499: ConnectionFailed,
    500: ServerFailed,
    501: ServerFailed,
    502: ServerFailed,
    503: ServerFailed,
    504: CallTimedOut,
    529: Overloaded,
    599: ServerFailed,
}


@pytest.mark.parametrize(("status", "expected"), STATUSES.items())
@pytest.mark.parametrize("kind", ["invalid_request_error", "api_error", "something_new"])
def test_a_status_decides_where_the_body_says_little(
    status: int, expected: type[ModelError], kind: str
) -> None:
    error = answer(status, "no", kind)
    assert type(error) is expected
    assert error.status == status


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (anthropic.APITimeoutError(HTTP_REQUEST), CallTimedOut),
        (anthropic.APIConnectionError(request=HTTP_REQUEST), ConnectionFailed),
        (anthropic.RetryableError("again"), ServerFailed),
        (anthropic.CredentialsError("no profile"), Unauthenticated),
        (httpx2.ReadTimeout("silence"), CallTimedOut),
        (httpx2.PoolTimeout("busy"), CallTimedOut),
        (httpx2.ConnectTimeout("nobody"), ConnectionFailed),
        (httpx2.ConnectError("refused"), ConnectionFailed),
        (httpx2.RemoteProtocolError("closed"), ConnectionDropped),
        (httpx2.UnsupportedProtocol("ftp://"), UnknownModel),
        (httpx2.DecodingError("bad gzip"), InvalidReply),
        (json.JSONDecodeError("bad", "<", 0), InvalidReply),
    ],
    ids=repr,
)
def test_errors_without_a_status_go_by_their_class(
    error: Exception, expected: type[ModelError]
) -> None:
    assert type(from_exception(error, TARGET)) is expected


def test_the_cause_of_an_sdk_error_tells_more_than_its_wrapper() -> None:
    """A host that drops packets never answered: no slow model, but no connection."""
    error = anthropic.APITimeoutError(HTTP_REQUEST)
    error.__cause__ = httpx2.ConnectTimeout("timed out")
    assert type(from_exception(error, TARGET)) is ConnectionFailed


def test_a_connection_that_breaks_within_the_answer_has_cut_it() -> None:
    broken = httpx2.ReadError("reset")
    assert type(from_exception(broken, TARGET, began=True)) is StreamCut
    silent = from_exception(httpx2.ReadTimeout(""), TARGET, began=True)
    assert type(silent) is CallTimedOut


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), httpx2.StreamConsumed()])
def test_a_bug_of_ours_is_not_dressed_up_as_a_model_error(error: Exception) -> None:
    assert from_exception(error, TARGET) is None


# -- what a body says beyond its status


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_an_overflow_is_known_by_its_text_under_any_status(status: int) -> None:
    error = answer(status, "prompt is too long: 210000 tokens > 200000 maximum")
    assert type(error) is ContextOverflow
    assert "210000 tokens > 200000 maximum" in str(error)


def test_llama_cpp_s_overflow_is_one_and_names_the_window() -> None:
    message = "request (643 tokens) exceeds the available context size (512 tokens)"
    kind = "exceed_context_size_error"
    body = {"error": {"code": 400, "message": message, "type": kind, "n_ctx": 512}}
    error = from_answer(400, body, {}, TARGET)
    assert type(error) is ContextOverflow
    assert "(n_ctx 512)" in str(error)


def test_llama_cpp_loading_its_model_is_overloaded() -> None:
    body = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    assert type(from_answer(503, body, {}, TARGET)) is Overloaded


def test_an_unrelated_400_is_rejected_and_too_many_bytes_is_too_large() -> None:
    orphan = "messages.2: `tool_use` ids were found without `tool_result` blocks"
    assert type(answer(400, orphan)) is RequestRejected
    assert type(answer(413, "Request exceeds the maximum size", "request_too_large")) is (
        RequestTooLarge
    )


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "You have reached your specified API usage limits. Access returns on 2026-12-01."),
        (429, "This organization's monthly spend limit is reached"),
        (429, "You exceeded your current quota, please check your plan and billing details."),
        (429, "您的账户已欠费，请充值后重试。"),
        (400, "Your credit balance is too low to access the Anthropic API."),
    ],
)
def test_a_spend_cap_is_out_of_credit_whatever_its_status(status: int, message: str) -> None:
    assert type(answer(status, message, "rate_limit_error" if status == 429 else "")) is OutOfCredit


def test_a_rate_limit_that_says_when_to_come_back_is_no_spend_cap() -> None:
    error = answer(429, "over your usage limit", "rate_limit_error", retry_after="7")
    assert type(error) is RateLimited
    assert error.retry_after == 7
    assert "it asks to wait 7 s" in str(error)


@pytest.mark.parametrize("code", ["enforced_spend_limit_reached", "contract_spend_limit_reached"])
def test_a_spend_cap_with_a_code_is_known_by_it(code: str) -> None:
    details = {"error_code": code}
    body = {"error": {"type": "rate_limit_error", "message": "no", "details": details}}
    assert type(from_answer(429, body, {}, TARGET)) is OutOfCredit


@pytest.mark.parametrize("status", [429, 500, 529])
def test_a_service_that_says_do_not_retry_is_believed(status: int) -> None:
    error = answer(status, "no", x_should_retry="false")
    assert type(error) is RequestRejected
    assert not error.retryable
    assert answer(status, "no", x_should_retry="true").retryable


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": "model 'm' not found"}, "HTTP 404: model 'm' not found"),
        ({"detail": "Not Found"}, "HTTP 404: Not Found"),
        ({"message": "no route"}, "HTTP 404: no route"),
        ("<!doctype html><p>404", "HTTP 404: an HTML page"),
        ("plain words", "HTTP 404: plain words"),
        (None, "HTTP 404"),
        ({}, "HTTP 404"),
        ([], "HTTP 404"),
    ],
)
def test_any_server_s_error_body_can_be_read(body: Any, said: str) -> None:
    assert f"({said})" in str(from_answer(404, body, {}, TARGET))


# -- when to come back

NOW = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "20"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "20"}, 20),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:30 -0000"}, 30),
        ({"retry-after": "Sun, 01 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "4233600"}, 4_233_600),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_the_time_to_come_back_is_read_in_all_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, NOW) == seconds


# -- what people read


@pytest.mark.parametrize("kind", SENTENCES)
def test_a_message_is_one_sentence_that_names_the_address(kind: type[ModelError]) -> None:
    sentence = TARGET.sentence(kind, "HTTP 400:\n two\n  lines")
    assert "http://server:8080" in sentence
    assert sentence.endswith("(HTTP 400: two lines)")
    assert "\n" not in sentence


def test_sentences_name_the_fix() -> None:
    assert "set ANTHROPIC_API_KEY" in str(answer(401, "invalid x-api-key"))
    unknown = str(answer(404, "model: claude-x", "not_found_error"))
    assert "claude-x" in unknown
    assert "--model" in unknown
    refused = str(from_exception(httpx2.ConnectError("refused"), TARGET))
    assert "check the network and --base-url" in refused


def test_a_long_text_of_a_server_is_shortened() -> None:
    error = answer(400, "x" * 100_000)
    assert len(str(error)) < DETAIL_CHARS + 200


@pytest.mark.parametrize(
    "echo",
    [
        "bad key key-of-mine",
        "bad key sk-ant-api03-abcdefgh",
        "bad header Bearer abcdefghijklmnop",
        "no proxy at http://me:pass-word@proxy",
    ],
)
def test_a_secret_that_a_server_repeats_is_not_repeated(echo: str) -> None:
    secrets = ("key-of-mine", "api03", "abcdefghijklmnop", "pass-word")
    said = str(answer(401, echo))
    assert "[key]" in said
    assert not any(secret in said for secret in secrets)


def test_secrets_in_the_base_url_and_in_the_target_are_not_shown() -> None:
    target = Target("https://me:pass-word@gate.way/claude/?token=hidden", "m", "key-of-mine")
    assert target.sentence(Overloaded) == (
        "https://gate.way/claude has no room for m for now: try again later"
    )
    assert "key-of-mine" not in repr(target)
