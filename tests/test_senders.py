"""H31: sender caches of channels count single rows, not turns, and 0 means the default of 50 there."""

import asyncio
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

import longturn
from longturn.agent import DIALECT, LongTurn
from longturn.agent.senders import Senders
from longturn.errors import ConfigError
from tests.agents import Scripted, reader


def turn(number: int) -> list[str]:
    return [f"user {number}", f"call {number}", f"result {number}", f"answer {number}"]


def test_a_cache_counts_rows_and_not_turns_h31() -> None:
    cache: Senders[str] = Senders(rows=6)
    for number in range(3):
        cache.add("ann", turn(number))
    assert cache.of("ann") == ["result 1", "answer 1", *turn(2)]


def test_zero_means_fifty_rows_and_not_none_h31() -> None:
    for cache in (Senders[int](), Senders[int](rows=0)):
        cache.add("ann", range(80))
        assert cache.of("ann") == list(range(30, 80))


@given(st.integers(0, 60), st.lists(st.lists(st.integers(), max_size=30), max_size=8))
def test_the_newest_rows_stay_in_their_order_h31(rows: int, batches: list[list[int]]) -> None:
    cache: Senders[int] = Senders(rows)
    for batch in batches:
        cache.add("ann", batch)
    assert cache.of("ann") == [row for batch in batches for row in batch][-(rows or 50) :]


def test_each_sender_has_rows_of_its_own_and_the_most_silent_goes_first_h31() -> None:
    cache: Senders[str] = Senders(rows=2, senders=2)
    cache.add("ann", ["a1"])
    cache.add("bob", ["b1"])
    cache.add("ann", ["a2"])
    cache.add("eve", ["e1"])
    assert (cache.of("ann"), cache.of("bob"), cache.of("eve")) == (["a1", "a2"], [], ["e1"])


def test_a_list_that_was_handed_out_does_not_change_later_h31() -> None:
    cache: Senders[str] = Senders()
    cache.add("ann", ["one"])
    before = cache.of("ann")
    before.append("mine")
    cache.add("ann", ["two"])
    assert before == ["one", "mine"]
    assert cache.of("ann") == ["one", "two"]
    assert cache.forget("ann") == 2
    assert (cache.of("ann"), cache.forget("ann")) == ([], 0)


def test_threads_lose_no_row_of_a_sender_they_share_h31() -> None:
    cache: Senders[int] = Senders(rows=4_000)

    def say() -> None:
        for number in range(500):
            cache.add("ann", [number])

    threads = [Thread(target=say) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(cache.of("ann")) == sorted(list(range(500)) * 8)


@pytest.mark.parametrize("numbers", [{"rows": -1}, {"rows": True}, {"rows": 1.5}, {"senders": 0}])
def test_a_bound_that_is_no_number_of_rows_is_refused_h31(numbers: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(numbers))} must be a whole number of at least"):
        Senders(**numbers)


def test_rows_that_begin_inside_a_turn_are_mended_before_they_are_sent_h31_h29() -> None:
    script, cache = Scripted(last=3), Senders[ModelMessage](rows=4)
    agent = reader(script.model, LongTurn())
    first = asyncio.run(agent.run("Read three chapters."))
    cache.add("ann", first.new_messages())
    kept = cache.of("ann")
    assert isinstance(kept[0], ModelResponse | ModelRequest)
    assert DIALECT.problems(kept)
    assert not DIALECT.problems(longturn.fit(kept, dialect=DIALECT).messages)
    assert asyncio.run(agent.run("And now?", message_history=kept)).output
