"""The commands inside a chat: lines that begin with a slash."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import get_args

from longturn.cli.gauge import dollars, show_gauge
from longturn.cli.outputs import strict_json, write
from longturn.cli.screens import NARROW, number_of, printable
from longturn.cli.sizes import tokens_of
from longturn.cli.talk import Talk, new_name
from longturn.cli.transcripts import chat_messages
from longturn.core.meter import Kind, Totals
from longturn.errors import ConfigError
from longturn.stores.conversations import message_body
from longturn.summaries import Compaction

KINDS = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what stands behind its name, what it is for, and what it does with that."""

    takes: str
    means: str
    run: Callable[[Talk, str], None]


def obey(talk: Talk, line: str) -> None:
    """Run the command in a line. Raises ConfigError for one that there is not, or that cannot be done."""
    name, _, rest = line.removeprefix("/").partition(" ")
    command = COMMANDS.get(name.lower())
    if command is None:
        near = get_close_matches(name.lower(), COMMANDS, n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists them"
        raise ConfigError(f"there is no command /{name}: {hint} (//{name} says it to the model)")
    if rest.strip() and not command.takes:
        raise ConfigError(f"/{name} takes nothing behind it, got {rest.strip()!r:.40}")
    command.run(talk, rest.strip())


def _compact(talk: Talk, _rest: str) -> None:
    talk.tell("Summarizing...")
    found: Compaction = talk.do(lambda session: session.compact(), "summarize")
    made = found.checkpoint
    if made is None:
        talk.tell(f"There is no summary: {found.error or found.refused}.")
        return
    covered = number_of(made.covers, "message")
    talk.tell(f"A summary of {made.tokens:,} tokens stands for {covered} of {made.source_tokens:,} tokens from now on.")


def _fork(talk: Talk, rest: str) -> None:
    before = talk.session
    talk.session = talk.do(lambda session: session.fork(rest or new_name()), "fork")
    assert before is not None
    talk.tell(f"You are in {talk.session.id} now; {before.id} stays as it is.")


def _meter(talk: Talk, _rest: str) -> None:
    meter, screen = talk.meter, talk.screen
    show_gauge(screen, meter)
    snapshot = meter.snapshot
    if snapshot is not None:
        parts = ("system", "tools", "messages", "checkpoint")
        inside = ", ".join(f"{name} {getattr(snapshot, name):,}" for name in parts if getattr(snapshot, name))
        window = "unknown" if snapshot.window is None else f"{snapshot.window:,}"
        screen.print(f"window {window}, budget {snapshot.budget:,}, in it: {inside}", style="dim")
    for kind in KINDS:
        totals: Totals = getattr(meter.spend, kind)
        if totals.calls:
            screen.print(f"{kind}: {_spent(totals)}", style="dim")
    if talk.session is not None:
        screen.print(printable(f"session {talk.session.id}"), style="dim")


def _spent(totals: Totals) -> str:
    read = f"{totals.input_tokens:,} tokens read" + (
        f" ({totals.cached_tokens:,} cached)" if totals.cached_tokens else ""
    )
    return f"{number_of(totals.calls, 'time')}, {read}, {totals.output_tokens:,} written, {dollars(totals)}"


def _trim(talk: Talk, rest: str) -> None:
    snapshot = talk.meter.snapshot
    if rest == "off":
        talk.budget = talk.options.budget
    elif rest:
        talk.budget = tokens_of("/trim", rest, least=1)
    elif snapshot is not None:
        talk.budget = max(1, snapshot.sent // 2)
    else:
        raise ConfigError("nothing was sent yet: say how much may be, as in /trim 4k")
    if talk.session is not None:
        talk.resume(talk.session.id)
    held = "as at the start" if rest == "off" or talk.budget is None else f"to {talk.budget:,} tokens"
    talk.tell(f"What is sent is held {held} from the next message on; the transcript stays whole.")


def _export(talk: Talk, rest: str) -> None:
    if talk.session is None:
        raise ConfigError("nothing was said yet, so there is nothing to export")
    file = rest or f"{talk.session.id.replace('/', '-')}.json"
    messages = chat_messages([message_body(message) for message in talk.session.messages])
    write(strict_json(messages, indent=2).data, file)
    if file != "-":
        talk.tell(f"Written: {file} ({number_of(len(messages), 'message')}).")


def _help(talk: Talk, _rest: str) -> None:
    is_wide = talk.screen.width >= NARROW
    for name, command in COMMANDS.items():
        typed = f"/{name} {command.takes}".rstrip()
        talk.screen.print(f"{typed:<21}{command.means}" if is_wide else f"{typed}\n  {command.means}")
    talk.screen.print("Ctrl-C stops an answer, Ctrl-D ends the chat. A line that begins with // is sent with one /.")


def _quit(talk: Talk, _rest: str) -> None:
    talk.is_over = True


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "meter": Command("", "how full the window is, and what was spent", _meter),
        "compact": Command("", "let a summary stand for the older messages, now", _compact),
        "trim": Command("[TOKENS|off]", "hold what is sent to TOKENS; half of what it is now without", _trim),
        "fork": Command("[ID]", "go on in a copy of this session", _fork),
        "export": Command("[FILE]", "write the messages as OpenAI chat messages", _export),
        "help": Command("", "this list", _help),
        "quit": Command("", "end; the session is kept", _quit),
    }
)


def names() -> Sequence[str]:
    """The commands as they are typed."""
    return [f"/{name}" for name in COMMANDS]
