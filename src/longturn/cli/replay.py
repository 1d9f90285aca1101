"""The work behind `longturn replay`: files in, over as many processes as wanted, replays and what judged them out."""

import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path

from longturn import catalog
from longturn.against import Measured, against
from longturn.against.wire import Server
from longturn.cli.sources import STDIN, Run, chosen, read_bytes, read_source, title, within
from longturn.core.caches import CacheRule, Prices
from longturn.core.planners import folded, planners
from longturn.core.policy import Policy
from longturn.core.replay import Replay
from longturn.errors import ConfigError, TranscriptError
from longturn.policies import read_policy
from longturn.replays import Recording, compare, recordings

NAMED = tuple(planners(None))
"""The policies that need no file, in the order in which they are shown."""
WORTH_A_PROCESS = 20_000_000
"""Bytes of input for each process, less than which starting one takes longer than it saves."""

Step = Callable[[str, float], object]


@dataclass(frozen=True, slots=True)
class Settings:
    """What every file is replayed with; numbers in tokens.

    policies: by name, in the order to show; None for one of `NAMED`. keeps: keep the recordings, and the items of every
    call, which a page and a server need: all files are then in memory at once, and in one process.
    """

    policies: Mapping[str, Policy | None]
    model: str | None = None
    capacity: int | None = None
    budget: int | None = None
    run: str | None = None
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Basis:
    """What a run was judged by; numbers in tokens, prices in dollars per token.

    window: what the model takes, `room` of it for the answer; None when unknown. budget: the limit, 0 when off; own:
    the limit of each policy that has another one.
    """

    model: str | None
    window: int | None
    room: int
    budget: int
    own: tuple[tuple[str, int], ...]
    rule: CacheRule
    prices: Prices | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """One file: for each of its runs the replays in the order of the policies, and what the run was judged by.

    recordings: the runs themselves, where the settings keep them.
    """

    file: str
    replays: tuple[tuple[Replay, ...], ...]
    bases: tuple[Basis, ...]
    notes: tuple[str, ...]
    recordings: tuple[Recording, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be read, and why, with its name and the place in it."""

    file: str
    problem: str


def policies_of(choices: Sequence[str]) -> dict[str, Policy | None]:
    """What `--policy` names: policies by name, or files that hold one; all the named ones where nothing is chosen.

    Raises ConfigError for what is neither, and for two policies of one name.
    """
    found: dict[str, Policy | None] = {}
    for choice in dict.fromkeys(choices or NAMED):
        if choice in NAMED:
            policy, name = None, choice
        else:
            policy = _from_file(choice)
            name = policy.name
        if name in found:
            raise ConfigError(
                f"--policy {choice!r:.60}: two policies are called {name!r}: set another `name` in the file"
            )
        found[name] = policy
    return found


def _from_file(choice: str) -> Policy:
    if not Path(choice).exists():
        close = get_close_matches(choice, NAMED, n=1)
        meant = f": did you mean {close[0]}?" if close else f": use one of {', '.join(NAMED)}, or a TOML or JSON file"
        raise ConfigError(f"--policy {choice!r:.60} is neither a policy nor a file{meant}")
    try:
        return read_policy(read_bytes(choice), choice)
    except TranscriptError as error:  # the file cannot be opened
        raise ConfigError(str(error)) from None


def replay_files(
    files: Sequence[str], sizes: Sequence[int], settings: Settings, jobs: int | None, step: Step
) -> Generator[Replayed | Unread, None, None]:
    """Each file's replays, in the order of the files, as soon as they are there.

    sizes: bytes of each file. jobs: processes; None: as many as there are cores and files, and as the input is worth.
    step: told what is being done, and which part of all bytes is done.
    """
    total = max(1, sum(sizes))
    workers = 1 if settings.keeps else jobs or min(os.cpu_count() or 1, total // WORTH_A_PROCESS)
    workers = min(len(files), workers)
    if workers > 1:
        yield from _in_processes(files, sizes, settings, workers, step)
        return
    done = 0
    for file, size in zip(files, sizes, strict=True):
        tell = partial(_step_within, step, f"Replaying {Path(title(file)).name}", done / total, size / total)
        yield replay_file(file, None, settings, tell)
        done += size


def _step_within(step: Step, doing: str, start: float, share: float, part: float) -> None:
    step(doing, start + part * share)


def _tell_within(tell: Callable[[float], object], place: int, of: int, part: float) -> None:
    tell((place + part) / of)


def _in_processes(
    files: Sequence[str], sizes: Sequence[int], settings: Settings, workers: int, step: Step
) -> Generator[Replayed | Unread, None, None]:
    inputs = [read_bytes(file) if file == STDIN else None for file in files]
    with _pool(workers) as pool:
        for place, result in enumerate(pool.map(partial(replay_file, settings=settings), files, inputs), 1):
            step(f"Replayed {place} of {len(files)} files", sum(sizes[:place]) / max(1, sum(sizes)))
            yield result


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block: by themselves when it is done, at once when it is left by an exception."""
    others = set(active_children())
    # Not forked: a progress bar has a thread, and a forked copy of a process with threads may hang.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        yield pool
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(active_children()) - others:
            worker.terminate()
        if isinstance(error, BrokenProcessPool):
            raise ConfigError("a process was killed, most likely for want of memory: set a smaller --jobs") from None
        raise
    pool.shutdown()


def replay_file(
    file: str, data: bytes | None, settings: Settings, tell: Callable[[float], object] = lambda _part: None
) -> Replayed | Unread:
    """Replay the conversations of one file; `tell` hears which part is done.

    data: its bytes where they were read before. Raises ConfigError when `settings.run` is none of its conversations.
    """
    replays: list[tuple[Replay, ...]] = []
    bases: list[Basis] = []
    kept: list[Recording] = []
    try:
        given = read_bytes(file) if data is None else data
        with within(title(file)):
            source = read_source(given, file)
            del given
            runs = source.runs if settings.run is None else (chosen(source, settings.run),)
            for place, run in enumerate(runs):
                for recording in recordings(run.conversation, model=settings.model, capacity=settings.capacity):
                    found, basis = _judged(recording, settings, partial(_tell_within, tell, place, len(runs)))
                    replays.append(found)
                    bases.append(basis)
                    kept += [recording] if settings.keeps else []
    except TranscriptError as error:
        return Unread(title(file), str(error))
    notes = [*source.notes, *(note for run in runs for note in _notes(run, len(source.runs)))]
    return Replayed(title(file), tuple(replays), tuple(bases), tuple(dict.fromkeys(notes)), tuple(kept))


def _judged(
    recording: Recording, settings: Settings, tell: Callable[[float], object]
) -> tuple[tuple[Replay, ...], Basis]:
    window = recording.run.window
    limit = Policy().budget(window, settings.budget).limit
    own = {name: policy.budget(window, settings.budget).limit for name, policy in settings.policies.items() if policy}
    named = planners(limit)
    replays = []
    for place, (name, policy) in enumerate(settings.policies.items()):
        tell(place / len(settings.policies))
        planner = named[name] if policy is None else folded(policy, own[name])
        (one,) = compare(recording, {name: planner}, keep_items=settings.keeps)
        # No total needs the sizes of edited items, which would only be carried from process to process.
        replays.append(one if settings.keeps else replace(one, sizes={}))
    basis = Basis(
        model=recording.model,
        window=window,
        room=0 if window is None else window - recording.run.capacity,
        budget=limit,
        own=tuple((name, other) for name, other in own.items() if other != limit),
        rule=catalog.cache_rule_of(recording.model, recording.conversation.dialect),
        prices=catalog.prices_of(recording.model),
    )
    return tuple(replays), basis


def _notes(run: Run, runs: int) -> Iterator[str]:
    where = f"run {run.number}: " if runs > 1 else ""
    for note in run.conversation.notes:
        yield where + note
    places = [start for start in run.conversation.boundaries if 0 < start < len(run.conversation.messages)]
    if places:
        listed = ", ".join(map(str, places[:5])) + (", ..." if len(places) > 5 else "")
        yield f"{where}its agent had compacted the history before message {listed}: the replay starts anew there"


def send(files: Sequence[Replayed], settings: Settings, server: Server, most: int | None, step: Step) -> list[Measured]:
    """Send every run under every policy to a server; an interrupt ends it and keeps what was
    measured, and so does a server that has taken nothing so far and ended a run.

    files: with their recordings. most: how many calls of each run are sent, the first ones.
    """
    pairs = [
        (recording, replay)
        for file in files
        for recording, replays in zip(file.recordings, file.replays, strict=True)
        for replay in replays
        if replay.calls
    ]
    found: list[Measured] = []
    for place, (recording, replay) in enumerate(pairs):

        def tell(_answered: object, part: float, place: int = place, name: str = replay.name) -> None:
            step(f"Sending {name}", (place + part) / len(pairs))

        policy = settings.policies[replay.name]
        found.append(against(recording, replay, server, policy=policy, most=most, on_progress=tell))
        is_dead = bool(found[-1].stopped) and not any(each.count("accepted") for each in found)
        if found[-1].interrupted or is_dead:
            break
    return found
