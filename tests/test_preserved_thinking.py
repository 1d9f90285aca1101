"""B23, B24: runs against a provider that signs thinking for the request it was sent, and refuses it elsewhere."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import longturn
from longturn import NOTE, Fitter, Policy, Window
from longturn.core.thinking import thinking_rule
from longturn.strict import StrictAnthropic, sign

PROVIDER = StrictAnthropic()
PRESERVED, TURN = "claude-fable-5-1", "claude-opus-4-6"
SYSTEM = "You read chapters and keep notes."
TOOLS = [{"name": "read", "description": "Reads a chapter.", "input_schema": {"type": "object", "properties": {}}}]
CALLS = 170
Native = dict[str, Any]
Script = Callable[[int], list[Native]]


def request(window: Window) -> Native:
    return {"system": window.system, "tools": window.tools, "messages": window.messages}


def thinking(number: int) -> Native:
    return {"type": "thinking", "thinking": f"Plan {number}. " * (number % 5)}


def call(name: str) -> Native:
    return {"type": "tool_use", "id": name, "name": "read", "input": {"chapter": name}}


def returned(name: str, words: int) -> Native:
    return {"type": "tool_result", "tool_use_id": name, "content": f"{name}: " + "a line of a chapter " * words}


def one_long_turn(number: int) -> list[Native]:
    """Thinking and a call each time; now and then two calls, none of the thinking, or nothing but thinking."""
    blocks = [thinking(number)] if number % 7 else []
    return [*blocks, call(f"t{number}"), *([call(f"u{number}")] if number % 4 == 0 else [])]


def many_turns(number: int) -> list[Native]:
    """The same, and each sixth answer has no calls, so that a user speaks next."""
    if number % 6 == 5:
        return [thinking(number), {"type": "text", "text": f"Done with {number}."}]
    return one_long_turn(number)


def redacted(number: int) -> list[Native]:
    """Redacted thinking beside the plain kind."""
    return [thinking(number), {"type": "redacted_thinking"}, call(f"t{number}")]


class Sent(NamedTuple):
    """One call: the window, the answer to it and what the caller then holds."""

    window: Window
    answer: Native
    held: list[Native]


def replies(answer: Native, number: int) -> list[Native]:
    """What comes back: a result for each call, with words of the user now and then; or the user's next task."""
    blocks = [block for block in answer["content"] if block["type"] == "tool_use"]
    results = [returned(block["id"], (number * 37) % 90) for block in blocks]
    if not results:
        return [{"role": "user", "content": f"Task {number}. " + "Go on. " * (number % 9)}]
    said = [{"type": "text", "text": f"And mind point {number}."}] if number % 29 == 28 else []
    return [{"role": "user", "content": [*results, *said]}]


def run(script: Script, *, handing_back: bool = False, calls: int = CALLS, **settings: Any) -> Iterator[Sent]:
    """A run: each answer is signed for the window that was really sent, and is appended to what the caller holds."""
    fitter = Fitter(dialect="anthropic", system=SYSTEM, tools=TOOLS, **settings)
    held: list[Native] = [{"role": "user", "content": "Read all the chapters."}]
    for number in range(calls):
        window = fitter.fit(held)
        if thinking_rule(fitter.model) == "preserved":
            answer = PROVIDER.answer(request(window), script(number))
        else:
            answer = {"role": "assistant", "content": sign(request(window), script(number))}
        yield Sent(window, answer, held)
        base = window.messages if handing_back else held
        held = [*base, answer, *replies(answer, number)]


def thoughts(messages: list[Any]) -> list[Native]:
    return [
        block
        for message in messages
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] in ("thinking", "redacted_thinking")
    ]


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {"budget": 4_000},
    "seed": {"budget": 4_000, "policy": "seed"},
    "tiny": {"budget": 900},
    "turn limit": {"budget": 1 << 40, "policy": Policy(max_history_messages=3)},
    "large shares": {"budget": 4_000, "policy": Policy(target_ratio=0.75, whole_share=0.6, batch=3)},
    "no rounds whole": {"budget": 2_500, "policy": Policy(target_ratio=0.35, whole_share=0.05)},
    "window only": {"budget": 0, "capacity": 5_000},
}


@pytest.mark.parametrize("handing_back", [False, True], ids=["raw", "handed back"])
@pytest.mark.parametrize("script", [one_long_turn, many_turns], ids=lambda script: script.__name__)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_b23_no_request_of_a_long_run_is_refused_for_its_thinking(
    settings: dict[str, Any], script: Script, handing_back: bool
) -> None:
    """Laws 7 and 10: through clears, drops and notes; `PROVIDER.answer` raises where a request would be refused."""
    sent = list(run(script, handing_back=handing_back, model=PRESERVED, **settings))
    assert len(sent) == CALLS
    is_shaped = script is many_turns or settings is not SETTINGS["turn limit"]
    if is_shaped:
        assert any(NOTE in str(one.window.messages) for one in sent)
        if not handing_back:
            assert any(len(thoughts(one.window.messages)) < len(thoughts(one.held)) for one in sent)


@pytest.mark.parametrize("handing_back", [False, True], ids=["raw", "handed back"])
def test_b23_redacted_thinking_goes_with_the_rest(handing_back: bool) -> None:
    sent = list(run(redacted, handing_back=handing_back, model=PRESERVED, budget=4_000))
    assert any(NOTE in str(one.window.messages) for one in sent)


def test_b23_a_fit_from_scratch_gives_the_same_valid_windows() -> None:
    """Law 4: the removed intervals follow from the transcript."""
    for one in run(many_turns, model=PRESERVED, budget=3_000):
        scratch = longturn.fit(one.held, dialect="anthropic", model=PRESERVED, budget=3_000, system=SYSTEM, tools=TOOLS)
        assert scratch.messages == one.window.messages


def test_b23_under_the_limit_no_thinking_is_removed() -> None:
    for one in run(many_turns, model=PRESERVED, budget=1 << 40, policy=Policy(max_history_messages=1_000)):
        assert not one.window.changed
        assert thoughts(one.window.messages) == thoughts(one.held)


def test_b23_thinking_goes_without_gaps_and_what_was_made_after_an_edit_stays() -> None:
    """What stands before the edited place stays too: the kept thinking is two unbroken runs of all there was."""
    since = 0
    for one in run(one_long_turn, model=PRESERVED, budget=4_000):
        kept, made = thoughts(one.window.messages), thoughts(one.held)
        if one.window.events:
            since = len(made)
        late = len(made) - since
        start = made.index(kept[0]) if kept else 0
        assert kept == [*made[start : start + len(kept) - late], *made[since:]]


@pytest.mark.parametrize("script", [one_long_turn, many_turns], ids=lambda script: script.__name__)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_b24_a_running_tool_turn_starts_with_the_thinking_of_its_first_kept_round(
    settings: dict[str, Any], script: Script
) -> None:
    """Where the turn had a round that starts with thinking at all; a cut at a turn's border asks for nothing."""
    assert thinking_rule(TURN) == "turn"
    for one in run(script, model=TURN, **settings):
        running = rounds_of_running_turn(one.window.messages)
        had = rounds_of_running_turn(one.held)
        is_cut = len(running) < len(had)
        if is_cut and any(starts_with_thinking(answer) for answer in had):
            assert starts_with_thinking(running[0])


def rounds_of_running_turn(messages: list[Any]) -> list[Native]:
    """The answers behind the last thing that the user said."""
    answers: list[Native] = []
    for message in messages:
        content = message["content"]
        if message["role"] == "assistant":
            answers.append(message)
        elif isinstance(content, str) or any(block["type"] == "text" for block in content):
            answers = []
    return answers


def starts_with_thinking(answer: Native) -> bool:
    return bool(answer["content"]) and answer["content"][0]["type"] in ("thinking", "redacted_thinking")


def test_a_model_of_another_maker_keeps_its_thinking_through_a_clear() -> None:
    """`kimi-k2` on Anthropic's wire: thinking is free, so no edit takes it away with it."""
    for one in run(one_long_turn, model="kimi-k2", budget=4_000, calls=40):
        if NOTE not in str(one.window.messages):
            assert thoughts(one.window.messages) == thoughts(one.held)
