"""What survives compaction, by compaction-conformance-kit: `python -m benchmarks.survival` prints the tables.

The kit plants rulings and facts in sessions, compacts five times and looks for them. Two things are measured: the
ladder alone (`longturn.fit`), and checkpoints (`Fitter.compact`) written by `benchmarks.extractive`, with `--llama` by
a real small model. In the kit's own rounds each compaction is given only what the last one left; "in parts" a fifth of
the session arrives with each round. Nothing is written.
"""

import argparse
import json
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from compaction_kit.benchmark import run_budget_benchmark
from compaction_kit.canaries import Canary, CanaryType, seeded_canaries
from compaction_kit.compacted import CompactedContext
from compaction_kit.compactors import Compactor, UpdateAwareChecklistCompactor
from compaction_kit.corpus import build_random_session
from compaction_kit.generated import build_generated_session
from compaction_kit.probes import BehaviorProbe
from compaction_kit.runner import run_conformance
from compaction_kit.semantic import SemanticChecklistCompactor
from compaction_kit.semantic_corpus import build_semantic_heldout_session, build_semantic_session
from compaction_kit.session import SeededSession, Turn, build_seeded_session

import longturn
from benchmarks import extractive, own_sessions
from benchmarks.report import Row, table
from longturn import Fitter, Policy
from longturn.core.policy import Retain, Summarization
from longturn.summaries import SummaryRequest
from tests.llama import Llama, serving

SEEDS = tuple(range(1, 9))
ROUNDS = 5
BUDGETS = (0.10, 0.20, 0.30)
WINDOW = 8_192
"""Of the real model, in tokens."""
PATIENCE = 1_200
"""How long an answer of it may take, in seconds, where other work shares the cores."""
ANSWER = 400
"""How long its checkpoints may be, in tokens: a fifth of a session of the kit."""
CHECKPOINTS = Policy(summarization=Summarization(retain_recent=Retain(turns=0)))
LADDERS = {
    "with `answers`": Policy(rungs=("images", "results", "arguments", "answers", "turns", "rounds")),
    "without": Policy(rungs=("images", "results", "arguments", "turns", "rounds")),
}
ASKED = {"role": "user", "content": "Go on."}
"""The newest turn, which no compaction takes: all that came before it is what is compacted."""

Session = tuple[SeededSession, list[Canary]]
Summarizer = Callable[[SummaryRequest], str]


def semantic(build: Callable[[int], tuple[SeededSession, list[Canary], dict[str, Any]]], seed: int) -> Session:
    session, canaries, _ = build(seed)
    return session, canaries


def with_work(seed: int) -> Session:
    session, canaries = build_random_session(seed)
    return own_sessions.worked(session), canaries


SEEDED: Mapping[str, Callable[[int], Session]] = {
    "randomized": build_random_session,
    "randomized, with tool work": with_work,
    "generated": build_generated_session,
    "updates in other words": partial(semantic, build_semantic_session),
    "the same, held out": partial(semantic, build_semantic_heldout_session),
}
OWN: Mapping[str, Callable[[], Session]] = {
    "a ruling in a pasted log": own_sessions.buried,
    "orders in a tool's output": own_sessions.told_by_a_tool,
    "updates in our own words": own_sessions.own_words,
}


def corpora(seeds: Sequence[int]) -> dict[str, list[Session]]:
    """Every session, by what it is for."""
    built = {name: [build(seed) for seed in seeds] for name, build in SEEDED.items()}
    return {"seeded": [(build_seeded_session(), seeded_canaries())], **built, **{n: [b()] for n, b in OWN.items()}}


def messages(turns: Iterable[Turn]) -> Iterator[dict[str, Any]]:
    """Turns as OpenAI chat; a tool's turn is the result of a call."""
    for number, turn in enumerate(turns):
        if turn.role == "tool":
            call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
            yield {"role": "assistant", "content": None, "tool_calls": [call]}
            yield {"role": "tool", "tool_call_id": call["id"], "content": turn.text}
        else:
            yield {"role": turn.role, "content": turn.text}


def within(chars: int | None) -> Summarizer:
    """The extractive summarizer with a limit in characters, which is what the kit's budgets are in."""
    return partial(extractive.summarize, chars=chars)


@dataclass
class Checkpoints:
    """`Fitter.compact` as a compactor of the kit: what it gives is the checkpoint alone, without what the window keeps.

    The transcript grows, a checkpoint is appended to it, and each round begins as after a restart, with a new `Fitter`.
    """

    summarizer: Callable[[int | None], Summarizer] = within
    name: str = "longturn, checkpoints"
    policy: Policy = CHECKPOINTS
    transcript: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""

    def compact(self, turns: list[Turn], round_num: int = 1, budget_chars: int | None = None) -> CompactedContext:
        """Compact what is new; where nothing is, the standing checkpoint is what is left."""
        if round_num == 1:
            self.transcript, self.text = [], ""
        # What the last round left comes back as a system turn: that is the checkpoint, and it stands in the transcript.
        self.transcript += messages(turn for turn in turns if round_num == 1 or turn.role != "system")
        fitter = Fitter(budget=WINDOW, policy=self.policy, summarize=self.summarizer(budget_chars))
        found = fitter.compact([*self.transcript, ASKED]).checkpoint
        if found is not None:
            self.transcript.append(found.entry())
            self.text = found.text
        return CompactedContext(self.text, self.name, round_num)


@dataclass(frozen=True)
class Round:
    """What one compaction left: planted things held and asked for, by type; sources and checkpoints in characters."""

    held: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    stale: int = 0
    updated: int = 0
    share: float = 0.0
    texts: tuple[str, ...] = ()

    def __add__(self, other: "Round") -> "Round":
        return Round(
            self.held + other.held,
            self.asked + other.asked,
            self.stale + other.stale,
            self.updated + other.updated,
            max(self.share, other.share),
            self.texts + other.texts,
        )


def looked_at(text: str, canaries: Iterable[Canary], source: Sequence[Turn]) -> Round:
    """What of `canaries` is in `text`, the kit's probes deciding, and the values that hold no longer."""
    held: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    updated = [canary for canary in canaries if canary.superseded_tokens]
    for canary in canaries:
        asked[canary.type.value] += 1
        held[canary.type.value] += BehaviorProbe().probe(canary, text).survived
    stale = sum(any(word.lower() in text.lower() for word in canary.superseded_tokens) for canary in updated)
    length = sum(len(f"[{turn.role}] {turn.text}\n") for turn in source)
    return Round(held, asked, stale, len(updated), len(text) / length, (text,))


def by_the_kit(compactor: Compactor, session: Session) -> list[Round]:
    """The kit's own rounds: each is given what the one before it left."""
    seeded, canaries = session
    run = run_conformance(seeded, compactor, rounds=ROUNDS, canaries=canaries)
    return [looked_at(each.context.text, canaries, seeded.turns) for each in run.rounds]


def in_parts(compactor: Compactor, session: Session, share: float | None = None) -> list[Round]:
    """A fifth of the session arrives before each round; `share`: of the whole session, what the checkpoint may be."""
    turns = list(session[0].turns)
    chars = int(len(session[0].full_text()) * share) if share else None
    given: list[Turn] = []
    rounds: list[Round] = []
    for number in range(1, ROUNDS + 1):
        start, end = (len(turns) * place // ROUNDS for place in (number - 1, number))
        text = compactor.compact([*given, *turns[start:end]], number, chars).text
        given = [Turn("system", text)]
        rounds.append(looked_at(text, arrived(session, end), turns[:end]))
    return rounds


def by_the_ladder(policy: Policy, session: Session, share: float) -> list[Round]:
    """The same fifths, but the history grows whole and `fit` shapes it to `share` of the session's tokens."""
    turns = list(session[0].turns)
    budget = int(longturn.fit([*messages(turns)]).tokens * share)
    rounds: list[Round] = []
    fitter = Fitter(budget=budget, policy=policy)
    for number in range(1, ROUNDS + 1):
        end = len(turns) * number // ROUNDS
        window: list[Any] = fitter.fit([*messages(turns[:end])]).messages
        text = "\n".join(message["content"] or "" for message in window)
        rounds.append(looked_at(text, arrived(session, end), turns[:end]))
    return rounds


def arrived(session: Session, end: int) -> list[Canary]:
    seeded, canaries = session
    return [canary for canary in canaries if seeded.canary_positions[canary.id] < end]


def summed(rounds: Iterable[list[Round]]) -> list[Round]:
    """The rounds of several sessions, round by round."""
    return [sum(each, Round()) for each in zip(*rounds, strict=True)]


def curves(rounds: Sequence[Round]) -> dict[tuple[str, ...], list[str]]:
    """By type, how much was held after each round; types with the same curve together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for kind in CanaryType:
        if rounds[-1].asked[kind.value]:
            curve = tuple(share(each.held[kind.value], each.asked[kind.value]) for each in rounds)
            found[curve] = [*found.get(curve, []), kind.value.replace("_", " ")]
    return {curve: ["all types"] if len(found) == 1 else kinds for curve, kinds in found.items()}


def share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def survival(measured: Mapping[str, list[Round]]) -> Iterator[str]:
    """By type and round."""
    rows: list[Row] = [("sessions", "type", *(f"round {number}" for number in range(1, ROUNDS + 1)))]
    for name, rounds in measured.items():
        rows += [(name, ", ".join(kinds), *curve) for curve, kinds in curves(rounds).items()]
    yield from table(*rows)


def sizes(measured: Mapping[str, list[Round]]) -> Iterator[str]:
    """After the last round: the largest share of its source, values that hold no longer, what five rounds changed."""
    rows: list[Row] = [("sessions", "number", "largest share of the source", "stale values", "round 5 as round 1")]
    for name, rounds in measured.items():
        same = sum(first == last for first, last in zip(rounds[0].texts, rounds[-1].texts, strict=True))
        last = rounds[-1]
        rows.append((name, len(last.texts), f"{last.share:.1%}", f"{last.stale} of {last.updated}", same))
    yield from table(*rows)


BY_A_MODEL = ("seeded", "updates in other words", "a ruling in a pasted log")
"""The sessions that a real model is given; on two slow cores an answer takes minutes."""
COMPARED: Mapping[str, Callable[[], Compactor]] = {
    Checkpoints.name: Checkpoints,
    "semantic-checklist": SemanticChecklistCompactor,
    "update-aware-checklist": UpdateAwareChecklistCompactor,
}
"""Ours, and the two best of those that come with the kit."""


def leaderboard(seeds: Sequence[int]) -> Iterator[str]:
    """The kit's own benchmark at fixed budgets."""
    found = run_budget_benchmark(COMPARED, BUDGETS, seeds, ROUNDS)
    rows: list[Row] = [
        ("budget", "compactor", "in budget", "survival", "resolved", "stale", "distinct pairs", "output")
    ]
    for each in found["entries"]:
        conflicts = each["semantic"]["conflicts"]
        rows.append(
            (
                f"{each['budget_fraction']:.0%}",
                each["compactor"],
                "yes" if each["budget_compliant"] else "no",
                f"{each['randomized']['overall_final_survival']:.1%}",
                f"{each['semantic']['resolved_rate']:.1%}",
                f"{conflicts['stale']} of {conflicts['n']}",
                f"{each['semantic']['distinct_pair_rate']:.1%}",
                f"{each['mean_final_output_ratio']:.1%}",
            )
        )
    yield from table(*rows)


def budgets_in_parts(sessions: Mapping[str, Sequence[Session]]) -> Iterator[str]:
    """The same budgets where the session arrives in parts; the kit's own compactors are not made for that."""
    rows: list[Row] = [("budget", *sessions, "stale values", "most output, of the budget")]
    for budget in BUDGETS:
        last = {
            kind: summed(in_parts(Checkpoints(), session, budget) for session in some)[-1]
            for kind, some in sessions.items()
        }
        everything = sum(last.values(), Round())
        held = [share(each.held.total(), each.asked.total()) for each in last.values()]
        stale = f"{everything.stale} of {everything.updated}"
        rows.append((f"{budget:.0%}", *held, stale, f"{everything.share / budget:.0%}"))
    yield from table(*rows)


def ladders(sessions: Mapping[str, Sequence[Session]]) -> Iterator[str]:
    """The ladder alone: by type, what is held after each of the rounds."""
    rows: list[Row] = [("sessions", "budget", "policy", *(kind.value.replace("_", " ") for kind in CanaryType))]
    for kind, some in sessions.items():
        for budget in BUDGETS:
            for name, policy in LADDERS.items():
                rounds = summed(by_the_ladder(policy, session, budget) for session in some)
                held = [[share(each.held[t.value], each.asked[t.value]) for each in rounds] for t in CanaryType]
                rows.append((kind, f"{budget:.0%}", name, *(" ".join(curve).replace("%", "") for curve in held)))
    yield from table(*rows)


def told_to(llama: Llama) -> Summarizer:
    """The head in its own roles with our prompt behind it, to a real model."""

    def summarize(request: SummaryRequest) -> str:
        body = {"messages": request.messages, "max_tokens": request.max_tokens, "temperature": 0}
        posted = urllib.request.Request(
            f"{llama.url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(posted, timeout=PATIENCE) as answer:
            found: Any = json.load(answer)
        return str(found["choices"][0]["message"]["content"])

    return summarize


def by_a_model(sessions: Mapping[str, Sequence[Session]]) -> dict[str, list[Round]]:
    """The first session of some kinds, in the kit's rounds, with a small real model as the summarizer."""
    policy = Policy(summarization=Summarization(retain_recent=Retain(turns=0), max_summary_tokens=ANSWER))
    with serving(WINDOW) as llama:
        model = Checkpoints(lambda _: told_to(llama), "SmolLM2", policy)
        return {name: by_the_kit(model, sessions[name][0]) for name in BY_A_MODEL}


def checkpoints(
    sessions: Mapping[str, Sequence[Session]], measure: Callable[..., list[Round]]
) -> dict[str, list[Round]]:
    """Each kind of session with the extractive summarizer."""
    return {name: summed(measure(Checkpoints(), session) for session in some) for name, some in sessions.items()}


def tables(seeds: Sequence[int]) -> Iterator[tuple[str, Iterable[str]]]:
    """Heading and lines of each table."""
    sessions = corpora(seeds)
    kits = {name: some for name, some in sessions.items() if name not in OWN}
    whole, parts = checkpoints(sessions, by_the_kit), checkpoints(sessions, in_parts)
    yield "Checkpoints, the kit's rounds: survival", survival(whole)
    yield "Checkpoints, the kit's rounds: size and updates", sizes(whole)
    yield "Checkpoints, a fifth of the session with each round: survival of what had arrived", survival(parts)
    yield "Checkpoints, a fifth of the session with each round: size and updates", sizes(parts)
    yield "The kit's leaderboard", leaderboard(seeds)
    yield "At the leaderboard's budgets, a fifth of the session with each round: survival", budgets_in_parts(kits)
    shaped = {name: sessions[name] for name in ("randomized", "randomized, with tool work")}
    yield "The ladder alone, a fifth with each round: survival in % after rounds 1 to 5", ladders(shaped)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--llama", action="store_true", help="only: a real small model writes the checkpoints")
    asked = parser.parse_args()
    if asked.llama:
        found = by_a_model(corpora(asked.seeds))
        shown: Iterable[tuple[str, Iterable[str]]] = (
            ("Checkpoints by SmolLM2: survival", survival(found)),
            ("Checkpoints by SmolLM2: size and updates", sizes(found)),
        )
    else:
        shown = tables(asked.seeds)
    for heading, lines in shown:
        print(f"\n## {heading}\n", *lines, sep="\n")


if __name__ == "__main__":
    main()
