"""Estimates against exact tokenizers, against what providers reported, and the laws of measuring (L12-L14, L21, B6)."""

import csv
import json
import math
import sysconfig
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import toktok  # type: ignore[import-untyped]
from hypothesis import example, given
from hypothesis import strategies as st

from longturn.core.families import ASCII_CLASSES, CLASSES, Family
from longturn.core.tokens import OPAQUE_CHARS_PER_TOKEN, SIMPLE, estimate, estimator_for, exact, features
from longturn.errors import ConfigError
from longturn.exact import openai

FRAMING = 4  # tokens a message (H21)

# Our family and the published tokenizers it stands for, by column of token_counts.csv.
COLUMNS = [
    (Family.OPENAI, "gpt-5", "o200k_gpt4o"),
    (Family.OPENAI_OLD, "gpt-4", "cl100k_gpt4"),
    (Family.CLAUDE, "claude-opus-4-6", "claude_old"),
    (Family.GEMINI, "gemini-3-pro", "gemma3"),
    (Family.GEMINI, "gemini-3-pro", "gemini_gemma1"),
    (Family.QWEN, "qwen3-coder", "qwen3"),
    (Family.QWEN, "qwen3-coder", "qwen3_5_toktok"),
    (Family.MISTRAL, "mistral-large", "mistral_tekken"),
    (Family.DEEPSEEK, "deepseek-chat", "deepseek_v3"),
    (Family.LLAMA, "llama-3.3-70b", "llama3"),
]
SYMBOLS_ALONE = {"emoji_only", "box_drawing", "math_symbols"}
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)  # lone surrogates too
AGENT_TEXT = st.text(st.sampled_from('agkEXz09 \n\t_-{"é—жक中가😀️\ud800\udc00'), max_size=200)
TEXTS = st.one_of(ANY_TEXT, AGENT_TEXT)


def script_texts(shared: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name, text and row of exact counts of each text over 3,000 characters."""
    folder = shared / "data" / "tokens"
    with (folder / "token_counts.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            text = (folder / "scripts" / f"{row['file']}.txt").read_bytes().decode()
            if len(text) > 3_000:
                yield row["file"], text, row


# --- against exact tokenizers


@pytest.mark.parametrize(("family", "model", "column"), COLUMNS, ids=[column for *_, column in COLUMNS])
def test_l12_no_text_is_estimated_far_below_its_exact_count(
    family: Family, model: str, column: str, shared: Path
) -> None:
    below = {}
    for name, text, row in script_texts(shared):
        ratio = estimate(text, model=model) / int(row[column])
        if ratio < (0.85 if name in SYMBOLS_ALONE else 0.95):
            below[name] = round(ratio, 3)
    assert not below
    assert estimator_for(model).name == family


@pytest.mark.parametrize("language", ["ru", "zh", "zh_tw", "ja", "ar", "hi"])
def test_l21_long_texts_are_never_more_than_5_percent_below_any_tokenizer_even_where_the_model_is_unknown(
    language: str, shared: Path
) -> None:
    texts = [(text, row) for name, text, row in script_texts(shared) if name.split("_", 1)[1] == language]
    assert texts
    for text, row in texts:
        for _, model, column in COLUMNS:
            assert estimate(text, model=model) >= 0.95 * int(row[column]), column
            assert estimate(text) >= 0.95 * int(row[column]), column


@pytest.mark.parametrize(
    ("model", "encoding"), [("gpt-5", "o200k_base"), ("gpt-4", "cl100k_base"), ("qwen3.5", "qwen3.5")]
)
def test_l12_whole_transcripts_are_estimated_between_0_95_and_1_35_of_their_exact_count(
    model: str, encoding: str, shared: Path
) -> None:
    estimator = estimator_for(model)
    for name, texts in transcripts(shared / "data" / "transcripts"):
        estimated = sum(estimator.tokens(estimator.measure(text)) for text in texts)
        counted = sum(toktok.batch_count(texts, encoding))
        assert 0.95 <= estimated / counted <= 1.35, name


def transcripts(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each recorded run of more than 2,000 characters as the texts that a model reads in it."""
    for path in sorted(path for path in folder.glob("*/*") if path.is_file()):
        for number, run in enumerate(runs(path)):
            texts = list(texts_in(run))
            if sum(map(len, texts)) > 2_000:
                yield f"{path.name}#{number}", texts


def runs(path: Path) -> list[Any]:
    if path.suffix == ".jsonl":
        return [json_lines(path)]
    document = json.loads(path.read_text(encoding="utf-8"))
    return document if path.name.startswith("airline") else [document]


def json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


READ_BY_THE_MODEL = {"content", "text", "thinking", "arguments", "input", "output", "args", "result", "name", "thought"}


def texts_in(value: object, key: str = "") -> Iterator[str]:
    """All strings under the keys of `READ_BY_THE_MODEL`, at any depth; objects without such keys in them as JSON."""
    if isinstance(value, str):
        if key in READ_BY_THE_MODEL:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item, key)
    elif isinstance(value, dict) and key in {"arguments", "input", "args"}:
        yield json.dumps(value, ensure_ascii=False)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from texts_in(item, name)


# --- on texts that are at hand everywhere; the fit knew none of them, only an upper bound for some repeated words


def standard_library() -> str:
    folder = Path(sysconfig.get_path("stdlib"))
    names = ["asyncio/tasks", "email/message", "http/client", "json/decoder", "logging/handlers", "unittest/case"]
    return "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in names)


def file_listing() -> str:
    lines = (
        f"-rw-r--r-- 1 user staff {n * 7919 % 100_000:>8} Nov {n % 30 + 1:>2} {n % 24:02}:{n * 7 % 60:02} module_{n}.py"
        for n in range(300)
    )
    return "\n".join(lines)


def csv_lines() -> str:
    lines = (
        f"{n},{n * 37 % 1_000}.{n % 100:02},item {n % 17},2026-11-{n % 30 + 1:02},{'false' if n % 3 == 0 else 'true'}"
        for n in range(300)
    )
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("model", "encoding"), [("gpt-5", "o200k_base"), ("gpt-4", "cl100k_base"), ("qwen3", "qwen3.5")]
)
@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        pytest.param(standard_library(), 0.98, 1.15, id="sources"),
        pytest.param(file_listing(), 0.90, 1.15, id="ls"),
        pytest.param(csv_lines(), 0.95, 1.35, id="csv"),
        pytest.param("alpha " * 600, 0.90, 1.30, id="alpha"),
        pytest.param("some output " * 600, 0.90, 1.30, id="some output"),
        pytest.param("paragraph of a chapter " * 600, 0.90, 1.50, id="paragraph"),
        pytest.param("the " * 600, 0.60, 1.20, id="the"),  # the shortest words are cheap: half of most texts
        pytest.param("make " * 600, 0.90, 3.50, id="make"),  # two foreign pairs: as dear as one word gets
    ],
)
def test_l12_plain_texts_outside_of_the_fit_are_estimated_near_their_exact_count(
    text: str, least: float, most: float, model: str, encoding: str
) -> None:
    assert least <= estimate(text, model=model) / toktok.batch_count([text], encoding)[0] <= most


@pytest.mark.parametrize("word", ["alpha ", "some output ", "the ", "value "])
@pytest.mark.parametrize("model", [model for _, model, _ in COLUMNS] + [None])
def test_l12_repeated_plain_words_are_at_most_half_as_much_again_for_any_family(word: str, model: str | None) -> None:
    assert estimate(word * 600, model=model) <= 1.5 * 600 * len(word.split())


# --- against what providers reported: growth of the input tokens from one call to the next, and what came in between


def arrived(model: str, texts: list[str], messages: int) -> int:
    return sum(estimate(text, model=model) for text in texts) + FRAMING * messages


def claude_code_steps(path: Path) -> Iterator[tuple[int, int]]:
    """Reported growth and estimate of each step; not where a user spoke, since earlier thinking is then left out."""
    call, reported, texts, messages, spoken = "", 0, list[str](), 0, False
    for entry in json_lines(path):
        if entry["type"] not in {"user", "assistant"}:
            continue
        message = entry["message"]
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant" and message["id"] != call:
            usage = message["usage"]
            total = sum(usage[key] for key in usage if key.endswith("input_tokens"))
            if not spoken and 0 < reported < total:
                yield total - reported, arrived(message["model"], texts, messages)
            call, reported, texts, messages, spoken = message["id"], total, [], 1, False
        messages += message["role"] == "user"
        spoken = spoken or (message["role"] == "user" and any(block["type"] == "text" for block in blocks))
        texts += [text for block in blocks for text in block_texts(block)]


def block_texts(block: dict[str, Any]) -> list[str]:
    if block["type"] == "tool_use":
        return [block["name"], json.dumps(block["input"], ensure_ascii=False)]
    if block["type"] == "tool_result":
        content = block["content"]
        return [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    return [block.get("text", block.get("thinking", ""))]


def codex_steps(path: Path) -> Iterator[tuple[int, int]]:
    """The same for Codex: sealed reasoning counts by the reported reasoning tokens."""
    reported, texts, messages, reasoning = 0, list[str](), 0, 0
    for entry in json_lines(path):
        payload = entry["payload"]
        if entry["type"] == "response_item" and payload["type"] != "reasoning":
            texts += list(texts_in(payload))
            messages += 1
        if payload.get("type") == "token_count" and payload["info"]:
            usage = payload["info"]["last_token_usage"]
            if 0 < reported < usage["input_tokens"]:
                yield usage["input_tokens"] - reported, arrived("gpt-5", texts, messages) + reasoning
            reported, reasoning = usage["input_tokens"], usage["reasoning_output_tokens"]
            texts, messages = [], 0


def gemini_cli_steps(path: Path) -> Iterator[tuple[int, int]]:
    reported, texts, messages = 0, list[str](), 0
    for message in json.loads(path.read_text(encoding="utf-8"))["messages"]:
        if message["type"] == "gemini":
            total = message["tokens"]["input"]
            if 0 < reported < total:
                yield total - reported, arrived("gemini-3-pro", texts, messages)
            reported, texts, messages = total, [], 0
        calls = [{key: call.get(key) for key in ("name", "args", "result")} for call in message.get("toolCalls", [])]
        texts += [message["content"], *texts_in(calls)]
        messages += 1 + len(calls)


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [
        ("claude-code/three-requests-197-rounds.jsonl", claude_code_steps),  # Claude Opus 4.6
        ("claude-code/huge-results.jsonl", claude_code_steps),  # Claude Sonnet 4.5
        ("claude-code/subagent-*.jsonl", claude_code_steps),  # Claude Haiku 4.5
        ("codex/rollout-102-rounds.jsonl", codex_steps),  # GPT-5
        ("gemini-cli/file-ops.json", gemini_cli_steps),  # Gemini 3
    ],
)
def test_l12_estimates_are_between_0_95_and_1_25_of_what_providers_reported(
    pattern: str, steps: Callable[[Path], Iterator[tuple[int, int]]], shared: Path
) -> None:
    pairs = [pair for path in sorted((shared / "data" / "transcripts").glob(pattern)) for pair in steps(path)]
    reported, estimated = sum(growth for growth, _ in pairs), sum(estimate for _, estimate in pairs)
    assert reported > 5_000
    assert 0.95 <= estimated / reported <= 1.25


def test_b25_sealed_reasoning_of_32780_characters_counts_about_the_1759_tokens_that_were_reported() -> None:
    assert 0.95 <= 32_780 / OPAQUE_CHARS_PER_TOKEN / 1_759 <= 1.25


# --- the plain rule


def is_cjk(char: str) -> bool:
    """The blocks of Chinese, Japanese and Korean, as far as U+FFFF."""
    blocks = [(0x1100, 0x11FF), (0x2E00, 0x9FFF), (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0xFF00, 0xFFFF)]
    return any(first <= ord(char) <= last for first, last in blocks)


@given(TEXTS)
def test_l12_the_plain_rule_is_ascii_by_four_plus_cjk_plus_half_of_all_else(text: str) -> None:
    ascii_chars = sum(char.isascii() for char in text)
    cjk = sum(map(is_cjk, text))
    other = len(text) - ascii_chars - cjk
    assert SIMPLE.tokens(SIMPLE.measure(text)) == math.ceil(ascii_chars / 4 + cjk + other / 2)


# --- measuring


def counted_one_by_one(text: str) -> dict[str, int]:
    """The ASCII classes by plain loops over characters: what the passes over big integers must give."""
    kinds = ["l" if c.isascii() and c.isalpha() else kind_of(c) for c in text]
    before = ["", *kinds]
    starts = [kind for last, kind in zip(before, kinds, strict=False) if kind != last]
    pairs = list(pairwise(text))
    runs_of_white = "".join("w" if kind == "w" else " " for kind in kinds).split()
    return {
        "lower": sum(c.isascii() and c.islower() for c in text),
        "upper": sum(c.isascii() and c.isupper() for c in text),
        "foreign pair": sum(a in "agkmuy" and b in "agkmuy" for a, b in pairs),
        "word": starts.count("l"),
        "camel": sum(a.isascii() and a.islower() and b.isascii() and b.isupper() for a, b in pairs),
        "letter/digit": sum({a, b} == {"l", "d"} for a, b in pairwise(kinds)),
        "digit": kinds.count("d"),
        "digit run": starts.count("d"),
        "punctuation": kinds.count("p"),
        "punctuation run": starts.count("p"),
        "space run": sum(len(run) > 1 for run in runs_of_white),
        "space": sum(c in " \t" for c in text),
        "newline": sum(c in "\n\r" for c in text),
        "control": kinds.count("c"),
    }


def kind_of(char: str) -> str:
    if not char.isascii():
        return "-"
    if char in " \t\n\r":
        return "w"
    return "d" if char.isdigit() else "p" if char.isprintable() else "c"


@given(TEXTS, st.integers(0, 200), st.sampled_from(["x", "9", " ", "-", "é", "中", "😀"]))
@example("aB1  \n", 3, " ")
def test_b6_a_text_over_a_chunk_border_is_measured_as_if_it_were_counted_one_by_one(
    text: str, ahead: int, filler: str
) -> None:
    whole = filler * (8192 - ahead) + text
    assert dict(zip(CLASSES, features(whole)[:ASCII_CLASSES], strict=False)) == counted_one_by_one(whole)
    assert dict(zip(CLASSES, features(text)[:ASCII_CLASSES], strict=False)) == counted_one_by_one(text)
    assert sum(features(whole)[ASCII_CLASSES:]) == sum(not char.isascii() for char in whole)


@given(TEXTS, TEXTS)
def test_b6_features_of_two_texts_add_up_but_for_runs_over_the_seam(first: str, second: str) -> None:
    runs = {"foreign pair", "word", "camel", "letter/digit", "digit run", "punctuation run", "space run"}
    joined, apart = padded(first + second), [sum(pair) for pair in zip(padded(first), padded(second), strict=True)]
    for name, together, summed in zip(CLASSES, joined, apart, strict=True):
        assert abs(together - summed) <= (name in runs), name


def padded(text: str) -> list[int]:
    counts = list(features(text))
    return counts + [0] * (len(CLASSES) - len(counts))


@given(TEXTS, TEXTS, st.sampled_from([model for _, model, _ in COLUMNS] + [None]))
def test_l12_an_estimate_is_a_whole_number_for_any_text_and_hardly_grows_by_joining(
    first: str, second: str, model: str | None
) -> None:
    both = estimate(first + second, model=model)
    assert type(both) is int
    assert (both > 0) == bool(first + second)
    assert both <= estimate(first, model=model) + estimate(second, model=model) + 4
    assert both >= max(estimate(first, model=model), estimate(second, model=model)) - 4


def test_b6_measuring_a_long_text_takes_memory_for_a_chunk_only() -> None:
    text = "def f(x):\n    return x + 1  # é\n" * 200_000
    tracemalloc.start()
    try:
        features(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_l13_features_remembered_for_one_family_serve_every_other() -> None:
    text = 'результат: {"path": "src/a.py", "lines": 120} 結果 😀'
    remembered = estimator_for("gpt-5").measure(text)
    for model in ("claude-opus-4-6", "gemini-3-pro", "qwen3-coder", None):
        other = estimator_for(model)
        assert other.measure is features
        assert other.tokens(remembered) == estimate(text, model=model)
    assert SIMPLE.measure is features


# --- names of models


@pytest.mark.parametrize(
    ("family", "models"),
    [
        (
            Family.OPENAI,
            "gpt-5 openai:gpt-5.1 azure:gpt-4o openai/gpt-4.1-mini chatgpt-4o-latest o3 openai:o4-mini o1-pro",
        ),
        (
            Family.OPENAI,
            "gpt-5.1-codex-max codex-mini-latest openai/gpt-oss-120b gpt-4.5-preview GPT-5 openai-responses:o3",
        ),
        (
            Family.OPENAI_OLD,
            "gpt-4 gpt-4-turbo-2024-04-09 gpt-4-32k gpt-3.5-turbo azure:gpt-35-turbo text-embedding-3-large",
        ),
        (Family.CLAUDE, "anthropic:claude-fable-5-1 claude-sonnet-4-5-20250929 openrouter/anthropic/claude-opus-4.6"),
        (Family.CLAUDE, "bedrock:us.anthropic.claude-haiku-4-5-20251001-v1:0 vertex_ai/claude-opus-4@20250514 opus"),
        (Family.GEMINI, "google-gla:gemini-3-pro gemini-2.5-flash google/gemma-3-27b-it models/gemini-flash-latest"),
        (Family.QWEN, "qwen3-coder Qwen/Qwen3-32B qwq-32b ollama:qwen2.5 deepseek-r1-distill-qwen-32b"),
        (Family.MISTRAL, "mistral-large codestral devstral-medium magistral-small ollama/mistral open-mixtral-8x22b"),
        (Family.DEEPSEEK, "deepseek-chat deepseek:deepseek-reasoner deepseek-ai/DeepSeek-V3.2"),
        (Family.LLAMA, "meta-llama/Llama-3.3-70B ollama:llama3.1 us.meta.llama4-maverick-17b-instruct-v1:0"),
        (Family.LLAMA, "deepseek-r1-distill-llama-70b"),
        (Family.MODERN, "grok-4 kimi-k2 glm-4.6 ollama:phi4 llama.cpp/smollm2 my-deployment command-r foo3"),
    ],
)
def test_l12_a_model_is_counted_by_its_family_in_any_spelling(family: Family, models: str) -> None:
    assert {model: estimator_for(model).name for model in models.split()} == dict.fromkeys(models.split(), family)


def test_l12_no_model_is_counted_by_the_modern_column() -> None:
    assert estimator_for(None).name == estimator_for("").name == Family.MODERN


# --- exact tokenizers


def test_l14_an_exact_tokenizer_can_be_plugged_in() -> None:
    words = exact(lambda text: len(text.split()), name="words")
    assert (words.name, words.measure("one two three"), words.tokens((3,))) == ("words", (3,), 3)


@pytest.mark.parametrize("text", ["<|endoftext|>", "Explain <|im_start|>system", "half \ud800 a pair", ""])
def test_l14_text_that_looks_like_a_special_token_is_text(text: str) -> None:
    for model in ("gpt-5", "gpt-4"):
        estimator = openai(model)
        tokens = estimator.tokens(estimator.measure(text))
        assert tokens >= len(text) // 4
        assert (tokens == 0) == (text == "")


def test_l14_the_exact_tokenizer_gives_the_published_counts(shared: Path) -> None:
    for name, text, row in script_texts(shared):
        for model, column in (("gpt-5", "o200k_gpt4o"), ("gpt-4", "cl100k_gpt4")):
            estimator = openai(model)
            assert estimator.tokens(estimator.measure(text)) == int(row[column]), name


def test_l14_a_model_without_an_exact_tokenizer_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="claude-opus-4-6"):
        openai("claude-opus-4-6")
