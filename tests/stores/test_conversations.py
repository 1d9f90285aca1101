"""`Conversations` does what Pydantic AI's own InMemoryConversationStore does, and shares its tables with sessions.

Pydantic AI ships no conformance suite for stores, so each scenario is run on both and must come out the same.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryImage, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from longturn.errors import StoreError
from longturn.stores import New, Store
from longturn.stores.conversations import Conversations, message_body

pytestmark = pytest.mark.anyio

Scenario = Callable[[ConversationStore], Awaitable[Any]]
# Read back from JSON, an image in Pydantic AI's messages is always a BinaryImage.
TURN: list[ModelMessage] = [
    ModelRequest([UserPromptPart(["look", BinaryImage(b"\x89PNG\0", media_type="image/png")])]),
    ModelResponse(
        [
            ThinkingPart("hm", signature="sig==", provider_name="anthropic"),
            ToolCallPart("run", {"b": 1, "a": "é"}, "c1"),
        ],
        usage=replace(ModelResponse([]).usage, input_tokens=7),
        provider_details={"finish_reason": "tool_use"},
    ),
    ModelRequest(
        [ToolReturnPart("run", {"rows": [1, None]}, "c1"), UserPromptPart("and now?")], instructions="be brief"
    ),
    ModelResponse([TextPart("done")]),
]


def asked(*texts: str) -> list[ModelMessage]:
    return [ModelRequest([UserPromptPart(text)]) for text in texts]


def texts(messages: list[ModelMessage]) -> list[str]:
    return [str(part.content) for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


async def loaded(store: ConversationStore, name: str, **options: Any) -> list[str] | None:
    found = await store.load(name, **options)
    return None if found is None else texts(found.messages)


async def failure(call: Awaitable[object]) -> str:
    try:
        await call
    except (UserError, LookupError) as error:
        return type(error).__name__
    return "none"


async def saved(store: ConversationStore, name: str, *said: str, **options: Any) -> Conversation:
    conversation = Conversation(messages=asked(*said), conversation_id=name)
    await store.save(conversation, **options)
    return conversation


async def everything_comes_back(store: ConversationStore) -> Any:
    waiting = DeferredToolRequests(calls=[ToolCallPart("ask", {"x": 1}, "c9")], metadata={"c9": {"why": "rights"}})
    usage = RunUsage(input_tokens=5, output_tokens=6, requests=2, details={"reasoning_tokens": 3})
    conversation = Conversation(messages=list(TURN), conversation_id="a", usage=usage, deferred_tool_requests=waiting)
    entries = await store.save(conversation, scope="ann")
    found = await store.load("a")
    assert found is not None
    assert found.revision == conversation.revision
    assert [entry.id for entry in await store.load_entries("a") or []] == [entry.id for entry in entries]
    links = [entry.parent_id for entry in await store.load_entries("a") or []]
    assert links == [None, *(entry.id for entry in entries[:-1])]
    assert (await store.read_entry(entries[2].id)).parent_id == entries[1].id
    return found.messages, found.usage, found.deferred_tool_requests


async def a_save_appends_what_is_new(store: ConversationStore) -> Any:
    conversation = await saved(store, "a", "1", "2")
    conversation.messages.extend(asked("3"))
    added = [len(await store.save(conversation)), len(await store.save(conversation))]
    return added, await loaded(store, "a"), await loaded(store, "a", limit=2), await loaded(store, "a", limit=0)


async def a_window_appends_to_the_whole(store: ConversationStore) -> Any:
    await saved(store, "a", "1", "2", "3")
    window = await store.load("a", limit=1)
    assert window is not None
    window.messages.extend(asked("4"))
    await store.save(window)
    return await loaded(store, "a"), await failure(store.load("a", limit=-1))


async def a_rewritten_history_leaves_a_branch(store: ConversationStore) -> Any:
    conversation = await saved(store, "a", "1", "2", "3")
    rewritten = Conversation(messages=asked("1", "other"), conversation_id="a", revision=conversation.revision)
    added = await store.save(rewritten)
    record = await store.read_record("a")
    assert record is not None
    assert record.head_id == added[-1].id
    back = await store.branch("a", from_entry=record.branches[0], expected_revision=record.revision)
    return len(added), len(record.branches), texts(back.messages), await loaded(store, "a")


async def of_two_saves_one_conflicts(store: ConversationStore) -> Any:
    await saved(store, "a", "1")
    one, other = await store.load("a"), await store.load("a")
    assert one is not None
    assert other is not None
    one.messages.extend(asked("one"))
    other.messages.extend(asked("other"))
    await store.save(one)
    outcomes = [await failure(store.save(other)), await failure(saved(store, "a", "new"))]
    await store.delete("a")
    return outcomes, await failure(store.save(one)), await loaded(store, "a")


async def scopes_keep_conversations_apart(store: ConversationStore) -> Any:
    conversation = await saved(store, "a", "1", scope="ann")
    await saved(store, "b", "2", scope="bob")
    await saved(store, "c", "3", scope="ann")
    await store.delete("a", scope="bob")
    return (
        await loaded(store, "a", scope="bob"),
        await loaded(store, "a", scope="ann"),
        await failure(store.save(conversation, scope="bob")),
        [record.conversation_id for record in await store.list_conversations(scope="ann")],
        [record.conversation_id for record in await store.list_conversations()],
        [record.conversation_id for record in await store.list_conversations(limit=1)],
        [record.scope for record in await store.list_conversations(limit=2)],
    )


async def forks_share_and_part(store: ConversationStore) -> Any:
    conversation = await saved(store, "a", "1", "2", "3", scope="ann")
    fork = await store.fork("a", at=2, new_conversation_id="f")
    fork.messages.extend(asked("f"))
    await store.save(fork)
    whole = await store.fork("a", new_conversation_id="w", scope="bob")
    conversation.messages.extend(asked("4"))
    await store.save(conversation)
    entries = await store.load_entries("a")
    record, other = await store.read_record("f"), await store.read_record("w")
    assert entries is not None
    assert record is not None
    assert other is not None
    assert record.forked_at == entries[1].id
    await store.fork("a", from_entry=entries[0].id, new_conversation_id="e")
    before = [await loaded(store, name) for name in "afwe"]
    await store.delete("a")
    return (
        before,
        texts(whole.messages),
        [await loaded(store, name) for name in "afwe"],
        (record.forked_from, record.scope, other.scope),
        await failure(store.fork("f", new_conversation_id="w")),
        await failure(store.fork("nobody")),
        await failure(store.fork("f", at=9)),
        await failure(store.fork("f", from_entry="elsewhere")),
    )


async def branching_goes_back_and_forth(store: ConversationStore) -> Any:
    conversation = await saved(store, "a", "1", "2", "3")
    stale = conversation.revision
    back = await store.branch("a", at=1, expected_revision=conversation.revision)
    back.messages.extend(asked("2b"))
    await store.save(back)
    first = await store.read_record("a")
    assert first is not None
    forth = await store.branch("a", from_entry=first.branches[0], expected_revision=first.revision)
    second = await store.read_record("a")
    assert second is not None
    return (
        texts(forth.messages),
        await loaded(store, "a"),
        len(first.branches),
        len(second.branches),
        await failure(store.branch("a", at=1, expected_revision=stale)),
        await failure(store.branch("a", at=9, expected_revision=second.revision)),
        await failure(store.branch("nobody", at=0, expected_revision=None)),
        texts((await store.branch("a", at=0, expected_revision=second.revision)).messages),
    )


async def what_is_deleted_is_gone(store: ConversationStore) -> Any:
    conversation = await saved(store, "a", "1", "2")
    entries = await store.load_entries("a")
    assert entries is not None
    await store.fork("a", at=1, new_conversation_id="f")
    await store.delete("a")
    await store.delete("nobody")
    gone = ConversationRecord(conversation_id="late", head_id=entries[1].id)
    return (
        await failure(store.read_entry(entries[1].id)),
        await failure(store.read_entry(entries[0].id)),
        await failure(store.write_record(gone, expected_revision=None)),
        await failure(store.delete_record("f", expected_revision=str(conversation.revision))),
        await loaded(store, "late"),
        await loaded(store, "f"),
    )


async def the_same_message_may_come_twice(store: ConversationStore) -> Any:
    await saved(store, "a", "same", "same")
    await saved(store, "b", "same", "same")
    a, b = await store.load_entries("a"), await store.load_entries("b")
    assert a is not None
    assert b is not None
    await store.delete("a")
    return len({entry.id for entry in (*a, *b)}), [entry.message for entry in b] == [entry.message for entry in a]


async def an_agent_runs_on_it(store: ConversationStore) -> Any:
    agent = Agent(TestModel(custom_output_text="hello"))
    for prompt in ("one", "two"):
        conversation = await store.load("a") or Conversation(conversation_id="a")
        await store.save(await agent.run(prompt, conversation=conversation))
    found = await store.load("a")
    assert found is not None
    return len(found.messages), found.usage.requests, texts(found.messages)


async def a_record_without_messages_is_kept(store: ConversationStore) -> Any:
    await saved(store, "a")
    record = await store.read_record("a")
    assert record is not None
    return record.head_id, await loaded(store, "a"), await store.read_history(None)


SCENARIOS: tuple[Scenario, ...] = (
    everything_comes_back,
    a_save_appends_what_is_new,
    a_window_appends_to_the_whole,
    a_rewritten_history_leaves_a_branch,
    of_two_saves_one_conflicts,
    scopes_keep_conversations_apart,
    forks_share_and_part,
    branching_goes_back_and_forth,
    what_is_deleted_is_gone,
    the_same_message_may_come_twice,
    an_agent_runs_on_it,
    a_record_without_messages_is_kept,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_a_scenario_comes_out_as_with_the_store_in_memory(store: Store, scenario: Scenario) -> None:
    assert await scenario(Conversations(store)) == await scenario(InMemoryConversationStore())
    assert await store.verify() == []


async def test_a_conversation_is_a_session_and_a_session_a_conversation(store: Store) -> None:
    conversations = Conversations(store)
    head = await store.create("s", scope="ann")
    head = await store.append(head, [New("message", message_body(message)) for message in TURN])
    head = await store.append(head, [New("checkpoint", {"text": "so far"})])
    conversation = await conversations.load("s", scope="ann")
    assert conversation is not None
    assert conversation.messages == TURN
    conversation.messages.extend(asked("next"))
    await conversations.save(conversation)
    log = await store.read("s")
    assert [entry.kind for entry in log.entries] == ["message"] * 4 + ["checkpoint", "message"]
    assert (log.head.revision, log.problems) == (head.revision + 1, ())
    await store.append(log.head, [New("message", message_body(asked("by the session")[0]))])
    with pytest.raises(ConversationConflict):
        await conversations.save(conversation)
    assert (await loaded(conversations, "s") or [])[-2:] == ["next", "by the session"]
    entries = await conversations.load_entries("s")
    assert entries is not None
    assert [entry.parent_id for entry in entries[1:]] == [entry.id for entry in entries[:-1]]


async def test_equal_messages_of_conversations_and_sessions_share_their_content(store: Store) -> None:
    await store.append(await store.create("s"), [New("message", message_body(TURN[0]))])
    await Conversations(store).save(Conversation(messages=[TURN[0]], conversation_id="c"))
    digests = {(await store.read(name)).entries[0].digest for name in ("s", "c")}
    assert len(digests) == 1


async def test_a_subagent_is_no_conversation_in_a_list_and_conversations_expire(store: Store) -> None:
    conversations = Conversations(store)
    await saved(conversations, "a", "1")
    await store.create("worker", subagent_of="a")
    assert [record.conversation_id for record in await conversations.list_conversations()] == ["a"]
    assert (await store.expire(timedelta(seconds=-1))).sessions == 2
    assert await conversations.load("a") is None


async def test_a_damaged_message_is_left_out_with_a_warning(store: Store, tamper: Any, caplog: Any) -> None:
    conversations = Conversations(store)
    await saved(conversations, "a", "1", "2", "3")
    damaged = (await store.read("a")).entries[1]
    await tamper(store, f"UPDATE longturn_contents SET body = OTHER WHERE digest = '{damaged.digest}'")
    assert await loaded(conversations, "a") == ["1", "3"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert damaged.digest in caplog.text


async def test_a_session_of_another_format_is_told_apart(store: Store) -> None:
    await store.append(await store.create("s"), [New("message", {"role": "user", "content": "hi"})])
    with pytest.raises(StoreError, match="entry 0 holds no message of Pydantic AI"):
        await Conversations(store).load("s")


async def test_entries_may_be_written_as_a_tree(store: Store) -> None:
    conversations = Conversations(store)
    root = ConversationEntry(parent_id=None, message=TURN[0])
    one, other = (ConversationEntry(parent_id=root.id, message=message) for message in asked("one", "other"))
    record = ConversationRecord(conversation_id="a", head_id=one.id, branches=[other.id])
    await conversations.write_record(record, new_entries=[root, one, other], expected_revision=None)
    assert [entry.id for entry in await conversations.read_history(other.id)] == [root.id, other.id]
    await conversations.delete("a")
    assert await store.verify() == []
