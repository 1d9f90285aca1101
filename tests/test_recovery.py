"""Recovery from a provider's refusal for length (H24, B34): what `Fitter.recover` makes of it."""

import json
from itertools import pairwise

import pytest

from longturn import ConfigError, Fitter, Overflow, Policy
from longturn.core.events import HistoryTrimmed
from longturn.testing import validate
from tests.conversations import DIALECTS, PLAIN, WHOLE_TURNS, ask, chat, steps, turn, written

LONG = [ask("Go "), *steps(1, 60)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_refused_window_is_made_again_at_two_thirds_h24_b34(dialect: str) -> None:
    messages = written(dialect, LONG)
    fitter = Fitter(policy=PLAIN, budget=50_000, dialect=dialect)
    refused = fitter.fit(messages)
    assert fitter.recover(Overflow())
    again = fitter.fit(messages)
    assert again.tokens <= refused.tokens * 2 // 3
    assert validate(again.messages, dialect) == []


def test_each_further_refusal_makes_it_smaller_until_nothing_is_left_h24() -> None:
    fitter = Fitter(policy=PLAIN, budget=50_000)
    messages, sizes = chat(LONG), []
    while True:
        sizes.append(fitter.fit(messages).tokens)
        if not fitter.recover(Overflow()):
            break
    assert all(later < earlier for earlier, later in pairwise(sizes))
    assert len(sizes) < 15
    assert fitter.fit(messages).tokens == sizes[-1]


def test_later_calls_are_held_to_what_the_refusal_states_b34() -> None:
    """B34: the provider counted as we do and takes 2,000."""
    fitter, messages = Fitter(policy=PLAIN, budget=50_000), chat(LONG)
    refused = fitter.fit(messages).tokens
    fitter.recover(Overflow(tokens=refused, limit=2_000))
    fitter.fit(messages)
    later = chat([*LONG, *steps(61, 120)])
    assert max(fitter.fit(later[:end]).tokens for end in range(len(messages) + 2, len(later), 2)) <= 2_000


def test_without_a_number_later_calls_are_held_to_nine_tenths_of_what_was_refused_b34() -> None:
    fitter, messages = Fitter(policy=PLAIN, budget=50_000), chat(LONG)
    refused = fitter.fit(messages).tokens
    fitter.recover(Overflow())
    fitter.fit(messages)
    later = chat([*LONG, *steps(61, 200)])
    sizes = [fitter.fit(later[:end]).tokens for end in range(len(messages) + 2, len(later), 2)]
    assert 0.6 * refused < max(sizes) <= 0.9 * refused


def test_the_count_that_the_refusal_states_calibrates_the_calls_behind_it_l15() -> None:
    fitter, messages = Fitter(policy=PLAIN, budget=50_000), chat(LONG)
    refused = fitter.fit(messages).tokens
    fitter.recover(Overflow(tokens=refused * 2, limit=2_000))
    assert fitter.meter.factor == 2.0
    fitter.fit(messages)
    later = chat([*LONG, *steps(61, 100)])
    assert max(fitter.fit(later[:end]).tokens for end in range(len(messages) + 2, len(later), 2)) <= 1_000


def test_dropped_turns_say_that_it_was_a_recovery_h27() -> None:
    messages = chat([*(each for number in range(30) for each in turn(str(number))), ask("Last ")])
    fitter = Fitter(policy=WHOLE_TURNS, budget=50_000)
    fitter.fit(messages)
    fitter.recover(Overflow())
    (event,) = [event for event in fitter.fit(messages).events if isinstance(event, HistoryTrimmed)]
    assert event.reason == "overflow_recovery"


def test_a_recovery_is_recorded_so_that_a_restart_gives_the_same_windows_b34() -> None:
    fitter, messages = Fitter(policy=PLAIN, budget=50_000), chat(LONG)
    fitter.fit(messages)
    fitter.recover(Overflow(limit=2_500))
    fitter.fit(messages)
    dumped = json.loads(json.dumps(fitter.dump()))
    later = chat([*LONG, *steps(61, 90)])
    restarted = Fitter(policy=PLAIN, budget=50_000).load(dumped)
    for end in range(len(messages), len(later), 2):
        assert restarted.fit(later[:end]).messages == fitter.fit(later[:end]).messages


def test_a_recovery_before_the_first_window_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="call fit"):
        Fitter(policy=Policy()).recover(Overflow())
