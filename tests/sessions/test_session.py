"""Sessions: recorded before each call, resumed where they stand, forked, compacted, recalled, deleted (issue 4, L9)."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from longturn import Policy, SummaryRequest
from longturn.agent import LongTurn, UsageReported
from longturn.agent.recall import RECALLABLE
from longturn.agent.session import Answered, Session
from longturn.core.policy import Summarization, Trigger
from longturn.errors import ConfigError, SessionConflict, StoreError
from longturn.stores import Store
from tests.sessions.working import Reader, opened, results, sent

pytestmark = pytest.mark.anyio

TRIGGERED = Policy(summarization=Summarization(trigger=Trigger("messages_to_refine", 6)))


def told(request: SummaryRequest) -> str:
    """A summary that says how much it stands for."""
    return f"It stands for {len(request.messages)} messages."


async def test_a_turn_is_recorded_whole_and_read_back_as_it_was(store: Store) -> None:
    reader = Reader()
    session = await opened(reader, store)
    assert await session.run("Read.") == "I read 3 chapters."
    again = await opened(reader, store)
    assert ModelMessagesTypeAdapter.dump_json(again.messages) == ModelMessagesTypeAdapter.dump_json(session.messages)
    assert [type(message).__name__ for message in again.messages] == ["ModelRequest", "ModelResponse"] * 4
    assert again.meter == session.meter
    assert again.meter.spend.call.calls == 4
    assert await store.verify() == []


async def test_every_message_is_on_disk_before_the_call_that_depends_on_it(store: Store) -> None:
    """The model's own call is the judge: all that it could be sent is in the database by then."""
    reader = Reader()
    recorded: list[tuple[int, int]] = []

    async def call(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        log = await store.read("s", kinds=["message"])
        recorded.append((len(log.entries), len(reader.session[-1].messages)))
        return await reader(messages, info)

    agent = reader.agent
    session = await Session.open(agent, store, "s", summarize=False)
    reader.session.append(session)
    with agent.override(model=FunctionModel(call)):
        await session.run("Read.")
        await session.run("Read again.")
    assert recorded == [(number, number) for number in (1, 3, 5, 7, 9, 11, 13, 15)]


async def test_an_answer_is_on_disk_before_its_tools_run(store: Store) -> None:
    agent: Agent[None, str] = Agent(TestModel(call_tools=["look"]))
    seen: list[str] = []

    @agent.tool_plain
    async def look() -> str:
        log = await store.read("s", kinds=["message"])
        seen.append(log.entries[-1].body["kind"])
        return "nothing"

    await (await Session.open(agent, store, "s")).run("Look.")
    assert seen == ["response"]


@pytest.mark.parametrize("summarize", [False, True], ids=["plain", "summaries"])
async def test_the_windows_after_a_restart_are_those_of_a_session_that_went_on_l9(
    store: Store, summarize: bool
) -> None:
    """Turn by turn a fork is opened from the store and asked the same as the session that stays in memory."""
    options: dict[str, Any] = {"summarize": told, "policy": TRIGGERED} if summarize else {}
    reader = Reader()
    session = await opened(reader, store, **options)
    for turn in range(4):
        await session.fork(f"fork {turn}")
        reader.seen.clear()
        await session.run("Read on.")
        stayed = [sent(window) for window in reader.seen]
        reader.seen.clear()
        fresh = await opened(reader, store, f"fork {turn}", **options)
        await fresh.run("Read on.")
        reader.session.append(session)
        assert [sent(window) for window in reader.seen] == stayed
    assert bool((await store.read("s", kinds=["checkpoint"])).entries) == summarize
    assert min(len(window) for window in reader.seen) < len(session.messages)


async def test_what_a_refusal_taught_outlives_the_process_h24_b34(store: Store) -> None:
    limit = 2_000
    refused: list[int] = []
    reader = Reader(chapters=6)

    def refuse(messages: list[ModelMessage]) -> None:
        size = sum(len(str(each)) for each in sent(messages)) // 4
        if size > limit:
            refused.append(size)
            body = {
                "error": {"code": 400, "n_prompt_tokens": size, "n_ctx": limit, "type": "exceed_context_size_error"}
            }
            raise ModelHTTPError(400, "reader", {**body["error"], "message": "the request exceeds the context size"})

    reader.at = refuse
    session = await opened(reader, store, capacity=None, budget=100_000)
    assert await session.run("Read.") == "I read 6 chapters."
    assert refused
    assert (await store.read("s", kinds=["recovery"])).entries
    await session.fork("f")
    reader.seen.clear()
    await session.run("Read on.")
    stayed = [sent(window) for window in reader.seen]
    reader.seen.clear()
    fresh = await opened(reader, store, "f", capacity=None, budget=100_000)
    assert await fresh.run("Read on.") == "I read 6 chapters."
    assert [sent(window) for window in reader.seen] == stayed


async def test_a_turn_that_was_cut_off_goes_on_with_its_open_calls(store: Store) -> None:
    reader = Reader()
    agent: Agent[None, str] = reader.agent
    ran: list[int] = []
    is_broken = True

    @agent.tool_plain(name="read_more")
    def read_more(n: int) -> str:
        ran.append(n)
        if is_broken:
            raise ZeroDivisionError
        return f"more of {n}"

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        found = results(messages)
        return ModelResponse([TextPart(found[-1].content) if found else ToolCallPart("read_more", {"n": 7}, "c")])

    with agent.override(model=FunctionModel(script)):
        session = await Session.open(agent, store, "s")
        with pytest.raises(ZeroDivisionError):
            await session.run("Read.")
        is_broken = False
        again = await Session.open(agent, store, "s")
        assert await again.run() == "more of 7"
        assert ran == [7, 7]
        with pytest.raises(ConfigError, match="give a prompt"):
            await again.run()


async def test_a_new_prompt_answers_open_calls_as_interrupted_and_the_window_is_valid_h29(store: Store) -> None:
    agent: Agent[None, str] = Agent(TestModel(call_tools=["fail"], custom_output_text="done"))

    @agent.tool_plain
    def fail() -> str:
        raise ZeroDivisionError

    session = await Session.open(agent, store, "s")
    with pytest.raises(ZeroDivisionError):
        await session.run("Try.")
    with agent.override(model=TestModel(call_tools=[], custom_output_text="fine")):
        assert await session.run("Leave it.") == "fine"
    part = results(session.messages)[0]
    assert part.outcome == "interrupted"
    assert sent((await Session.open(agent, store, "s")).messages) == sent(session.messages)


async def test_a_question_that_got_no_answer_and_the_next_one_are_sent_as_one_request(store: Store) -> None:
    reader = Reader(chapters=0)
    session = await opened(reader, store)

    def down(_messages: list[ModelMessage]) -> None:
        raise ModelHTTPError(503, "reader", "away")

    reader.at = down
    for prompt in ("One.", "Two."):
        with pytest.raises(ModelHTTPError):
            await session.run(prompt)
    reader.at = lambda _messages: None
    assert await session.run("Three.") == "I read 0 chapters."
    assert [len(message.parts) for message in reader.seen[-1]] == [3]
    assert [len(message.parts) for message in session.messages] == [1, 1, 1, 1]
    reader.seen.clear()
    again = await opened(reader, store)
    await again.run("Four.")
    assert [len(message.parts) for message in reader.seen[0]] == [3, 1, 1]


async def test_send_streams_everything_and_ends_with_the_answer(store: Store) -> None:
    agent: Agent[None, str] = Agent(TestModel(call_tools=[], custom_output_text="yes, indeed"))
    session = await Session.open(agent, store, "s")
    events = [event async for event in session.send("Really?")]
    assert events[-1] == Answered("yes, indeed")
    assert any(isinstance(event, UsageReported) for event in events)
    assert {"PartStartEvent", "PartDeltaEvent"} <= {type(event).__name__ for event in events}


async def test_leaving_the_stream_cancels_the_turn_and_the_session_goes_on(store: Store) -> None:
    reader = Reader(chapters=1)
    agent: Agent[None, str] = Agent(TestModel(call_tools=[], custom_output_text="a long answer in many words"))
    session = await Session.open(agent, store, "s")
    async with aclosing(session.send("Talk.")) as events:
        async for _ in events:
            break
    assert [type(message).__name__ for message in session.messages] == ["ModelRequest"]
    assert await session.run() == "a long answer in many words"
    assert reader.seen == []


async def test_a_second_turn_at_the_same_time_is_refused(store: Store) -> None:
    session = await opened(Reader(), store)
    first = asyncio.create_task(session.run("Read."))
    await asyncio.sleep(0)
    with pytest.raises(SessionConflict, match="in a turn already"):
        await session.run("Read, too.")
    assert await first == "I read 3 chapters."


async def test_of_two_that_write_to_one_session_one_gets_a_conflict_and_nothing_is_lost(place: str) -> None:
    async with await Store.open(place) as one, await Store.open(place) as other:
        readers = Reader(), Reader()
        first = await opened(readers[0], one)
        second = await opened(readers[1], other)
        ends = await asyncio.gather(first.run("Read."), second.run("Read."), return_exceptions=True)
        assert sorted(type(end).__name__ for end in ends) == ["SessionConflict", "str"]
        winner, loser = (first, second) if ends[0] == "I read 3 chapters." else (second, first)
        assert sent((await opened(Reader(), one)).messages) == sent(winner.messages)
        with pytest.raises(SessionConflict):
            await loser.run("Read.")
        assert await (await opened(readers[0], one)).run("Read on.") == "I read 3 chapters."
        assert await one.verify() == []


async def test_a_fork_shares_what_came_before_and_what_it_cost_s13(store: Store) -> None:
    session = await opened(Reader(), store)
    await session.run("Read.")
    log = await store.read("s", kinds=["message"])
    fork = await session.fork("f", at=log.entries[1].id)
    assert sent(fork.messages) == sent(session.messages[:2])
    assert fork.meter.spend.call.calls < fork.meter.all_branches.call.calls == 4
    with pytest.raises(SessionConflict):
        await session.fork("f")


async def test_compact_makes_a_checkpoint_at_once_or_says_why_not_s10(store: Store) -> None:
    reader = Reader()
    off = await opened(reader, store, "off")
    await off.run("Read.")
    assert (await off.compact()).refused == "disabled"
    session = await opened(reader, store, summarize=told, capacity=20_000)
    await session.run("Read.")
    await session.run("Read on.")
    await session.run("Read on.")
    compaction = await session.compact()
    assert compaction.checkpoint is not None
    assert (await store.read("s", kinds=["checkpoint"])).entries
    again = await opened(reader, store, summarize=told, capacity=20_000)
    reader.seen.clear()
    await again.run("Read on.")
    assert compaction.checkpoint.text in str(sent(reader.seen[0]))


async def test_a_checkpoint_is_on_disk_before_the_request_that_it_was_made_for_s8(store: Store) -> None:
    reader = Reader()
    found: list[int] = []

    async def call(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if "It stands for" in str(sent(messages)):
            found.append(len((await store.read("s", kinds=["checkpoint"])).entries))
        return await reader(messages, info)

    session = await opened(reader, store, summarize=told, policy=TRIGGERED)
    with session.agent.override(model=FunctionModel(call)):
        for _ in range(3):
            await session.run("Read on.")
    assert found
    assert found[0] == 1
    assert 0 not in found


async def test_a_session_can_be_compacted_right_after_it_was_opened(store: Store) -> None:
    reader = Reader()
    session = await opened(reader, store, capacity=20_000)
    for _ in range(3):
        await session.run("Read on.")
    again = await opened(reader, store, summarize=told, capacity=20_000)
    assert (await again.compact()).checkpoint is not None


async def test_a_cleared_result_is_recalled_by_its_id_b14(store: Store) -> None:
    reader = Reader(chapters=8)
    session = await opened(reader, store, policy=Policy(rungs=("results",)))
    await session.run("Read.")
    cleared = [part for part in results(reader.seen[-1]) if part.content == RECALLABLE]
    assert cleared
    text = await session.recall(cleared[0].tool_call_id)
    assert text is not None
    assert text.startswith("Chapter 0.")
    assert await session.recall("no such call") is None


async def test_the_agent_may_recall_a_result_itself_and_is_told_which_there_are(store: Store) -> None:
    asked: Iterator[Any] = iter(
        [("read", {"n": 1}, "a"), ("recall", {"result_id": "a"}, "b"), ("recall", {"result_id": ""}, "c")]
    )

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        call = next(asked, None)
        return ModelResponse([ToolCallPart(*call) if call else TextPart("done")])

    agent: Agent[None, str] = Agent(FunctionModel(script))

    @agent.tool_plain
    def read(n: int) -> str:
        return "word " * 2_000

    session = await Session.open(agent, store, "s", max_tool_result_chars=500)
    await session.run("Read.")
    bounded, page, found = (part.content for part in results(session.messages))
    assert len(bounded) <= 500
    assert await session.recall("a") == "word " * 2_000
    assert len(page) <= 500  # what recall gives is a result too
    whole = await session.recall("b")
    assert whole is not None
    assert whole.startswith("[page 1 of 2]\nword word")
    assert 'a: read({"n":1}), ' in found


async def test_an_agent_with_a_capability_of_its_own_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="has a LongTurn already"):
        await Session.open(Agent(TestModel(), capabilities=[LongTurn()]), store, "s")


async def test_a_deleted_session_is_gone_and_old_ones_expire(store: Store) -> None:
    session = await opened(Reader(), store)
    await session.run("Read.")
    assert (await session.delete()).sessions == 1
    with pytest.raises(StoreError):
        await session.run("Read.")
    await opened(Reader(), store, "old")
    assert (await Session.expire(store, timedelta(0))).sessions == 1
    assert await store.sessions() == []


def test_a_session_is_used_without_async_code(tmp_path: Any) -> None:
    agent: Agent[None, str] = Agent(TestModel(call_tools=[], custom_output_text="yes"))
    with Session.sync(agent, tmp_path / "s.db", "s") as session:
        assert session.run_sync("Is it?") == "yes"
        assert session.run_sync("Still?") == "yes"
    with Session.sync(agent, tmp_path / "s.db", "s") as session:
        assert len(session.messages) == 4


async def test_run_sync_inside_the_event_loop_says_what_to_do(store: Store) -> None:
    session = await opened(Reader(), store)
    with pytest.raises(ConfigError, match=r"await session\.run"):
        session.run_sync("Read.")
    assert await asyncio.to_thread(session.run_sync, "Read.") == "I read 3 chapters."


async def test_structured_output_is_recorded_and_the_next_turn_follows_it(store: Store) -> None:
    agent: Agent[None, Any] = Agent(TestModel(call_tools=[]), output_type=list[int])
    session = await Session.open(agent, store, "s")
    first = await session.run("Count.")
    again = await Session.open(agent, store, "s")
    assert await again.run("Count on.") == first
    assert sent((await Session.open(agent, store, "s")).messages) == sent(again.messages)


async def test_system_prompts_and_instructions_are_in_the_first_request_once(store: Store) -> None:
    agent: Agent[None, str] = Agent(TestModel(call_tools=[]), system_prompt="Be brief.", instructions="Be kind.")
    session = await Session.open(agent, store, "s")
    await session.run("One.")
    await session.run("Two.")
    again = await Session.open(agent, store, "s")
    await again.run("Three.")
    assert str(sent(again.messages)).count("Be brief.") == 1
    assert "Be kind." in str(again.messages[0])
