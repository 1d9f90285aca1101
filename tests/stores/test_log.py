"""What is recorded comes back: order, forks, sharing, conflicts, charges, and what a caller can do wrong."""

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from longturn.core.meter import Charge, Meter, Usage
from longturn.errors import SessionConflict, StoreError
from longturn.stores import Head, New, Store
from longturn.stores.records import encoded
from longturn.stores.schema import charges, contents, entries

pytestmark = pytest.mark.anyio


def message(text: object) -> New:
    return New("message", {"role": "user", "content": text})


async def said(store: Store, session: str, **options: Any) -> list[Any]:
    log = await store.read(session, **options)
    assert log.problems == ()
    return [entry.body["content"] for entry in log.entries]


async def rows_of(store: Store, table: Any) -> int:
    async with store.database.reading() as db:
        return (await db.execute(select(func.count()).select_from(table))).scalar_one()


async def test_what_was_appended_is_read_back_in_order_after_a_restart(place: str) -> None:
    async with await Store.open(place) as store:
        head = await store.create("s", title="a title", info={"model": "m"}, scope="ann")
        head = await store.append(head, [message(1), message(2)])
        head = await store.append(head, [New("event", {"b": 1, "a": [None, 1.5, "é\0\ud800"]}), message(3)])
    async with await Store.open(place) as store:
        log = await store.read("s")
        assert log.head == head == await store.head("s")
        assert [entry.position for entry in log.entries] == [0, 1, 2, 3]
        assert [entry.kind for entry in log.entries] == ["message", "message", "event", "message"]
        assert list(log.entries[2].body) == ["b", "a"]
        assert log.entries[2].body == {"b": 1, "a": [None, 1.5, "é\0\ud800"]}
        assert (head.length, head.revision, head.title, head.scope) == (4, 2, "a title", "ann")
        assert log.entries[-1].id == head.entry
        assert await store.verify() == []


async def test_part_of_a_log_is_read_by_kind_by_place_and_by_number(store: Store) -> None:
    head = await store.append(await store.create("s"), [message(n) for n in range(6)])
    head = await store.append(head, [New("event", {"content": "e"}), message(6)])
    ids = [entry.id for entry in (await store.read("s")).entries]
    assert await said(store, "s", kinds=["event"]) == ["e"]
    assert await said(store, "s", last=2) == ["e", 6]
    assert await said(store, "s", last=2, kinds=["message"]) == [5, 6]
    assert await said(store, "s", last=0) == []
    assert await said(store, "s", since=ids[4]) == [5, "e", 6]
    assert await said(store, "s", since=ids[4], kinds=["message"]) == [5, 6]
    assert await said(store, "s", since=head.entry) == []
    assert await said(store, "s", since=ids[1], last=3) == [5, "e", 6]
    with pytest.raises(StoreError, match="no entry 'elsewhere'"):
        await store.read("s", since="elsewhere")


async def test_equal_histories_and_contents_are_stored_once(store: Store) -> None:
    """A history that is sent again costs its new tail only."""
    history = [message("system"), message("hello"), message("system")]
    await store.append(await store.create("one"), history)
    again = await store.append(await store.create("two"), [*history, message("new")])
    assert await rows_of(store, entries) == 4
    assert await rows_of(store, contents) == 3
    assert await said(store, "one") == ["system", "hello", "system"]
    assert await said(store, "two") == ["system", "hello", "system", "new"]
    assert again.length == 4


async def test_a_fork_shares_what_came_before_and_goes_its_own_way(store: Store) -> None:
    head = await store.append(await store.create("a", info={"k": 1}), [message(n) for n in range(4)])
    ids = [entry.id for entry in (await store.read("a")).entries]
    fork = await store.fork("a", "b", at=ids[1])
    whole = await store.fork("a", "c", title="c")
    assert (fork.kind, fork.parent, fork.forked_at, fork.length, fork.info) == ("fork", "a", ids[1], 2, {"k": 1})
    assert (whole.forked_at, whole.title) == (head.entry, "c")
    await store.append(fork, [message("b")])
    await store.append(head, [message("a")])
    assert await said(store, "a") == [0, 1, 2, 3, "a"]
    assert await said(store, "b") == [0, 1, "b"]
    assert await said(store, "c") == [0, 1, 2, 3]
    assert [head.session for head in await store.sessions(parent="a")] == ["b", "c"]
    for wrong in ({"source": "nobody", "session": "d"}, {"source": "b", "session": "d", "at": ids[3]}):
        with pytest.raises(StoreError):
            await store.fork(**wrong)
    with pytest.raises(SessionConflict, match="already"):
        await store.fork("a", "b")


async def test_of_two_writers_one_gets_a_conflict_and_nothing_is_lost(store: Store) -> None:
    head = await store.create("s")
    outcomes = await asyncio.gather(
        *(store.append(head, [message(n), message(n)]) for n in range(8)), return_exceptions=True
    )
    winners = [outcome for outcome in outcomes if isinstance(outcome, Head)]
    losers = [outcome for outcome in outcomes if isinstance(outcome, SessionConflict)]
    assert (len(winners), len(losers)) == (1, 7)
    assert "revision 1 with 2 entries" in str(losers[0])
    assert len(await said(store, "s")) == 2
    assert await rows_of(store, contents) == 1
    again = await store.append(winners[0], [message("then")])
    assert again.length == 3
    assert await store.verify() == []


async def test_writers_that_read_again_after_a_conflict_all_get_through(place: str) -> None:
    async with await Store.open(place) as one, await Store.open(place) as other:
        await one.create("s")

        async def write(store: Store, number: int) -> None:
            for part in range(3):
                while True:
                    head = await store.head("s")
                    assert head is not None
                    try:
                        await store.append(head, [message([number, part])])
                        break
                    except SessionConflict:
                        await asyncio.sleep(random.random() / 100)

        await asyncio.gather(*(write(store, number) for number, store in enumerate((one, other, one, other))))
        written = await said(one, "s")
        assert sorted(written) == [[number, part] for number in range(4) for part in range(3)]
        assert [[part for number, part in written if number == each] for each in range(4)] == [[0, 1, 2]] * 4
        assert await one.verify() == []


async def test_a_head_from_before_a_deletion_cannot_write_to_the_new_session_of_that_name(store: Store) -> None:
    old = await store.append(await store.create("s"), [message("old")])
    await store.delete("s")
    with pytest.raises(SessionConflict, match="was deleted"):
        await store.append(old, [message("late")])
    await store.append(await store.create("s"), [message("new")])
    with pytest.raises(SessionConflict):
        await store.append(old, [message("late")])
    assert await said(store, "s") == ["new"]


async def test_of_two_that_create_a_session_one_gets_a_conflict(store: Store) -> None:
    outcomes = await asyncio.gather(*(store.create("s") for _ in range(5)), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Head", *["SessionConflict"] * 4]


async def test_a_whole_result_is_found_again_by_its_call(store: Store) -> None:
    """B14, B22: the transcript's message may be bounded, the store keeps the result."""
    head = await store.append(await store.create("s"), [New("result", "x" * 100_000, key="call_1"), message("x...")])
    head = await store.append(head, [New("result", "second", key="call_2"), New("result", "newer", key="call_1")])
    await store.append(await store.create("other"), [New("result", "not mine", key="call_3")])
    assert [(await store.find("s", key)) and (await store.find("s", key)).body for key in ("call_2", "call_1")] == [  # type: ignore[union-attr]
        "second",
        "newer",
    ]
    assert await store.find("s", "call_3") is None
    before = await store.fork("s", "early", at=(await store.read("s")).entries[1].id)
    found = await store.find(before.session, "call_1")
    assert found is not None
    assert found.body == "x" * 100_000


def charge(number: int, parent: int | None) -> Charge:
    return Charge(f"c{number}", None if parent is None else f"c{parent}", Usage(10, 1, 2, 3, 1), cost_usd=0.25)


async def test_charges_are_kept_for_a_session_and_all_its_forks(store: Store) -> None:
    """S13: totals by branch and over all branches."""
    head = await store.append(await store.create("a"), [message(0)], charges=[charge(0, None)])
    early = head.entry
    head = await store.append(head, [message(1)], charges=[charge(1, 0)])
    fork = await store.fork("a", "b", at=early)
    assert (head.charge, fork.charge) == ("c1", "c0")
    fork = await store.append(fork, [message("b")], charges=[charge(2, 0)])
    stored = await store.charges("b")
    assert stored == await store.charges("a") == [charge(0, None), charge(1, 0), charge(2, 0)]
    meter = Meter.of_branch(stored, fork.charge)
    assert (meter.spend.total.calls, meter.all_branches.total.calls) == (2, 3)
    await store.delete("a")
    assert Meter.of_branch(await store.charges("b"), fork.charge) == meter
    await store.delete("b")
    assert await rows_of(store, charges) == 0


@pytest.mark.parametrize("wrong", [charge(0, None), charge(1, 5)], ids=["twice", "after none"])
async def test_a_charge_that_does_not_follow_is_refused_with_its_entries(store: Store, wrong: Charge) -> None:
    head = await store.append(await store.create("s"), charges=[charge(0, None)])
    with pytest.raises(StoreError, match="charges 'c"):
        await store.append(head, [message("never")], charges=[wrong])
    assert await store.head("s") == head
    assert await store.verify() == []


async def test_info_changes_key_by_key_with_the_entries_it_belongs_to(store: Store) -> None:
    head = await store.create("s", info={"window": 1, "other": [1]})
    head = await store.append(head, [message(0)], info={"window": 2}, title="t")
    assert head.info == {"window": 2, "other": [1]}
    assert await store.head("s") == head


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ([message(0), New("message", b"bytes")], "entry 1 of 2 .message. is not JSON data"),
        ([New("memo", {})], "of kind 'memo': use one of message, result"),  # type: ignore[arg-type]
        ([New("result", {}, key="a\0b")], "the key of an entry"),
    ],
)
async def test_what_cannot_be_kept_is_refused_before_anything_is_written(
    store: Store, new: list[New], told: str
) -> None:
    head = await store.create("s")
    with pytest.raises(StoreError, match=told):
        await store.append(head, new)
    assert await store.head("s") == head
    assert await rows_of(store, contents) == 0


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
async def test_a_name_that_a_database_cannot_keep_is_refused(store: Store, name: str) -> None:
    with pytest.raises(StoreError, match="the name of a session"):
        await store.create(name)


async def test_a_session_that_is_not_there_is_named_in_the_error(store: Store) -> None:
    assert await store.head("nobody") is None
    for call in (store.read("nobody"), store.find("nobody", "k"), store.charges("nobody"), store.verify("nobody")):
        with pytest.raises(StoreError, match="no session 'nobody'"):
            await call
    with pytest.raises(StoreError, match="no session 'nobody'"):
        await store.create("s", subagent_of="nobody")


async def test_sessions_are_listed_by_scope_the_newest_first(place: str) -> None:
    times = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(9))
    async with await Store.open(place, clock=lambda: next(times)) as store:
        a = await store.create("a", scope="ann")
        await store.create("b", scope="bob")
        await store.create("c", scope="ann")
        assert [head.session for head in await store.sessions()] == ["c", "b", "a"]
        a = await store.append(a, [message(1)])
        assert a.updated == datetime(2026, 1, 1, 3, tzinfo=UTC)
        assert [head.session for head in await store.sessions(scope="ann")] == ["a", "c"]
        assert [head.session for head in await store.sessions(limit=1)] == ["a"]


async def test_an_append_cancelled_at_any_await_is_whole_or_not_there(store: Store) -> None:
    head = await store.create("s")
    for steps in range(40):
        task = asyncio.ensure_future(store.append(head, [message(steps), message(steps)]))
        for _ in range(steps):
            await asyncio.sleep(0)
            if task.done():
                break
        task.cancel()
        done = (await asyncio.gather(task, return_exceptions=True))[0]
        await asyncio.gather(*store.database.running, return_exceptions=True)
        now = await store.head("s")
        assert now is not None
        assert now.length in {head.length, head.length + 2}
        assert not isinstance(done, Head) or done == now
        head = now
    head = await store.append(head, [message("after"), message("all")])
    assert len(await said(store, "s")) == head.length
    assert await store.verify() == []


async def test_a_store_agrees_with_a_plain_model_of_it(store: Store) -> None:
    """Random appends, forks and deletions against lists in a dict."""
    chance = random.Random(5)
    model: dict[str, list[int]] = {}
    for number in range(120):
        deed = chance.choice(["create", "append", "append", "append", "fork", "delete"])
        name = chance.choice(sorted(model)) if model else ""
        if deed == "create" or not name:
            await store.create(f"s{number}")
            model[f"s{number}"] = []
        elif deed == "append":
            new = [chance.randrange(3) for _ in range(chance.randrange(4))]
            head = await store.head(name)
            assert head is not None
            await store.append(head, [message(each) for each in new])
            model[name] = model[name] + new
        elif deed == "fork" and model[name]:
            kept = chance.randrange(len(model[name]))
            at = (await store.read(name)).entries[kept].id
            await store.fork(name, f"s{number}", at=at)
            model[f"s{number}"] = model[name][: kept + 1]
        elif deed == "delete" and chance.random() < 0.7:
            await store.delete(name)
            del model[name]
    assert {head.session: head.length for head in await store.sessions()} == {k: len(v) for k, v in model.items()}
    assert {name: await said(store, name) for name in model} == model
    assert await store.verify() == []
    prefixes = {tuple(line[: n + 1]) for line in model.values() for n in range(len(line))}
    assert await rows_of(store, entries) == len(prefixes)


async def test_a_store_that_is_closed_lets_a_cancelled_append_end(place: str) -> None:
    async with await Store.open(place) as store:
        head = await store.create("s")
        task = asyncio.ensure_future(store.append(head, [message(0)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
    async with await Store.open(place) as store:
        assert await said(store, "s") == [0]
    assert task.cancelled()


async def test_a_log_is_read_as_at_one_moment_while_others_write(store: Store) -> None:
    async def write() -> None:
        head = await store.create("s")
        for number in range(40):
            head = await store.append(head, [message(number), message(number)])

    writing = asyncio.ensure_future(write())
    while await store.head("s") is None:
        await asyncio.sleep(0.01)
    while not writing.done():
        log = await store.read("s")
        assert len(log.entries) == log.head.length
        assert log.problems == ()
    await writing


async def test_a_result_of_fifty_million_bytes_is_kept_whole(store: Store) -> None:
    huge = "0123456789abcdef\n" * 3_000_000
    await store.append(await store.create("s"), [New("result", huge, key="call"), message("bounded")])
    found = await store.find("s", "call")
    assert found is not None
    assert found.body == huge
    assert await said(store, "s", kinds=["message"]) == ["bounded"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_data_comes_back_as_it_was_byte_for_byte(body: Any) -> None:
    """L9: keys keep their order; text that UTF-8 cannot say survives too."""
    again = json.loads(encoded(body))
    assert again == body
    assert json.dumps(again) == json.dumps(body)
    assert encoded(again) == encoded(body)
