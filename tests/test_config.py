"""The configuration file (S15-S17): what it means, what is refused in which words, and old settings written anew."""

import contextlib
import io
import json
import math
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from longturn.config import Config, ModelSettings, effective, examine, load, migrate, read
from longturn.config.checked import camel, snake
from longturn.config.document import MOST_CHARACTERS
from longturn.config.schema import Sections, allowed, hints, is_section, of_each
from longturn.core.caches import Prices
from longturn.core.policy import Policy, Pruning, Retain, Summarization, Trigger, TriggerType
from longturn.core.rungs import RUNGS
from longturn.errors import ConfigError

LIBRECHAT = """\
# Our chat
version: 1.3.1
cache: true

interface:
  privacyPolicy:
    externalUrl: 'https://example.org/privacy'
    openNewTab: true

registration:
  socialLogins: ["github", 'google']

# Where the models are
endpoints:
  azureOpenAI:
    titleModel: "gpt-4o"     # for titles
    plugins: true
    # Whether to summarize
    summarize: true   # since spring
    summaryModel: 'gpt-4o-mini'
    groups:
      - group: "eu-west"
        apiKey: "${EU_KEY}"
        summarize: true
        models:
          gpt-4o:
            deploymentName: gpt-4o
            version: "2024-02-15"
          gpt-4o-mini: true
  custom:
    - name: "OpenRouter"
      apiKey: "${OPENROUTER_KEY}"
      models:
        default: [ "meta/llama-3",  'x' ]
        fetch: true
      summarize: false
      summaryModel: "current_model"

    - summarize: true
      # the small one
      name: Mistral
      summaryModel: mistral-tiny
      dropParams: ["stop"]

mcpServers:
  files:
    command: npx
"""

MIGRATED = """\
# Our chat
version: 1.3.1
cache: true

interface:
  privacyPolicy:
    externalUrl: 'https://example.org/privacy'
    openNewTab: true

registration:
  socialLogins: ["github", 'google']

summarization:
  enabled: true
  provider: "azureOpenAI"
  model: "gpt-4o-mini"

# Where the models are
endpoints:
  azureOpenAI:
    titleModel: "gpt-4o"     # for titles
    plugins: true
    # Whether to summarize
    groups:
      - group: "eu-west"
        apiKey: "${EU_KEY}"
        models:
          gpt-4o:
            deploymentName: gpt-4o
            version: "2024-02-15"
          gpt-4o-mini: true
  custom:
    - name: "OpenRouter"
      apiKey: "${OPENROUTER_KEY}"
      models:
        default: [ "meta/llama-3",  'x' ]
        fetch: true

      # the small one
    - name: Mistral
      dropParams: ["stop"]

mcpServers:
  files:
    command: npx
"""

FROM_LIBRECHATS_PAGE = """\
summarization:
  provider: 'openAI'
  model: 'gpt-4o-mini'
  parameters: {temperature: 0.3, stop: null}
  maxSummaryTokens: 2048
  reserveRatio: 0.1
  trigger: {type: 'token_ratio', value: 0.8}
  retainRecent: {turns: 3, tokens: 9000}
  contextPruning:
    enabled: true
    keepLastAssistants: 4
    softTrimRatio: 0.2
    hardClearRatio: 0.6
    minPrunableToolChars: 40000
    softTrim: {maxChars: 3000, headChars: 1000, tailChars: 900}
    hardClear: {enabled: false, placeholder: '[gone]'}
"""


def problems(text: str | bytes) -> list[str]:
    return [str(problem) for problem in examine(text, "f.yaml").problems]


def warnings(text: str) -> list[str]:
    return [str(warning) for warning in examine(text, "f.yaml").warnings]


# --- What it means ------------------------------------------------------------------------------------------


def test_an_empty_file_is_the_policy_out_of_the_box_and_says_so() -> None:
    """S15"""
    for text in ("", "# nothing yet\n", "---\n", "~", "{}", "\ufeff"):
        assert read(text, "mine.yaml").policy == Policy(name="mine")
    assert warnings("") == ["line 1: the file is empty: everything is as it is without one"]


def test_a_block_of_librechats_own_means_what_its_page_says() -> None:
    """S15, S1-S3"""
    policy = read(FROM_LIBRECHATS_PAGE, "f").policy
    assert policy.summarization == Summarization(
        provider="openAI",
        model="gpt-4o-mini",
        parameters={"temperature": 0.3},
        max_summary_tokens=2_048,
        reserve_ratio=0.1,
        trigger=Trigger("token_ratio", 0.8),
        retain_recent=Retain(3, 9_000),
    )
    assert policy.pruning == Pruning(4, 0.2, 0.6, 40_000, 3_000, 1_000, 900, False, "[gone]")


def test_camel_case_and_snake_case_mean_the_same_everywhere_s15() -> None:
    lines = FROM_LIBRECHATS_PAGE.replace("temperature", "maxSummaryTokens").replace("0.3, stop", "77, stop")
    words = "".join(f"_{char.lower()}" if char.isupper() else char for char in lines).replace("open_a_i", "openAI")
    assert "max_summary_tokens: 2048" in words
    assert read(lines, "f").policy == read(words, "f").policy
    ladder = "ladder: {targetRatio: 0.3, keepTools: [a], imageTokens: 9}\nhistory: {maxContextTokens: 5}"
    assert read(ladder, "f").policy == read("".join(map(snake, ladder.partition("\0"))), "f").policy


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_pruning_works_whether_summarization_is_on_or_off_s1(enabled: str) -> None:
    policy = read(f"summarization: {{enabled: {enabled}, contextPruning: {{enabled: true}}}}", "f").policy
    assert policy.pruning == Pruning()
    assert policy.summarization == Summarization(enabled=enabled == "true")


@pytest.mark.parametrize("block", ["{}", "{enabled: false}", "{keepLastAssistants: 2}", ""])
def test_pruning_is_off_unless_it_is_turned_on_s1(block: str) -> None:
    assert read(f"summarization:\n  contextPruning: {block}", "f").policy.pruning is None


def test_the_keys_of_history_are_those_of_the_budget() -> None:
    """S15, H10-H13, H3"""
    text = "max_context_tokens: 50_000\ncontext_compact_ratio: 0.8\nhistory_pruning: {enabled: true, max_tokens: 9}\n"
    policy = read("history: {" + text.replace("\n", ", ") + "max_history_messages: 0}", "f").policy
    expected = Policy(
        name="f",
        max_context_tokens=50_000,
        context_compact_ratio=0.8,
        history_pruning_enabled=True,
        history_pruning_max_tokens=9,
        max_history_messages=0,
        default_ratio=None,
    )
    assert policy == expected


@pytest.mark.parametrize(
    ("keys", "window", "budget"),
    [
        ("", 200_000, 32_000),
        ("max_context_tokens: 0", None, 0),
        ("context_compact_ratio: 0.9", None, 28_800),
        ("max_context_tokens: 50000, context_compact_ratio: 0.8", 200_000, 50_000),
        ("context_compact_ratio: 1.01", 200_000, 32_000),
        ("context_compact_ratio: -1", 200_000, 32_000),
        ("context_compact_ratio: 1", 200_000, 200_000),
        ("history_pruning: {enabled: true}", 200_000, 8_192),
    ],
)
def test_a_history_section_means_what_the_table_of_budgets_says(keys: str, window: int | None, budget: int) -> None:
    """H10-H14: without the section the budget is three quarters of a known window."""
    assert read(f"history: {{{keys}}}", "f").policy.budget(window).limit == budget
    assert read("ladder: {batch: 2}", "f").policy.budget(200_000).limit == 150_000


def test_the_keys_of_the_ladder_are_those_of_the_policy() -> None:
    text = """
ladder:
  name: tight
  target_ratio: 0.3
  whole_share: 1
  batch: 4
  rungs: [results, turns]
  keep_tools: [plan, plan]
  cleared_texts: {read: gone}
  image_tokens: 0
  emergency_trim: true
  strict: true
  alternate: true
"""
    assert read(text, "f").policy == Policy(
        name="tight",
        target_ratio=0.3,
        whole_share=1,
        batch=4,
        rungs=("results", "turns"),
        keep_tools=frozenset({"plan"}),
        cleared_texts={"read": "gone"},
        image_tokens=0,
        emergency_trim=True,
        strict=True,
        alternate=True,
    )


def test_a_preset_is_what_the_other_keys_change() -> None:
    assert read("ladder: {preset: seed}", "f").policy == replace(Policy.seed(), name="f")
    assert read("ladder: {preset: seed, batch: 2}", "f").policy == replace(Policy.seed(), name="f", batch=2)


def test_models_have_windows_prices_per_million_and_a_price_of_an_image_s13_s15() -> None:
    config = read("models: {gpt-4.1: {window: 9, max_output: 8, image_tokens: 7, prices: {input: 2, output: 8}}}", "f")
    assert config.model("gpt-4.1") == ModelSettings(9, 8, 7, Prices(2e-6, 2e-6, 2e-6, 8e-6))
    assert config.policy_for("gpt-4.1").image_tokens == 7
    full = read("models: {m: {prices: {input: 2, output: 8, cached: 0.2, written: 2.5}}}", "f").model("m").prices
    assert full == Prices(2e-6, 0.2 / 1e6, 2.5e-6, 8e-6)


def test_nothing_is_borrowed_from_the_settings_of_another_model_h15() -> None:
    config = read("models: {gpt-4.1: {window: 9, image_tokens: 7}}", "f")
    for name in ("gpt-4.1-mini", "openai:gpt-4.1", None, ""):
        assert config.model(name) == ModelSettings()
        assert config.policy_for(name) == config.policy


def test_a_librechat_file_is_taken_as_it_is_without_a_word_s15() -> None:
    examined = examine(MIGRATED, "librechat.yaml")
    assert (examined.problems, examined.warnings) == ((), ())
    assert examined.config is not None
    assert examined.config.policy.summarization == Summarization(provider="azureOpenAI", model="gpt-4o-mini")


def test_whole_numbers_may_be_written_as_javascript_writes_them() -> None:
    policy = read(
        "summarization: {maxSummaryTokens: 4e3, trigger: {type: remaining_tokens, value: 8000.0}}", "f"
    ).policy
    assert policy.summarization is not None
    assert (policy.summarization.max_summary_tokens, policy.summarization.trigger) == (
        4_000,
        Trigger("remaining_tokens", 8_000),
    )


def test_anchors_aliases_and_merges_mean_what_they_say() -> None:
    text = "models:\n  a: &a {window: 9, image_tokens: 1}\n  b: *a\n  c:\n    <<: *a\n    window: 5\n"
    models = read(text, "f").models
    assert models["b"] == models["a"] == ModelSettings(9, None, 1)
    assert models["c"] == ModelSettings(5, None, 1)


def test_a_null_and_an_empty_text_say_nothing() -> None:
    text = "history:\nladder: {batch: ~}\nsummarization: {model: '', prompt: '', trigger: null}"
    assert read(text, "f").policy == Policy(name="f", summarization=Summarization())


def test_a_file_is_read_by_its_path_and_every_line_is_known(tmp_path: Path) -> None:
    path = tmp_path / "longturn.yaml"
    path.write_text("\nladder:\n  batch: 3\nsummarization:\n  retainRecent: {turns: 4}\n")
    config = load(path)
    assert config.policy.name == "longturn"
    assert config.lines["ladder.batch"] == 3
    assert config.lines["summarization.retain_recent.turns"] == 5
    found = {each.path: (each.value, each.line) for each in effective(config)}
    assert found["ladder.batch"] == (3, 3)
    assert found["summarization.retainRecent.turns"] == (4, 5)
    assert found["ladder.target_ratio"] == (Policy().target_ratio, None)


def test_a_configuration_is_frozen() -> None:
    config = read("models: {m: {window: 9}}\nsummarization: {parameters: {a: 1}}", "f")
    for frozen in (config.models, config.lines, config.policy.summarization and config.policy.summarization.parameters):
        with pytest.raises(TypeError):
            frozen["m"] = 1  # type: ignore[index]


# --- What is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "history: {max_context_tokens: true}",
            "history.max_context_tokens must be a whole number of at least 0, got true",
        ),
        (
            "history: {max_context_tokens: -1}",
            "history.max_context_tokens must be a whole number of at least 0, got -1",
        ),
        ("history: {max_context_tokens: 1.5}", "must be a whole number of at least 0, got 1.5"),
        ("history: {max_context_tokens: '5'}", "must be a whole number of at least 0, got '5'"),
        ("history: {context_compact_ratio: .nan}", "history.context_compact_ratio must be a number, got .nan"),
        ("history: {context_compact_ratio: -.inf}", "must be a number, got -.inf"),
        ("history: {context_compact_ratio: 1e999}", "must be a number, got 1e999"),
        ("history: 3", "history must be a map of keys (max_context_tokens,"),
        (
            "history: []",
            "history must be a map of keys (max_context_tokens, context_compact_ratio, history_pruning, max_",
        ),
        ("ladder: {target_ratio: 0}", "ladder.target_ratio must be a number above 0 to 1, got 0"),
        ("ladder: {rungs: [images, result]}", "ladder.rungs[1] must be one of images, results, arguments,"),
        ("ladder: {rungs: [result]}", ", got 'result': did you mean results?"),
        ("ladder: {keep_tools: read}", "ladder.keep_tools must be a list, each of it a text, got 'read'"),
        ("ladder: {cleared_texts: {'a b': 1}}", 'ladder.cleared_texts["a b"] must be a text that is not empty, got 1'),
        ("ladder: {preset: best}", "ladder.preset must be one of default, seed, got 'best'"),
        ("ladder: {strict: yes}", "ladder.strict must be true or false, got 'yes'"),
        ("summarization: {enabled: 1}", "summarization.enabled must be true or false, got 1"),
        ("summarization: {reserveRatio: 1}", "summarization.reserveRatio must be a number from 0 and below 1, got 1"),
        ("summarization: {maxSummaryTokens: 0}", "must be a whole number of at least 1, got 0"),
        ("summarization: {model: 4}", "summarization.model must be a text, got 4"),
        ("summarization: {parameters: {a: {b: 1}}}", "parameters.a must be a text, a number, true or false, got a map"),
        ("summarization: {parameters: {maxSummaryTokens: x}}", "maxSummaryTokens must be a whole number of at least 1"),
        (
            "summarization: {parameters: {maxSummaryTokens: 1, max_summary_tokens: 1}}",
            "is there twice, here and as max",
        ),
        (
            "summarization: {trigger: token_ratio}",
            "summarization.trigger must be a map of keys (type, value), got 'tok",
        ),
        (
            "summarization: {trigger: {value: 1}}",
            "summarization.trigger.type is missing: it must be one of token_ratio,",
        ),
        (
            "summarization: {trigger: {type: token_ratio}}",
            "summarization.trigger.value is missing: it must be a number",
        ),
        (
            "summarization: {trigger: {type: token_ratio, value: 80}}",
            "trigger.value cannot be used: the value of a token",
        ),
        (
            "summarization: {trigger: {type: remaining_tokens, value: 0.5}}",
            "must be a whole number of at least 1, got 0.5",
        ),
        (
            "summarization: {trigger: {type: messages_to_refine, value: 0}}",
            "messages_to_refine must be at least 1, got 0",
        ),
        ("summarization: {trigger: {type: remaining_tokens, value: true}}", "trigger.value must be a number, got true"),
        ("summarization: {trigger: {type: token_count, value: 8}}", "token_count is an old trigger: write token_ratio"),
        (
            "summarization: {retainRecent: {turns: 21}}",
            "retainRecent.turns must be a whole number from 0 to 20, got 21",
        ),
        (
            "summarization: {retainRecent: {tokens: 0}}",
            "retainRecent.tokens must be a whole number of at least 1, got 0",
        ),
        ("summarization: {contextPruning: {keepLastAssistants: 11}}", "must be a whole number from 0 to 10, got 11"),
        (
            "summarization: {contextPruning: {softTrimRatio: 1.1}}",
            "softTrimRatio must be a number from 0 to 1, got 1.1",
        ),
        (
            "summarization: {contextPruning: {softTrim: {maxChars: 0}}}",
            "softTrim.maxChars must be a whole number of at",
        ),
        ("summarization: {contextPruning: {hardClear: {placeholder: ''}}}", "must be a text that is not empty, got ''"),
        ("models: {m: {window: 0}}", "models.m.window must be a whole number of at least 1, got 0"),
        (
            "models: {m: 200000}",
            "models.m must be a map of keys (window, max_output, image_tokens, prices), got 200000",
        ),
        ("models: {gpt-4.1: {prices: {input: 3}}}", 'models["gpt-4.1"].prices.output is missing: it must be a number'),
        ("models: {m: {window: 9, max_output: 9}}", "models.m.max_output must be below the window of 9, got 9"),
        (
            "models: {m: {window: 9999999999999}}",
            "models.m.window must be a whole number of at least 1, got 9999999999999",
        ),
    ],
)
def test_a_value_that_a_key_does_not_take_is_refused_with_its_path_and_what_is_allowed_s16(
    text: str, said: str
) -> None:
    (found,) = problems(text)
    assert found.startswith("line 1: ")
    assert said in found
    with pytest.raises(ConfigError) as refused:
        read(text, "f.yaml")
    assert str(refused.value) == f"f.yaml, {found}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ladder: {target_ration: 1}", "ladder.target_ration is no key: did you mean target_ratio?"),
        ("ladder: {targetRation: 1}", "ladder.targetRation is no key: did you mean target_ratio?"),
        ("ladder: {max_context_tokens: 1}", "ladder.max_context_tokens is no key here: it belongs into history"),
        ("history: {zzz: 1}", "history.zzz is no key: the keys here are max_context_tokens, context_compact_ratio,"),
        ("summarization: {contextPrunning: {}}", "contextPrunning is no key: did you mean contextPruning?"),
        ("summarization: {contextPruning: {softTrim: {maxchars: 1}}}", "maxchars is no key: did you mean maxChars?"),
        ("summarization: {soft_trim: 1}", "summarization.soft_trim is no key"),
        ("models: {m: {windows: 1}}", "models.m.windows is no key: did you mean window?"),
        ("history: {[a]: 1}", 'history["?"] is no key'),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one_s16(text: str, said: str) -> None:
    (found,) = problems(text)
    assert said in found


def test_every_problem_of_a_file_is_told_with_its_line_s16() -> None:
    text = """\
history:
  max_context_tokens: -1
ladder:
  batch: 0
  rungs:
    - images
    - resluts
  btach: 1
summarization:
  trigger:
    type: token_ratio
    value: 80
  retainRecent: {turns: x}
models:
  m: {window: 1, max_output: 2}
"""
    lines = [problem.line for problem in examine(text, "f").problems]
    assert lines == [2, 4, 7, 8, 12, 13, 15]
    with pytest.raises(ConfigError, match=r"^f has 7 problems: line 2: .*; line 15: "):
        read(text, "f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ladder:\n  batch: 1\n  batch: 1", "line 3: ladder.batch is there twice: keep one"),
        (
            "ladder: {keepTools: [], keep_tools: []}",
            "line 1: ladder.keep_tools is there twice, here and as keepTools: keep one",
        ),
        ("ladder: {batch: ~, batch: 1}", "line 1: ladder.batch is there twice: keep one"),
        ("models: {m: {}, m: {}}", "line 1: models.m is there twice: keep one"),
        ("history: {}\nladder: {}\nhistory: {}", "line 3: history is there twice (first in line 1): keep one"),
    ],
)
def test_a_key_that_is_there_twice_is_refused_in_any_spelling_s16(text: str, said: str) -> None:
    assert problems(text) == [said]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"- 1", "f.yaml, line 1: the file holds a list: it must hold sections"),
        (b"\n\nhello", "f.yaml, line 3: the file holds a single value: it must hold sections"),
        (b"a:\n\tb: 1", "f.yaml, line 2, column 1: this is no YAML: while scanning for the next token found character"),
        (b"a:\n\tb: 1", "indent with spaces, not with tabs"),
        (b"a: [1", "f.yaml, line 1, column 6: this is no YAML: while parsing a flow sequence"),
        (b"a: b: c", "f.yaml, line 1, column 5: this is no YAML: mapping values are not allowed here"),
        (b"a: 1\n---\nb: 2", "f.yaml, line 2, column 1: this is no YAML: expected a single document in the stream"),
        (b"a: *b", "found undefined alias 'b'"),
        (b"a: 1\nb: \xff", "f.yaml, line 2: byte 8 (0xff) is no UTF-8: save the file as UTF-8"),
        ("a: 1".encode("utf-16"), "f.yaml, line 1: byte 0 (0xff) is no UTF-8"),
        (b"\n\na: \x01", "f.yaml, line 3: U+0001 may not stand in YAML: remove it"),
        (b"history: " + b"{a: " * 3_000, "f.yaml is nested too deeply: flatten it"),
        (b"[" * 100_000, "f.yaml is nested too deeply: flatten it"),
        (b"#" * (MOST_CHARACTERS + 1), "f.yaml has 1,048,577 characters: a configuration has at most 1,048,576"),
        (
            b"history: !!python/object:os.system {}",
            "history has the tag 'python/object:os.system', which means nothing",
        ),
        (b"ladder: {batch: !mine 3}", "ladder.batch has the tag '!mine', which means nothing here: remove it"),
        (b"ladder: {batch: !!int x}", "ladder.batch is no number that can be read"),
        (b'ladder: {name: "\\ud800"}', "ladder.name holds half of a character (a lone surrogate): remove it"),
        (b"ladder: {batch: " + b"9" * 5_000 + b"}", "ladder.batch must be a whole number of at least 1, got 9999"),
    ],
)
def test_what_is_no_yaml_or_no_configuration_is_refused_with_its_place_s16(data: bytes, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(data, "f.yaml")
    assert said in str(refused.value)


def test_aliases_of_aliases_do_not_grow_and_a_loop_has_an_end() -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
    )
    assert len(problems(laughs + "ladder: {keep_tools: *a29}")) == 10
    assert len(warnings(laughs)) == 30
    names = ", ".join(f"m{number}: *m" for number in range(3_000))
    wide = "x: &m {" + ", ".join(f"k{number}: 1" for number in range(9)) + "}\nmodels: {" + names + "}"
    with pytest.raises(ConfigError):
        read(wide, "f")
    many = "x: &m {window: 9, max_output: 1, image_tokens: 1, prices: {input: 1, output: 1}}\nmodels: {" + names + "}"
    with pytest.raises(ConfigError, match="holds more than 20,000 values, counting each use of an alias"):
        read(many, "f")
    assert problems("summarization: &s {parameters: *s}")
    assert problems("models: &m {m: {<<: *m}}")


def test_a_file_that_cannot_be_opened_is_told_by_its_name(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path, Path("a\0b")):
        with pytest.raises(ConfigError, match="cannot be read: "):
            load(path)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"\n" * (4 * MOST_CHARACTERS + 1))
    with pytest.raises(ConfigError, match="is too large for a configuration"):
        load(large)


# --- What is told without being refused ---------------------------------------------------------------------


def test_a_section_that_nobody_knows_is_reported_and_librechats_are_not_s15() -> None:
    text = "version: 1\nsumarization: {}\nmodelSpec: {}\nqqq: 1\n"
    assert warnings(text) == [
        "line 2: sumarization is a section that nobody knows, so it is ignored: did you mean summarization?",
        "line 3: modelSpec is a section that nobody knows, so it is ignored: did you mean modelSpecs?",
        "line 4: qqq is a section that nobody knows, so it is ignored: ours are history, ladder, summarization, models",
    ]
    assert read(text, "f").policy == Policy(name="f")


def test_what_is_hardly_meant_is_told() -> None:
    assert "context_compact_ratio: 0.75 sends three quarters" in warnings("history: {max_history_messages: 3}")[0]
    assert "is 1.5, not above 0 to 1, so it counts as unset" in " ".join(
        warnings("history: {context_compact_ratio: 1.5}")
    )
    assert warnings("history: {max_context_tokens: 3}") == []
    assert warnings("summarization:\n  # enabled: true\n") == [
        "line 1: summarization is empty, so it says nothing: write {} for its defaults"
    ]


def test_each_old_setting_of_an_endpoint_is_told_with_what_to_write_instead_s17() -> None:
    found = warnings(LIBRECHAT)
    assert [line.partition(" is an old setting without effect: ")[::2] for line in found] == [
        ("line 19: endpoints.azureOpenAI.summarize", "write summarization.enabled: true"),
        (
            "line 20: endpoints.azureOpenAI.summaryModel",
            "write summarization.provider: azureOpenAI and summarization.model: gpt-4o-mini",
        ),
        ("line 24: endpoints.azureOpenAI.groups[0].summarize", "write summarization.enabled: true"),
        ("line 36: endpoints.custom[0].summarize", "write summarization.enabled: false"),
        (
            "line 37: endpoints.custom[0].summaryModel",
            "leave summarization.model out, which stands for the agent's own",
        ),
        ("line 39: endpoints.custom[1].summarize", "write summarization.enabled: true"),
        (
            "line 42: endpoints.custom[1].summaryModel",
            "write summarization.provider: Mistral and summarization.model: mistral-tiny",
        ),
    ]


# --- Old settings written anew ------------------------------------------------------------------------------


def test_a_file_is_migrated_and_keeps_comments_order_and_quoting_s17() -> None:
    migration = migrate(LIBRECHAT.encode(), "f")
    assert migration.data.decode() == MIGRATED
    assert migration.done[0] == 'summarization says now: enabled: true, provider: "azureOpenAI", model: "gpt-4o-mini"'
    assert sum("is removed" in done for done in migration.done) == 7


def test_settings_that_conflict_between_endpoints_are_reported_and_the_first_wins_s17() -> None:
    clashes = [done for done in migrate(LIBRECHAT.encode(), "f").done if "the first wins" in done]
    assert clashes == [
        "line 36: endpoints.custom[0].summarize is false, which differs from line 19: the first wins",
        "line 37: endpoints.custom[0].summaryModel is 'current_model', which differs from line 20: the first wins",
        "line 42: endpoints.custom[1].summaryModel is 'mistral-tiny', which differs from line 20: the first wins",
    ]


@pytest.mark.parametrize("text", [LIBRECHAT, MIGRATED, FROM_LIBRECHATS_PAGE, "", "a: 1", "\ufeffa: 1\r\n"])
def test_migrating_a_migrated_file_changes_no_byte_s17(text: str) -> None:
    once = migrate(text.encode(), "f").data
    again = migrate(once, "f")
    assert (again.data, again.done) == (once, ())
    assert text == LIBRECHAT or once == text.encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{name: a, summarize: true}", "{name: a}"),
        ("{summarize: true, name: a}", "{name: a}"),
        ("{summarize: true, summaryModel: current_model, name: a}", "{name: a}"),
        ("{name: a, summarize: true, summaryModel: current_model}", "{name: a}"),
        ("{name: a, summarize: true, b: 1, summaryModel: current_model}", "{name: a, b: 1}"),
        ("{summarize: true}", "{}"),
        ("summarize: true", "{}"),
        ("name: a\n    summarize: true", "name: a"),
        ("name: a\n    summarize: true # why\n    b: 1", "name: a\n    b: 1"),
        ("summarize: true\n    summaryModel: current_model\n    name: a", "name: a"),
        ("name: a\n    summaryModel: >-\n      current_model\n    summarize: true\n    b: 1", "name: a\n    b: 1"),
        ("name: a\n    summarize: true\n    summaryModel:", "name: a"),
        ('"summarize": true\n    name: a', "name: a"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_old_settings_are_taken_out_of_maps_of_every_style_s17(before: str, after: str, newline: str) -> None:
    text = f"endpoints:\n  custom:\n  - {before}\n".replace("\n", newline)
    expected = f"summarization:\n  enabled: true\n\nendpoints:\n  custom:\n  - {after}\n".replace("\n", newline)
    assert migrate(text.encode(), "f").data.decode() == expected


def test_a_file_of_json_stays_one_s17() -> None:
    data = b'{"version": 1, "endpoints": {"custom": [{"name": "a", "summarize": true, "summaryModel": "m"}]}}'
    found = json.loads(migrate(data, "f").data)
    assert found["summarization"] == {"enabled": True, "provider": "a", "model": "m"}
    assert found["endpoints"] == {"custom": [{"name": "a"}]}


def test_what_was_off_stays_off_when_it_is_written_anew_s17() -> None:
    data = b"endpoints: {custom: [{name: a, summaryModel: m}]}"
    config = read(migrate(data, "f").data, "f")
    assert config.policy.summarization == Summarization(enabled=False, provider="a", model="m")


def test_a_summarization_that_is_there_already_wins_over_old_settings_s17() -> None:
    data = b"summarization: {model: m}\nendpoints: {azureOpenAI: {summarize: false, groups: []}}"
    migration = migrate(data, "f")
    assert migration.data == b"summarization: {model: m}\nendpoints: {azureOpenAI: {groups: []}}"
    assert "summarization is there already and stays as it is" in migration.done[0]


def test_an_empty_summarization_is_filled_where_it_stands_s17() -> None:
    data = b"summarization: # none yet\nendpoints:\n  azureOpenAI:\n    summarize: true\n    groups: []\n"
    assert migrate(data, "f").data == (
        b"summarization:\n  enabled: true # none yet\nendpoints:\n  azureOpenAI:\n    groups: []\n"
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "history: {maxContextTokens: 1000}\nsummarization:\n  trigger:\n    type: 'token_count' #\n    value: 760",
            "history: {maxContextTokens: 1000}\nsummarization:\n  trigger:\n    type: 'token_ratio' #\n    value: 0.8",
            "(760 of the 950 that may be sent)",
        ),
        (
            "summarization: {trigger: {type: token_count, value: 8000}}",
            "summarization: {trigger: {type: token_ratio, value: 0.8}}",
            "no share can be told from its value",
        ),
        (
            "summarization:\n  trigger:\n    type: token_count\n",
            "summarization:\n  trigger:\n    type: token_ratio\n    value: 0.8\n",
            "token_count without a value is now token_ratio of 0.8",
        ),
        (
            '{"summarization": {"trigger": {"type": "token_count"}}}',
            '{"summarization": {"trigger": {"type": "token_ratio", "value": 0.8}}}',
            "token_count without a value",
        ),
    ],
)
def test_the_old_trigger_becomes_a_share_of_what_may_be_sent_s17(before: str, after: str, said: str) -> None:
    assert any("token_count is an old trigger" in problem for problem in problems(before))
    migration = migrate(before.encode(), "f")
    assert migration.data.decode() == after
    assert said in migration.done[0]
    assert read(migration.data, "f").policy.summarization is not None


def test_what_cannot_be_rewritten_safely_is_refused_and_not_damaged_s17() -> None:
    assert migrate(b"endpoints: {custom: [{? summarize, name: a}]}", "f").done
    data = b"endpoints:\n  custom:\n  - summarize: &s true\n    name: a\n  - fetch: *s\n    name: b\n"
    with pytest.raises(ConfigError, match="is written in a way that is not rewritten safely: change it by hand"):
        migrate(data, "f")


# --- Any document -------------------------------------------------------------------------------------------

NAMES = sorted(
    {key for section in (Sections, *hints(Sections).values()) if is_section(section) for key in hints(section)}
    | {"soft_trim", "hard_clear", "prices", "window", "type", "value", "turns", "endpoints", "custom", "azureOpenAI"}
    | {"groups", "summarize", "summaryModel", "contextPruning", "name", "maxSummaryTokens"}
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["token_count", "token_ratio", "results", "seed", "current_model"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
MARKS = [
    *[":", "-", ",", "[", "]", "{", "}", "&", "*", "!", "|", ">", "'", '"', "#", "%", "@", "`", "?", "~"],
    "\n",
    "\t",
    " ",
    "\n  ",
    "<<",
    "&a",
    "*a",
    "---",
    "0x1_",
    "!!x",
]
PIECES = st.lists(st.sampled_from([*NAMES, *MARKS]) | st.text(max_size=3), max_size=25)


def outcome(data: bytes) -> None:
    """A configuration or a ConfigError, and the same of a migration, which finds nothing more to do the second time."""
    with contextlib.suppress(ConfigError):
        assert isinstance(read(data, "f"), Config)
    with contextlib.suppress(ConfigError):
        migrated = migrate(data, "f").data
        assert migrate(migrated, "f").data == migrated


def as_yaml(value: Any) -> str:
    return json.dumps(value).replace("NaN", ".nan").replace("-Infinity", "-.inf").replace("Infinity", ".inf")


@given(DOCUMENTS)
def test_any_document_gives_a_configuration_or_a_config_error_s16(document: dict[str, Any]) -> None:
    outcome(as_yaml(document).encode())


@given(PIECES.map("".join) | PIECES.map(" ".join))
def test_any_text_gives_a_configuration_or_a_config_error_s16(text: str) -> None:
    outcome(text.encode(errors="surrogatepass"))


@given(st.binary(max_size=40))
def test_any_bytes_give_a_configuration_or_a_config_error_s16(data: bytes) -> None:
    outcome(data)


ENDPOINTS = st.fixed_dictionaries(
    {"name": st.sampled_from(["A", "B c", None])},
    optional={
        "models": st.just({"default": ["m", "x: y"], "fetch": True}),
        "summarize": st.sampled_from([True, False, None, "x"]),
        "summaryModel": st.sampled_from(["m", "current_model", None, "long " * 30, "two\nlines\n"]),
        "iconURL": st.sampled_from([None, "# no", 'q"uote', "é😀", "two\nlines\n"]),
    },
).flatmap(lambda keys: st.permutations(list(keys)).map(lambda order: {key: keys[key] for key in order}))


@given(
    st.lists(ENDPOINTS, max_size=3),
    st.tuples(ENDPOINTS, st.lists(ENDPOINTS, max_size=2)),
    st.sampled_from([False, None, True]),
    st.sampled_from([(2, 2, 0), (2, 4, 2), (4, 4, 2)]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_migration_takes_out_what_is_old_and_nothing_else_in_any_layout_s17(
    custom: list[dict[str, Any]],
    azure: tuple[dict[str, Any], list[dict[str, Any]]],
    flow: bool | None,
    indent: tuple[int, int, int],
    newline: str,
) -> None:
    def without(endpoint: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in endpoint.items() if key not in ("summarize", "summaryModel")}

    yaml = YAML()
    yaml.default_flow_style = flow
    yaml.indent(*indent)
    written = io.StringIO()
    yaml.dump(
        {"endpoints": {"custom": custom, "azureOpenAI": {**azure[0], "groups": azure[1]}}, "cache": True}, written
    )
    data = migrate(written.getvalue().replace("\n", newline).encode(), "f").data
    after = YAML(typ="safe", pure=True).load(data.decode())
    after.pop("summarization", None)
    groups = [without(group) for group in azure[1]]
    expected = {"custom": [without(each) for each in custom], "azureOpenAI": {**without(azure[0]), "groups": groups}}
    assert after == {"endpoints": expected, "cache": True}
    assert migrate(data, "f").data == data
    read(data, "f")


def numbers(most: int = 10**12, least: int = 0) -> st.SearchStrategy[int]:
    return st.integers(least, most)


SHARES = st.floats(0, 1)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "enabled": st.booleans(),
    "provider": st.text(min_size=1),
    "model": st.text(min_size=1),
    "prompt": st.text(min_size=1),
    "update_prompt": st.text(min_size=1),
    "max_summary_tokens": numbers(least=1),
    "reserve_ratio": st.floats(0, 1, exclude_max=True),
    "trigger": st.builds(Trigger, st.just("token_ratio"), SHARES)
    | st.builds(Trigger, st.sampled_from(get_args(TriggerType)[1:]), numbers(least=1)),
    "retain_recent": st.builds(Retain, numbers(20), st.none() | numbers(least=1)),
}


@given(st.fixed_dictionaries({}, optional=OPTIONAL), st.booleans())
def test_a_valid_block_comes_back_as_what_was_written_s15(values: dict[str, Any], is_camel: bool) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, Trigger | Retain):
            return {each.name: getattr(value, each.name) for each in fields(value)}
        return value

    written = {camel(key) if is_camel else key: plain(value) for key, value in values.items()}
    assert read(json.dumps({"summarization": written}), "f").policy.summarization == Summarization(**values)


@given(
    st.builds(
        Policy,
        name=st.text(min_size=1),
        target_ratio=st.floats(0, 1, exclude_min=True),
        whole_share=st.floats(0, 1, exclude_min=True),
        batch=numbers(least=1),
        image_tokens=numbers(),
        rungs=st.lists(st.sampled_from(sorted(RUNGS))).map(tuple),
        keep_tools=st.frozensets(st.text(max_size=9)),
        cleared_texts=st.dictionaries(st.text(max_size=9), st.text(min_size=1)),
        emergency_trim=st.booleans(),
        strict=st.booleans(),
        alternate=st.booleans(),
    )
)
def test_a_valid_ladder_comes_back_as_what_was_written_s15(policy: Policy) -> None:
    config = Config(policy)
    ladder = {each.path.partition(".")[2]: each.value for each in effective(config) if each.path.startswith("ladder.")}
    assert read(json.dumps({"ladder": ladder}), "f").policy == policy


# --- The words ----------------------------------------------------------------------------------------------


def walked(section: type, path: str = "") -> list[tuple[str, Any]]:
    """Every key of the schema with its path and what it holds, `<name>` standing for a name that users choose."""
    found = []
    for key, hint in hints(section).items():
        inner = of_each(hint)
        found.append((f"{path}{key}", hint))
        if is_section(hint):
            found += walked(hint, f"{path}{key}.")
        elif is_section(inner):
            found += walked(inner, f"{path}{key}.<name>.")  # type: ignore[arg-type]
    return found


def test_what_a_key_may_hold_can_be_said_in_words() -> None:
    words = {path: allowed(hint) for path, hint in walked(Sections)}
    assert words["summarization.reserve_ratio"] == "a number from 0 and below 1"
    assert words["ladder.keep_tools"] == "a list, each of it a text"
    assert words["summarization.parameters"].endswith("each a text, a number, true or false")
    assert all(words.values())


def test_every_key_stands_in_the_tables_of_the_page(repository: Path) -> None:
    page = (repository / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    missing = []
    for path, _ in walked(Sections):
        section, *keys = path.split(".")
        spelled = [camel(key) if section == "summarization" else key for key in keys if key != "<name>"]
        if keys and f"`{'.'.join(spelled)}`" not in rows:
            missing.append(path)
    assert missing == []


def test_importing_longturn_or_its_configuration_loads_neither_pydantic_nor_a_yaml_reader() -> None:
    code = "import sys, longturn, longturn.config; print(*{'pydantic', 'ruamel.yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_numbers_in_the_file_are_those_of_yaml() -> None:
    text = "models: {a: {window: 0x10}, b: {window: 0o17}, c: {window: 1_000}, d: {window: +5}, e: {window: 010}}"
    assert [model.window for model in read(text, "f").models.values()] == [16, 15, 1_000, 5, 10]
    assert math.isclose(read("history: {context_compact_ratio: .5}", "f").policy.context_compact_ratio or 0, 0.5)
