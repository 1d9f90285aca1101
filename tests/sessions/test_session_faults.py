"""What breaks in a session's turn, and what is left of it: tools, providers, databases, observers, cancellation."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, RunCancelled
from pydantic_ai.exceptions import ModelHTTPError, RunTimedOut, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, repair_messages
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import UsageLimits

from longturn.agent import DIALECT
from longturn.agent.session import Session
from longturn.errors import StoreError
from longturn.stores import Head, New, Store
from tests.sessions.working import Reader, Stepped, opened, results, sent
from tests.stores.conftest import Postgres

pytestmark = pytest.mark.anyio

STEP = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 13


def answering(**more: Any) -> TestModel:
    return TestModel(custom_output_text="done", **more)


async def is_sound(session: Session[Any], store: Store) -> bool:
    """What it holds is what is stored, is valid to send, and a next turn goes on from it."""
    again = await Session.open(session.agent, store, session.id)
    assert ModelMessagesTypeAdapter.dump_json(again.messages) == ModelMessagesTypeAdapter.dump_json(session.messages)
    assert DIALECT.problems(repair_messages(again.messages)) == []
    with session.agent.override(model=TestModel(call_tools=[], custom_output_text="sound")):
        assert await session.run("Go on.") == "sound"
    return await store.verify() == []


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"\x00\xff", "AP8="),
        ({"raw": b"\x00\xff"}, '{"raw":"AP8="}'),
        ([complex(1, 2)], '["1+2j"]'),
        ({"b": [1, None], "a": {"ü"}}, '{"b":[1,null],"a":["ü"]}'),
        (None, ""),
        ("half a pair: \ud800", "half a pair: \ud800"),
    ],
    ids=["bytes", "bytes inside", "an object", "json", "nothing", "surrogate"],
)
async def test_whatever_a_tool_returns_is_the_same_before_and_after_a_restart_l9(
    store: Store, content: object, shown: str
) -> None:
    agent: Agent[None, str] = Agent(answering())

    @agent.tool_plain
    def look() -> Any:
        return content

    session = await Session.open(agent, store, "s", recall=False)
    await session.run("Look.")
    assert results(session.messages)[0].model_response_str() == shown
    again = await Session.open(agent, store, "s")
    assert sent(again.messages) == sent(session.messages)
    assert results(again.messages)[0].model_response_str() == shown


async def test_fifty_megabytes_are_bounded_in_the_transcript_and_kept_whole_in_the_store_b22_h30(store: Store) -> None:
    text = "0123456789" * 5_000_000
    agent: Agent[None, str] = Agent(answering(call_tools=["look"]))

    @agent.tool_plain
    def look() -> str:
        return text

    session = await Session.open(agent, store, "s")
    await session.run("Look.")
    part = results(session.messages)[0]
    assert len(part.content) <= 50_000
    assert await session.recall(part.tool_call_id) == text
    again = await Session.open(agent, store, "s")
    assert sent(again.messages) == sent(session.messages)


async def test_an_image_stays_an_image_and_only_the_text_beside_it_is_bounded_h30(store: Store) -> None:
    image = BinaryContent(b"\x89PNG" + bytes(2_000), media_type="image/png")
    agent: Agent[None, str] = Agent(answering(call_tools=["look"]))

    @agent.tool_plain
    def look() -> Any:
        return ["word " * 1_000, image]

    session = await Session.open(agent, store, "s", max_tool_result_chars=300)
    await session.run("Look.")
    part = results((await Session.open(agent, store, "s")).messages)[0]
    assert [file.data for file in part.files] == [image.data]
    assert len(part.model_response_str()) <= 400


async def test_no_bound_at_all_where_it_is_0_h30(store: Store) -> None:
    agent: Agent[None, str] = Agent(answering(call_tools=["look"]))

    @agent.tool_plain
    def look() -> str:
        return "x" * 60_000

    session = await Session.open(agent, store, "s", max_tool_result_chars=0)
    await session.run("Look.")
    assert len(results(session.messages)[0].content) == 60_000


async def test_a_tool_that_raises_ends_the_turn_and_what_others_returned_is_kept(store: Store) -> None:
    agent: Agent[None, str] = Agent(answering(call_tools=["good", "bad"]))

    @agent.tool_plain(sequential=True)
    def good() -> str:
        return "good"

    @agent.tool_plain(sequential=True)
    def bad() -> str:
        raise ZeroDivisionError

    session = await Session.open(agent, store, "s")
    with pytest.raises(ZeroDivisionError):
        await session.run("Try.")
    assert [part.content for part in results(session.messages)] == ["good"]
    assert await is_sound(session, store)


async def test_a_provider_that_hangs_is_left_after_its_time(store: Store) -> None:
    async def hang(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.Event().wait()
        raise AssertionError

    session = await Session.open(Agent(FunctionModel(hang)), store, "s")
    with pytest.raises(RunTimedOut):
        await session.run("Are you there?", timeout=0.3)
    assert [type(message).__name__ for message in session.messages] == ["ModelRequest"]
    assert await is_sound(session, store)


async def test_half_a_streamed_answer_is_no_message_and_the_turn_can_go_on(store: Store) -> None:
    breaks = True

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "Once upon "
        if breaks:
            raise ModelHTTPError(502, "stream", "gone")
        yield "a time."

    session = await Session.open(Agent(FunctionModel(stream_function=stream)), store, "s")
    with pytest.raises(ModelHTTPError):
        async for _ in session.send("Tell."):
            pass
    assert [type(message).__name__ for message in session.messages] == ["ModelRequest"]
    breaks = False
    events = [event async for event in session.send()]
    assert getattr(events[-1], "output", None) == "Once upon a time."
    assert await is_sound(session, store)


async def test_an_answer_that_crossed_a_limit_of_usage_is_paid_for_and_kept(store: Store) -> None:
    session = await Session.open(Agent(answering(call_tools=[])), store, "s")
    with pytest.raises(UsageLimitExceeded):
        await session.run("Talk.", usage_limits=UsageLimits(output_tokens_limit=0))
    assert [type(message).__name__ for message in session.messages] == ["ModelRequest", "ModelResponse"]
    assert await is_sound(session, store)


async def test_an_observer_that_raises_breaks_nothing_h28(store: Store) -> None:
    def broken(_event: object) -> None:
        raise RuntimeError("no")

    reader = Reader(chapters=6)
    session = await opened(reader, store, observer=broken)
    assert await session.run("Read.") == "I read 6 chapters."
    assert await is_sound(session, store)


async def test_a_corrupted_row_is_left_out_and_named_and_the_session_goes_on(
    store: Store, tamper: Callable[..., Any]
) -> None:
    reader = Reader()
    session = await opened(reader, store)
    await session.run("Read.")
    log = await store.read("s", kinds=["message"])
    await tamper(store, f"UPDATE longturn_contents SET body = OTHER WHERE digest = '{log.entries[2].digest}'")
    again = await opened(reader, store)
    assert [problem.where for problem in again.problems] == ["content"]
    assert len(again.messages) == len(session.messages) - 1
    assert await again.run("Read on.") == "I read 3 chapters."
    assert DIALECT.problems(repair_messages(again.messages)) == []
    assert (await store.verify())[0].id == log.entries[2].digest


async def test_a_session_of_another_program_says_so(store: Store) -> None:
    await store.append(await store.create("s"), [New("message", {"role": "user", "content": "hello"})])
    with pytest.raises(StoreError, match="read this session with the program that wrote it"):
        await Session.open(Agent(answering()), store, "s")


async def test_a_database_that_goes_away_in_mid_turn_ends_it_and_the_turn_goes_on_when_it_is_back(
    postgres: Postgres,
) -> None:
    async with await Store.open(postgres.place()) as store:
        agent: Agent[None, str] = Agent(answering(call_tools=["look"]))
        ran: list[str] = []

        @agent.tool_plain
        def look() -> str:
            ran.append("look")
            if len(ran) == 1:
                postgres.crash()
            return "seen"

        session = await Session.open(agent, store, "s")
        with pytest.raises(StoreError):
            await session.run("Look.")
        with pytest.raises(StoreError):
            await session.run()
        postgres.start()
        assert await session.run() == "done"
        assert ran == ["look"]  # what it returned waited here, and was recorded when the database was back
        assert [part.content for part in results(session.messages)] == ["seen"]
        assert await is_sound(session, store)


@dataclass
class LosingAnswers:
    """A connection that breaks just behind each write that was kept."""

    store: Store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def append(self, head: Head, new: Sequence[New], **more: Any) -> Head:
        await self.store.append(head, new, **more)
        raise StoreError("the connection was lost")


async def test_a_write_whose_answer_was_lost_is_not_written_twice_nor_taken_for_somebody_elses(store: Store) -> None:
    session = await opened(Reader(), store)
    session._recording.store = LosingAnswers(store)  # type: ignore[assignment]
    with pytest.raises(StoreError, match="was lost"):
        await session.run("Read.")
    session._recording.store = store
    assert await session.run() == "I read 3 chapters."
    kinds = [type(message).__name__ for message in session.messages]
    assert kinds == ["ModelRequest", "ModelResponse"] * 4
    assert await is_sound(session, store)


async def test_a_full_disk_ends_the_turn_and_it_goes_on_with_room_again(tmp_path: Any) -> None:
    async with await Store.open(tmp_path / "s.db") as store:
        agent: Agent[None, str] = Agent(answering(call_tools=["look"]))
        session = await Session.open(agent, store, "s")

        async def pages(most: int) -> None:
            async with store.database.engine.connect() as db:
                await db.exec_driver_sql(f"PRAGMA max_page_count = {most}")

        @agent.tool_plain
        async def look() -> str:
            await pages(1)  # it does not go below what there is
            return "x" * 40_000

        with pytest.raises(StoreError, match="no room left"):
            await session.run("Look.")
        await pages(1_000_000)
        assert await session.run() == "done"
        assert await is_sound(session, store)


async def test_cancel_ends_the_turn_and_what_was_recorded_stays(store: Store) -> None:
    agent: Agent[None, str] = Agent(answering(call_tools=["look"]))
    session = await Session.open(agent, store, "s")

    @agent.tool_plain
    async def look() -> str:
        session.cancel()
        await asyncio.sleep(60)
        return "never"

    session.cancel()  # nothing runs: nothing happens
    with pytest.raises(RunCancelled):
        await session.run("Look.")
    assert [type(message).__name__ for message in session.messages] == ["ModelRequest", "ModelResponse"]
    assert await is_sound(session, store)


async def test_a_turn_may_be_cancelled_at_every_await(tmp_path: Any) -> None:
    """Each time what is stored is a beginning of the whole turn, this process and the next agree, and both go on."""
    async with await Store.open(tmp_path / "s.db") as store:
        loop = asyncio.get_running_loop()
        whole = Stepped()
        loop.set_task_factory(whole.factory)
        reference = await opened(Reader(chapters=2), store, "whole")
        await reference.run("Read.")
        assert whole.count > 50
        for at in range(1, whole.count + 1, STEP):
            name = f"cut at {at}"
            session = await opened(Reader(chapters=2), store, name)
            loop.set_task_factory(Stepped(at).factory)
            with suppress(asyncio.CancelledError):  # the last awaits come behind the answer
                await session.run("Read.")
            loop.set_task_factory(None)
            stored = (await opened(Reader(), store, name)).messages
            assert sent(stored) == sent(session.messages)
            parts, expected = ([each["parts"] for each in sent(many)] for many in (stored, reference.messages))
            assert parts[:-1] == expected[: len(parts[:-1])]
            assert all(part in expected[len(parts) - 1] for part in parts[-1]) if parts else at < 20
            assert await is_sound(session, store)
