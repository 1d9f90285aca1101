"""`longturn sessions`: list, show, export, verify and delete what a store keeps."""

import re
import sys
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from longturn.cli import screens
from longturn.cli.extras import loaded
from longturn.cli.outputs import strict_json, write
from longturn.cli.places import VARIABLE, store_to_read
from longturn.errors import ConfigError

BAD_INPUT = 2
_AGE = re.compile(r"(?P<number>\d{1,6})\s*(?P<unit>[mhdw])", re.ASCII)
_MINUTES = {"m": 1, "h": 60, "d": 1_440, "w": 10_080}

app = typer.Typer(name="sessions", rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})

StorePlace = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PATH|URL",
        envvar=VARIABLE,
        show_default=False,
        help="The store: a file, or postgresql://USER@HOST/NAME; without it, a file in your own data folder.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="ID", show_default=False, help="The session, as `list` names it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")]


class Form(StrEnum):
    """What a session is exported as."""

    chat = "chat"
    messages = "messages"
    log = "log"


@app.callback(invoke_without_command=True)
def sessions(ctx: typer.Context) -> None:
    """List, show, export, verify and delete the sessions that a store keeps."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("list", short_help="List the sessions.")
def list_sessions(
    store: StorePlace = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="At most so many; 0 for all.")] = 30,
    as_json: AsJson = False,
) -> None:
    """List the sessions, the one that was written last first."""
    stored = _stored("list")
    heads = stored.listing(store_to_read(store), limit)
    if as_json:
        write(strict_json(list(map(stored.head_json, heads)), indent=2).data, None)
    else:
        stored.show_list(screens.console(), heads, limit)


@app.command(short_help="Show what was said in a session.")
def show(
    session: Name,
    store: StorePlace = None,
    last: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only the newest N messages.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Calls and results whole, not by their beginnings.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what was said in a session, what it spent, and what came of it."""
    stored = _stored("show")
    found = stored.session(store_to_read(store), session)
    if as_json:
        write(strict_json(stored.session_json(found), indent=2).data, None)
    else:
        stored.show_session(screens.console(), found, last, full)


@app.command(short_help="Write a session to a file.")
def export(
    session: Name,
    store: StorePlace = None,
    form: Annotated[
        Form,
        typer.Option(
            "--as",
            help="chat: OpenAI chat messages, which the other commands read; messages: Pydantic AI's, nothing left "
            "out; log: every entry, one JSON object a line.",
        ),
    ] = Form.chat,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="OUT", help="Write it here instead of printing it.")
    ] = None,
) -> None:
    """Write a session's messages, or its whole log."""
    stored = _stored("export")
    problems = stored.export(store_to_read(store), session, form.value, out)
    _complain(stored, problems)


@app.command(short_help="Hash everything again and name what is damaged.")
def verify(
    session: Annotated[
        str | None, typer.Argument(metavar="[ID]", show_default=False, help="One session; without it, the whole store.")
    ] = None,
    store: StorePlace = None,
    as_json: AsJson = False,
) -> None:
    """Hash everything again and name what is damaged; exit status 2 where something is."""
    stored = _stored("verify")
    problems = stored.problems(store_to_read(store), session)
    if as_json:
        found = [{"where": each.where, "id": each.id, "text": each.text} for each in problems]
        write(strict_json(found, indent=2).data, None)
    elif problems:
        screen = screens.console()
        for problem in problems:
            screen.print(screens.printable(stored.told(problem)))
    else:
        screens.console().print("Sound: every hash and every link is as it was written.")
    raise typer.Exit(BAD_INPUT if problems else 0)


@app.command(short_help="Delete sessions.")
def delete(
    session: Annotated[list[str], typer.Argument(metavar="ID", show_default=False, help="The sessions to delete.")],
    store: StorePlace = None,
    yes: Yes = False,
) -> None:
    """Delete sessions and their subagents' for good; what their forks share stays."""
    stored, where = _stored("delete"), store_to_read(store)
    what = f"session {session[0]}" if len(session) == 1 else f"{len(session)} sessions"
    if _is_sure(f"Delete {what} for good?", yes):
        typer.echo(stored.removed_words(stored.delete(where, session)))


@app.command(short_help="Delete old sessions.")
def expire(
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="AGE", show_default=False, help="Last written longer ago: 90m, 12h, 30d or 8w."
        ),
    ],
    store: StorePlace = None,
    yes: Yes = False,
) -> None:
    """Delete the sessions that were last written longer ago than AGE, for good."""
    stored, where, age = _stored("expire"), store_to_read(store), _age(older_than)
    old = stored.older(where, age)
    if not old:
        typer.echo(f"No session is older than {older_than}.")
    elif _is_sure(f"Delete {screens.number_of(len(old), 'session')} for good?", yes):
        typer.echo(stored.removed_words(stored.expire(where, age)))


def _stored(command: str) -> Any:
    return loaded("longturn.cli.stored", command=f"sessions {command}", extras="stores")


def _complain(stored: Any, problems: Any) -> None:
    for problem in problems:
        typer.echo(f"longturn: left out: {screens.printable(stored.told(problem))}", err=True)


def _is_sure(question: str, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("nobody can be asked here: give --yes to delete")
    if typer.confirm(question, err=True):
        return True
    typer.echo("Nothing was deleted.")
    return False


def _age(text: str) -> timedelta:
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise ConfigError(f"--older-than {text!r:.40} is no age: write a number and m, h, d or w, such as 30d")
    return timedelta(minutes=int(found["number"]) * _MINUTES[found["unit"]])
