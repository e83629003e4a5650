"""The model-window table: what it knows, how names are found in it, and where it comes from."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.context import make_windows, window_for
from orchestrator.context.windows import FLOOR_OUTPUT_TOKENS, FLOOR_TOKENS, Window, family_of
from orchestrator.context.windows_table import GENAI_PRICES_VERSION, WINDOWS

# (window, input cap, output cap), from the providers' published lists, November 2026.
FACTS = {
    "claude-fable-5-2": (1_000_000, 1_000_000, 128_000),
    "claude-mythos-5-1": (1_000_000, 1_000_000, 128_000),
    "claude-mythos-preview": (1_000_000, 1_000_000, 128_000),
    "claude-opus-5-5": (1_000_000, 1_000_000, 128_000),
    "claude-sonnet-5-5": (1_000_000, 1_000_000, 128_000),
    "claude-haiku-5-5": (1_000_000, 1_000_000, 128_000),
    "claude-sonnet-5": (1_000_000, 1_000_000, 128_000),
    "claude-opus-4-8": (1_000_000, 1_000_000, 128_000),
    "claude-opus-4-6": (1_000_000, 1_000_000, 128_000),
    "claude-sonnet-4-6": (1_000_000, 1_000_000, 64_000),
    "claude-opus-4-5": (200_000, 200_000, 64_000),
    "claude-sonnet-4-5": (200_000, 200_000, 64_000),
    "claude-haiku-4-5": (200_000, 200_000, 64_000),
    "claude-opus-4-1": (200_000, 200_000, 32_000),
    "claude-opus-4-20250514": (200_000, 200_000, 32_000),
    "claude-sonnet-4-20250514": (200_000, 200_000, 64_000),
    "claude-3-7-sonnet-20250219": (200_000, 200_000, 64_000),
    "claude-3-5-haiku-20241022": (200_000, 200_000, 8_192),
    "claude-3-haiku-20240307": (200_000, 200_000, 4_096),
    "gpt-5": (400_000, 272_000, 128_000),
    "gpt-5-mini": (400_000, 272_000, 128_000),
    "gpt-5-pro": (400_000, 272_000, 272_000),
    "gpt-5-chat-latest": (128_000, 128_000, 16_384),
    "gpt-5.1-codex": (400_000, 272_000, 128_000),
    "gpt-5.4": (1_050_000, 922_000, 128_000),
    "gpt-5.4-mini": (400_000, 272_000, 128_000),
    "gpt-4.1-nano": (1_047_576, 1_047_576, 32_768),
    "gpt-4o": (128_000, 128_000, 16_384),
    "o3": (200_000, 200_000, 100_000),
    "o4-mini": (200_000, 200_000, 100_000),
    "gemini-2.5-pro": (1_048_576, 1_048_576, 65_536),
    "gemini-2.5-flash-lite": (1_048_576, 1_048_576, 65_536),
    "gemini-3-flash-preview": (1_048_576, 1_048_576, 65_536),
    "gemini-3.1-pro": (1_048_576, 1_048_576, 65_536),
    "grok-4.3": (1_000_000, 1_000_000, 30_000),
    "deepseek-v4-pro": (1_000_000, 1_000_000, 384_000),
    # Sources disagree on how much input it takes: the smaller.
    "deepseek-chat": (1_000_000, 131_072, 384_000),
    "kimi-k2-0711-preview": (131_072, 131_072, 16_384),
    "kimi-k2-0905-preview": (262_144, 262_144, 262_144),
    "kimi-k2-thinking-turbo": (262_144, 262_144, 262_144),
    "kimi-k2.5": (262_144, 262_144, 262_144),
    "glm-4.5": (131_072, 128_000, 98_304),
    "glm-4.6": (204_800, 200_000, 131_072),
    "MiniMax-M2": (196_608, 196_608, 128_000),
    "MiniMax-M2.7-highspeed": (204_800, 204_800, 131_072),
    "qwen-max": (32_768, 30_720, 8_192),
    "qwen3-max": (262_144, 258_048, 65_536),
    "qwen3-coder-plus": (1_048_576, 997_952, 65_536),
    "qwen3.5-35b-a3b": (262_144, 262_144, 65_536),
    "codestral-latest": (256_000, 128_000, 4_096),
    "devstral-medium-2507": (128_000, 128_000, 128_000),
    "llama-3.3-70b-instruct": (128_000, 128_000, 4_096),
    "rehearsal": (200_000, 200_000, 64_000),
}


@pytest.mark.parametrize(("model", "sizes"), FACTS.items())
def test_e4_the_table_knows_the_models_in_use(model: str, sizes: tuple[int, int, int]) -> None:
    """E4: window, input cap and output cap."""
    assert window_for(model) == Window(*sizes)


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5:free", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("bedrock/global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-haiku-4-5-v1:0",
            "claude-haiku-4-5",
        ),
        ("vertex_ai/claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("claude-4.5-sonnet", "claude-sonnet-4-5"),
        ("company-claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-3-5-sonnet-latest", "claude-3.5-sonnet"),
        ("models/gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("azure/gpt-4o-2024-08-06", "gpt-4o"),
        ("ft:gpt-4o-mini-2024-07-18:org::id", "gpt-4o-mini"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("accounts/fireworks/models/kimi-k2p5", "kimi-k2.5"),
        ("moonshotai/Kimi-K2-Thinking", "kimi-k2-thinking"),
        ("zai-org/GLM-4.6-FP8", "glm-4.6"),
        ("meta.llama3-3-70b-instruct-v1:0", "llama-3.3-70b"),
        ("amazon.nova-pro-v1:0", "nova-pro"),
        ("us.deepseek.r1-v1:0", "deepseek-r1"),
    ],
)
def test_a_model_is_the_same_under_every_providers_name_for_it(name: str, same: str) -> None:
    """E4: prefixes, dates, revisions and punctuation do not matter."""
    found = window_for(name)
    assert found == window_for(same)
    assert found.known


@pytest.mark.parametrize(
    "model",
    ["claude-sonnet-4-5-1m", "anthropic/claude-sonnet-4-5[1m]", "claude-something-1m-20270101"],
)
def test_e4_a_claude_may_ask_for_a_million_by_name(model: str) -> None:
    """E4: and then has it, whatever its window is without."""
    assert window_for(model) == Window(1_000_000, 1_000_000, 64_000)


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-opus-9", 1_000_000),
        ("claude-fable-latest", 1_000_000),
        ("claude-opus-4-9", 200_000),
        ("claude-nonsense", 200_000),
        ("gemini-5-ultra", 1_048_576),
        ("gpt-5.9-mini", 400_000),
        ("o7-mini", 128_000),
        ("grok-9", 131_072),
        ("z-ai/glm-6", 128_000),
        ("kimi-k9", 128_000),
        ("mistral-large-9", 128_000),
        ("llama-9-70b", FLOOR_TOKENS),
        ("deepseek-r1-distill-qwen-7b", FLOOR_TOKENS),
        ("gemini-2.5-pro-tts", FLOOR_TOKENS),
        ("never-heard-of", FLOOR_TOKENS),
        ("", FLOOR_TOKENS),
    ],
)
def test_e4_an_unknown_generation_is_guessed_by_its_line(model: str, window: int) -> None:
    """E4: never by an earlier generation's entry; a guess says so, and is low."""
    found = window_for(model)
    assert found.window == window
    assert not found.known


def test_unknown_models_get_the_floor() -> None:
    floor = Window(FLOOR_TOKENS, FLOOR_TOKENS, FLOOR_OUTPUT_TOKENS, known=False)
    assert window_for("some-model") == floor


NAMES = st.one_of(
    st.text(),
    st.sampled_from(sorted(WINDOWS)),
    st.text("abclmopgt0159.-_/:@[] ", max_size=24).map("claude-".__add__),
    st.lists(
        st.sampled_from(
            [
                "claude",
                "gpt",
                "gemini",
                "opus",
                "4",
                "5",
                "1m",
                "v1:0",
                "latest",
                ".",
                "-",
                "/",
                "@",
            ]
        )
    ).map("-".join),
)


@given(NAMES)
def test_any_name_has_a_window(model: str) -> None:
    """`window_for` never raises, and its figures fit each other."""
    found = window_for(model)
    assert 0 < found.input_cap <= found.window
    assert 0 < found.output_cap <= found.window


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789.-/:") | st.sampled_from(sorted(WINDOWS)))
def test_case_does_not_matter(model: str) -> None:
    assert window_for(model.upper()) == window_for(model)


@given(
    st.sampled_from(sorted(WINDOWS)),
    st.sampled_from(["", "anthropic/", "openrouter/x/", "models/", "us.anthropic.", "eu.amazon."]),
    st.sampled_from(["", "-v1:0", ":free", "-fp8", "@20270101", "-2027-01-01", "-20270101"]),
)
def test_prefixes_and_suffixes_do_not_matter(model: str, prefix: str, suffix: str) -> None:
    assert window_for(prefix + model + suffix) == window_for(model) == Window(*WINDOWS[model])


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-opus-4-5-20251101", "claude-opus"),
        ("us.anthropic.claude-haiku-4-5-v1:0", "claude-haiku"),
        ("claude-3-5-haiku", "claude-haiku"),
        ("openai/gpt-4o", "gpt"),
        ("llama3.1:8b", "llama"),
        ("local", "local"),
        ("7b", "7b"),
    ],
)
def test_e1_a_family_is_a_models_line_without_its_generation(model: str, family: str) -> None:
    assert family_of(model) == family


def test_the_table_is_sorted_and_its_figures_fit() -> None:
    assert list(WINDOWS) == sorted(WINDOWS)
    for window, input_cap, output_cap in WINDOWS.values():
        assert 0 < input_cap <= window
        assert 0 < output_cap <= window


def test_the_table_is_what_its_script_makes() -> None:
    """Made from another release of genai-prices it may differ in figures, not in shape."""
    made = make_windows.table()
    assert list(made) == sorted(made)
    if version("genai-prices") == GENAI_PRICES_VERSION:
        assert make_windows.source(made) == make_windows.TABLE.read_text(encoding="utf-8")


def test_reading_the_table_needs_no_price_list() -> None:
    """genai-prices is a heavy import, for the script alone."""
    code = "import sys, orchestrator.context.windows as w; w.window_for('gpt-5'); "
    code += "sys.exit('genai_prices' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
