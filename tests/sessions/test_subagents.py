"""Subagents: sessions of their own, only the last word back, their cost in the parent's totals (S13)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from longturn.agent import UsageReported
from longturn.agent.session import Session
from longturn.agent.subagents import FromSubagent, Subagents
from longturn.core.events import HistoryTrimmed
from longturn.errors import ConfigError, StoreError
from longturn.stores import Store
from tests.sessions.working import Reader, results, sent

pytestmark = pytest.mark.anyio


def leader(*tasks: str) -> Agent[None, str]:
    """It delegates the tasks all at once, and then says what it heard."""

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1]
        heard = [part.content for part in last.parts if part.part_kind == "tool-return"]
        if isinstance(last, ModelRequest) and heard:
            return ModelResponse([TextPart(" | ".join(map(str, heard)))])
        return ModelResponse([ToolCallPart("delegate", {"task": task}, f"call_{task}") for task in tasks])

    return Agent(FunctionModel(script))


def saying(reply: Callable[[str], str]) -> Agent[None, str]:
    """A subagent that answers its task by a function."""

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(reply(str(messages[0].parts[-1].content)))])  # type: ignore[union-attr]

    return Agent(FunctionModel(script))


async def test_only_the_last_word_comes_back_and_the_rest_is_in_a_session_of_its_own(store: Store) -> None:
    reader = Reader(chapters=6)
    team = Subagents(reader.agent, session={"capacity": 1_500, "summarize": False})
    session = await Session.open(leader("a", "b"), store, "s", subagents=team)
    assert await session.run("Go.") == "I read 6 chapters. | I read 6 chapters."
    children = await store.sessions(parent="s")
    assert {child.session for child in children} == {"s/call_a", "s/call_b"}
    assert {child.kind for child in children} == {"subagent"}
    assert [len(message.parts) for message in session.messages] == [1, 2, 2, 1]
    for child in children:
        own = await Session.open(reader.agent, store, child.session)
        assert len(own.messages) == 14
        assert own.meter.spend.call.calls == 7


async def test_what_subagents_cost_counts_in_the_parents_totals_and_outlives_it_s13(store: Store) -> None:
    reader = Reader()
    session = await Session.open(leader("a", "b"), store, "s", subagents=Subagents(reader.agent))
    await session.run("Go.")
    assert session.meter.spend.call.calls == 2
    assert session.meter.spend.subagent.calls == 8
    again = await Session.open(leader(), store, "s")
    assert again.meter.spend == session.meter.spend
    own = (await Session.open(reader.agent, store, "s/call_a")).meter.spend.total
    assert again.meter.spend.subagent.input_tokens == 2 * own.input_tokens


async def test_what_a_subagent_spent_before_its_parent_was_killed_is_charged_when_that_is_opened_s13(
    store: Store,
) -> None:
    """The parent dies before it can record anything of it: the charges are in the subagent's session alone."""
    session = await Session.open(leader("a"), store, "s", subagents=Subagents(Reader().agent))
    await session.run("Go.")
    lost = await store.create("lost")
    child = await store.create("lost/call", subagent_of="lost")
    spent = await store.charges("s/call_a")
    await store.append(child, charges=spent)
    opened = await Session.open(leader("a"), store, lost.session)
    assert opened.meter.spend.subagent.calls == len(spent) == 4
    with opened.agent.override(model=TestModel(call_tools=[])):
        await opened.run("Go on.")
    again = await Session.open(leader("a"), store, "lost")
    assert again.meter.spend.subagent == opened.meter.spend.subagent


async def test_no_more_work_at_once_than_the_limit_allows(store: Store) -> None:
    busy, most = 0, 0
    pair = asyncio.Barrier(2)

    async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await pair.wait()
        busy -= 1
        return ModelResponse([TextPart("done")])

    team = Subagents(Agent(FunctionModel(script)), at_once=2)
    session = await Session.open(leader(*"abcdef"), store, "s", subagents=team)
    assert await session.run("Go.") == " | ".join(["done"] * 6)
    assert most == 2
    with pytest.raises(ConfigError, match="at_once"):
        Subagents(Agent(TestModel()), at_once=0)


async def test_a_subagent_that_fails_is_told_of_and_the_others_finish(store: Store) -> None:
    def reply(task: str) -> str:
        if task == "b":
            raise ZeroDivisionError("by zero")
        return f"did {task}"

    session = await Session.open(leader("a", "b", "c"), store, "s", subagents=Subagents(saying(reply)))
    await session.run("Go.")
    a, b, c = results(session.messages)
    assert (a.content, c.content) == ("did a", "did c")
    assert b.outcome == "failed"
    assert "ZeroDivisionError: by zero" in b.model_response_str()


async def test_a_subagent_that_hangs_is_left_after_its_time(store: Store) -> None:
    async def hang(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.Event().wait()
        raise AssertionError

    team = Subagents(Agent(FunctionModel(hang)), run={"timeout": 0.3})
    session = await Session.open(leader("a"), store, "s", subagents=team)
    await session.run("Go.")
    assert "RunTimedOut" in results(session.messages)[0].model_response_str()


async def test_a_turn_that_was_cut_off_goes_on_with_the_subagents_where_they_were(store: Store) -> None:
    """One of three is done, one in mid-work, one has not begun: nothing that was done is done again."""
    asked: list[str] = []
    stop = asyncio.Event()
    is_cut = True

    async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        task = str(messages[0].parts[-1].content)  # type: ignore[union-attr]
        asked.append(task)
        if task == "b" and is_cut:
            stop.set()
            await asyncio.Event().wait()
        return ModelResponse([TextPart(f"did {task}")])

    team = Subagents(Agent(FunctionModel(script)), at_once=1)
    session = await Session.open(leader("a", "b", "c"), store, "s", subagents=team)
    turn = asyncio.create_task(session.run("Go."))
    await stop.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    is_cut = False
    again = await Session.open(leader("a", "b", "c"), store, "s", subagents=team)
    assert await again.run() == "did a | did b | did c"
    assert asked == ["a", "b", "b", "c"]
    assert len(await store.sessions(parent="s")) == 3


async def test_a_call_id_that_comes_again_is_another_subagent(store: Store) -> None:
    session = await Session.open(leader("a"), store, "s", subagents=Subagents(saying(lambda task: f"did {task}")))
    await session.run("Go.")
    await session.run("Once more.")
    assert {child.session for child in await store.sessions(parent="s")} == {"s/call_a", "s/call_a-1"}


async def test_what_happens_to_a_subagents_window_is_told_to_the_parents_observers_h28(store: Store) -> None:
    events: list[Any] = []
    team = Subagents(Reader(chapters=8).agent, session={"capacity": 1_200, "summarize": False})
    session = await Session.open(leader("a"), store, "s", subagents=team, observer=events.append)
    await session.run("Go.")
    of_child = [event for event in events if isinstance(event, FromSubagent)]
    assert {event.session for event in of_child} == {"s/call_a"}
    assert any(isinstance(event.event, HistoryTrimmed) for event in of_child)
    assert sum(isinstance(event.event, UsageReported) for event in of_child) == 9
    assert sum(isinstance(event, UsageReported) for event in events) == 2


async def test_a_store_that_fails_ends_the_turn_not_the_subagent_alone(store: Store) -> None:
    async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await store.delete("s/call_a")
        return ModelResponse([TextPart("done")])

    session = await Session.open(leader("a"), store, "s", subagents=Subagents(Agent(FunctionModel(script))))
    with pytest.raises(StoreError):
        await session.run("Go.")
    assert sent((await Session.open(leader("a"), store, "s")).messages) == sent(session.messages)


async def test_a_subagent_is_deleted_with_its_parent(store: Store) -> None:
    session = await Session.open(leader("a"), store, "s", subagents=Subagents(saying(str.upper)))
    assert await session.run("Go.") == "A"
    assert (await session.delete()).sessions == 2
    assert await store.sessions() == []
