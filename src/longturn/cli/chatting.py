"""The loop of `longturn chat`: a prompt with the gauge in it on a terminal, lines of standard input elsewhere."""

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from longturn.cli import screens
from longturn.cli.gauge import gauge, show_gauge
from longturn.cli.slash import names, obey
from longturn.cli.stored import show_message, show_problems
from longturn.cli.talk import Answerer, Options, Talk, agent_of, answering
from longturn.errors import ConfigError, LongturnError
from longturn.stores import Head, Store
from longturn.stores.conversations import message_body

if TYPE_CHECKING:
    from rich.console import Console

FAILED = 1
WIDEST_GAUGE = 44
"""Columns of the gauge in the prompt, at most; it takes no more than a third of the line."""
SHOWN = 2
"""Messages that are shown of a session that is gone on with."""
_ESCAPE = re.compile(r"(\x1b\[[0-9;]*m)")


def chat(options: Options) -> int:
    """Talk until the input ends; gives the exit status. Raises LongturnError for what keeps it from beginning."""
    # Pydantic AI greets with a banner on a terminal, in the middle of the first answer.
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    with asyncio.Runner() as runner:
        store = runner.run(Store.open(options.store))
        try:
            head = runner.run(_head(store, options.session))
            with answering(options, head) as answerer:
                return _chat(options, answerer, store, runner)
        finally:
            runner.run(store.close())


def _chat(options: Options, answerer: Answerer, store: Store, runner: asyncio.Runner) -> int:
    is_live = sys.stdin.isatty() and screens.is_terminal()
    screen = screens.console()
    aside = screen if is_live else screens.console(stderr=True)
    agent = agent_of(answerer, options)
    talk = Talk(options, answerer, agent, store, runner, screen, aside, options.budget)
    runner.run(agent.__aenter__())
    try:
        if options.session is not None:
            talk.resume(options.session)
            _recount(talk)
        elif is_live:
            talk.tell(f"{answerer.name}. /help lists the commands, Ctrl-D ends.")
        return _at_terminal(talk) if is_live else _piped(talk)
    finally:
        runner.run(agent.__aexit__(None, None, None))


async def _head(store: Store, session: str | None) -> Head | None:
    head = None if session is None else await store.head(session)
    if session is not None and head is None:
        raise ConfigError(f"there is no session {session!r} to go on with: `longturn sessions list` names them")
    return head


def _at_terminal(talk: Talk) -> int:
    with suppress(ImportError):  # Windows has none, and a line is read all the same
        import readline

        readline.set_completer(
            lambda text, number: dict(enumerate(n for n in names() if n.startswith(text))).get(number)
        )
        readline.set_completer_delims("")
        readline.parse_and_bind("tab: complete")
    while not talk.is_over:
        try:
            line = input(_prompt(talk))
        except EOFError:
            talk.screen.print()
            break
        except KeyboardInterrupt:
            talk.screen.print()
            talk.tell("Ctrl-D ends the chat.")
            continue
        try:
            _take(talk, line)
        except KeyboardInterrupt:
            talk.tell("Stopped; what was recorded stays.")
        except LongturnError as error:
            talk.aside.print(screens.printable(f"{error}"), style="red")
    if talk.session is not None:
        talk.tell(f"Kept; --session {talk.session.id} goes on with it.")
    return 0


def _piped(talk: Talk) -> int:
    """Each line is a message or a command; answers go to standard output, all else to standard error."""
    try:
        for line in _lines():
            _take(talk, line)
            if not line.startswith("/"):
                show_gauge(talk.aside, talk.meter)
            if talk.is_over:
                break
    except ConfigError:
        raise
    except LongturnError as error:
        talk.aside.print(screens.printable(f"longturn: {error}"))
        return FAILED
    finally:
        if talk.session is not None:
            talk.tell(f"session {talk.session.id}")
    return 0


def _lines() -> Iterator[str]:
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    for line in sys.stdin:
        yield line.rstrip("\r\n")


def _take(talk: Talk, line: str) -> None:
    if not line.strip():
        return
    if line.startswith("/") and not line.startswith("//"):
        obey(talk, line)
    else:
        talk.ask(line.removeprefix("/") if line.startswith("//") else line)


def _recount(talk: Talk) -> None:
    """Where a session that is gone on with had come to."""
    assert talk.session is not None
    messages = talk.session.messages
    before = len(messages) - SHOWN
    talk.tell(f"{talk.session.id}: {screens.number_of(len(messages), 'message')}, {talk.answerer.name}.")
    if talk.aside is talk.screen:
        if before > 0:
            talk.tell("...")
        for message in messages[-SHOWN:]:
            show_message(talk.screen, message_body(message))
        talk.screen.print()
    show_problems(talk.aside, talk.session.problems)


def _prompt(talk: Talk) -> str:
    """The gauge, as far as there is room, and a sign to write behind."""
    screen = talk.screen
    line = gauge(talk.meter, width=min(WIDEST_GAUGE, max(4, screen.width // 3)), encoding=screen.encoding)
    line.append(" > ", style="bold")
    return _styled(screen, line)


def _styled(screen: "Console", line: object) -> str:
    """A line with its colours, in readline's marks, or it would count them as columns."""
    with screen.capture() as captured:
        screen.print(line, end="", soft_wrap=True)
    return _ESCAPE.sub("\001\\1\002", captured.get())
