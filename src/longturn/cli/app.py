"""The commands: each reads a file, asks the library once and hands the answer to the screen or to a file."""

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from longturn import __version__
from longturn.against import Measured
from longturn.against.wire import Server
from longturn.api import fit as fit_messages
from longturn.api import fit_request
from longturn.catalog import window_of
from longturn.cli import config, replay_screens, screens, sessions
from longturn.cli.chat import chat
from longturn.cli.outputs import (
    html_page,
    inspection_json,
    replay_json,
    report_json,
    runs_json,
    shaped,
    strict_json,
    write,
    write_all,
)
from longturn.cli.replay import NAMED, Replayed, Settings, Unread, policies_of, replay_files, send
from longturn.cli.sizes import tokens_of
from longturn.cli.sources import STDIN, Run, Source, chosen, read_bytes, read_source, title, within
from longturn.core.policy import Policy
from longturn.core.tokens import estimate
from longturn.errors import ConfigError, TranscriptError
from longturn.inspection import Inspection, combined
from longturn.inspection import inspect as inspect_messages
from longturn.shaped import Window

app = typer.Typer(
    name="longturn",
    help="Keep long agent turns inside a model's context window.",
    epilog="Exit status: 0 done, 1 our fault, 2 bad usage or input that cannot be read, 3 it cannot fit the window.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="A request body, a list of messages in any dialect, or an agent's session log; - reads standard input.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The model it is for; without it, the one that FILE names."),
]
RunChoice = Annotated[
    str | None,
    typer.Option("--run", metavar="N|NAME", help="Which conversation of a file that holds several: number or name."),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="TOKENS",
        help="What may be sent: 32000, 32k, 1.5m; 0 trims only what the model would refuse. Without it: three quarters "
        "of the model's window, 32k where that is not known.",
    ),
]
Capacity = Annotated[
    str | None,
    typer.Option(metavar="TOKENS", help="The model's window, where it is not to be looked up by name."),
]
MaxOutput = Annotated[
    str | None,
    typer.Option(metavar="TOKENS", help="Room for the answer; without it, the output limit in FILE or of the model."),
]
DialectName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="openai_chat, openai_responses, anthropic or gemini, where it is not to be judged from FILE.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="Recorded conversations, as for the other commands; each conversation in a file is a run.",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|FILE",
        help=f"A policy to compare, once for each: {', '.join(NAMED)}, or a configuration file (YAML), or a "
        "TOML or JSON file with a policy's keys. Without it: all that have a name.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processes that share the files; without it, as many as there are cores and the input is worth.",
    ),
]
SERVER_FAILED, BAD_INPUT = 1, 2


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"longturn {__version__}")
        raise typer.Exit


@app.callback()
def longturn(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keep long agent turns inside a model's context window."""


app.add_typer(config.app)
app.command(short_help="Talk to a model.")(chat)
app.add_typer(sessions.app)


@app.command(short_help="Shape a request, a list or a log so that it fits.")
def fit(
    file: File,
    model: Model = None,
    budget: Budget = None,
    capacity: Capacity = None,
    max_output: MaxOutput = None,
    policy: Annotated[
        str | None, typer.Option(metavar="default|seed", help="Which rules shape it, instead of those of --config.")
    ] = None,
    configured: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", envvar=config.VARIABLE, help="A configuration file (YAML)."),
    ] = None,
    dialect: DialectName = None,
    run: RunChoice = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="OUT", help="Write the request here instead of printing it.")
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Report as JSON: on standard output with -o OUT, else on standard error."),
    ] = False,
) -> None:
    """Shape FILE so that it fits: the request on standard output, what was kept and why on standard error.

    A request body gives a body, a list gives a list, a session log gives a request body in the log's dialect.
    """
    limit = tokens_of("--budget", budget)
    room = tokens_of("--capacity", capacity, least=1)
    taken = tokens_of("--max-output", max_output)
    data = _read(file)
    with screens.progress(len(data)) as step, within(title(file)):
        step("Reading the messages")
        source = read_source(data, file, strict=True)
        one = chosen(source, run)
        step("Fitting")
        said = config.applied(configured, policy, one, model)
        answer = said.max_output if taken is None else taken
        window = _fitted(one, model, limit, room or said.window, answer, said.policy, dialect)
        step("Writing")
        indent = 2 if out is None and screens.is_terminal() else None
        written = strict_json(shaped(one, window, model, taken), indent=indent)
    notes = [*said.notes, *_fit_notes(source, one, window, model, limit)]
    if written.replaced:
        notes.append(f"Halves of characters (lone surrogates) that were written as U+FFFD: {written.replaced}.")
    write(written.data, out)
    if not as_json:
        screens.show_report(screens.console(stderr=True), window.report, notes)
    elif out in (None, STDIN):
        write_all(strict_json(report_json(window, notes), indent=2).data, sys.stderr)
    else:
        write(strict_json(report_json(window, notes), indent=2).data, None)


@app.command(short_help="Show where the tokens are and what is broken.")
def inspect(file: File, model: Model = None, run: RunChoice = None, as_json: AsJson = False) -> None:
    """Show where the tokens of FILE are: by kind, by tool, the largest messages; and what is broken in it."""
    data = _read(file)
    with screens.progress(len(data)) as step, within(title(file)):
        step("Reading the messages")
        source = read_source(data, file)
        runs = source.runs if run is None else (chosen(source, run),)
        inspections = []
        for done, each in enumerate(runs):
            step("Counting", done / len(runs))
            inspections.append(_inspected(each, model))
    if as_json:
        write(strict_json(_as_json(source, runs, inspections), indent=2).data, None)
        return
    screen = screens.console()
    heading = Path(title(file)).name
    if len(runs) == 1:
        notes = [*source.notes, *runs[0].conversation.notes]
        screens.show_inspection(screen, heading, inspections[0], notes)
    else:
        screens.show_inspection(screen, f"{heading}: {len(runs)} conversations", combined(inspections), source.notes)
        screens.show_runs(screen, [each.conversation.name for each in runs], inspections)


@app.command(short_help="Estimate the tokens of a text or a conversation.")
def count(file: File, model: Model = None, as_json: AsJson = False) -> None:
    """Estimate how many tokens FILE is: a conversation as it would be sent, any other file as text.

    Prints the bare number where the output is no terminal.
    """
    data = _read(file)
    with screens.progress(len(data)) as step:
        step("Counting")
        try:
            with within(title(file)):
                runs = read_source(data, file).runs
                tokens = sum(_inspected(each, model).tokens.total for each in runs)
            kind = "conversation" if len(runs) == 1 else f"{len(runs)} conversations"
        except TranscriptError:
            tokens, kind = estimate(data.decode(errors="replace"), model=model), "text"
    if as_json:
        write(strict_json({"tokens": tokens, "counted_as": kind, "bytes": len(data), "model": model}).data, None)
    elif screens.is_terminal():
        screens.console().print(f"about {tokens:,} tokens ({kind}, {len(data):,} bytes)")
    else:
        write(f"{tokens}\n".encode(), None)


@app.command(short_help="Compare policies over recorded runs.")
def replay(
    files: Files,
    policy: Policies = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model to replay for; without it, the one that was recorded."),
    ] = None,
    budget: Budget = None,
    capacity: Capacity = None,
    run: RunChoice = None,
    jobs: Jobs = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="OUT", help="Write a page to look into every call of every run.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="URL", help="Send the calls to a server, each with a short answer."),
    ] = None,
    calls: Annotated[
        int | None,
        typer.Option("--calls", min=1, metavar="N", help="With --against: the first N calls of each run only."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay recorded runs under several policies: what each call would have been sent, and what it would have cost.

    Nothing is sent anywhere without --against. Tokens and money are estimates: see the page Replay.
    """
    if html == STDIN:
        raise ConfigError("--html needs the name of a file: the table goes to standard output")
    if against is not None and not policy:
        raise ConfigError("--against sends every call for real: choose with --policy what is sent")
    settings = Settings(
        policies=policies_of(policy or ()),
        model=model,
        capacity=tokens_of("--capacity", capacity, least=1),
        budget=tokens_of("--budget", budget),
        run=run,
        keeps=html is not None or against is not None,
    )
    named = list(dict.fromkeys(files))
    sizes = list(map(_size, named))
    with screens.progress(sum(sizes)) as step, closing(replay_files(named, sizes, settings, jobs, step)) as found:
        results = list(found)
    replayed = [each for each in results if isinstance(each, Replayed)]
    measured = None
    if replayed and against is not None:
        with screens.progress(screens.LONG) as step:
            measured = send(replayed, settings, Server(against, model), calls, step)
    if replayed:
        _show_replay(replayed, measured, against, html, as_json)
    for each in results:
        if isinstance(each, Unread):
            typer.echo(f"longturn: {each.problem}", err=True)
    if measured and measured[-1].interrupted:
        raise KeyboardInterrupt
    if len(replayed) < len(results):
        raise typer.Exit(BAD_INPUT)
    raise typer.Exit(SERVER_FAILED if any(each.count("failed") for each in measured or ()) else 0)


def _show_replay(
    files: list[Replayed], measured: list[Measured] | None, url: str | None, html: str | None, as_json: bool
) -> None:
    if html is not None:
        write(html_page(files).encode(errors="replace"), html)
    if as_json:
        write(strict_json(replay_json(files, measured), indent=2).data, None)
        return
    screen = screens.console()
    replay_screens.show_replay(screen, files)
    if measured is not None and url is not None:
        replay_screens.show_measured(screen, measured, url)
    sys.stdout.flush()


def _size(file: str) -> int:
    try:
        return 0 if file == STDIN else os.path.getsize(file)
    except (OSError, ValueError):  # what is wrong is said when it is opened
        return 0


def _read(file: str) -> bytes:
    size = _size(file)
    with screens.progress(size) as step:
        return read_bytes(file, lambda read: step(f"Reading {Path(file).name}", min(1.0, read / size)))


def _fitted(
    run: Run,
    model: str | None,
    budget: int | None,
    capacity: int | None,
    max_output: int | None,
    policy: Policy | str,
    dialect: str | None,
) -> Window:
    found = run.conversation
    if run.body is not None:
        return fit_request(
            run.body,
            model=model,
            budget=budget,
            capacity=capacity,
            max_output=max_output,
            policy=policy,
            dialect=dialect,
        )
    return fit_messages(
        found.messages,
        model=model or found.model,
        budget=budget,
        capacity=capacity,
        max_output=max_output,
        policy=policy,
        system=found.system,
        tools=found.tools,
        dialect=dialect or (None if run.is_bare else found.dialect),
    )


def _inspected(run: Run, model: str | None) -> Inspection:
    found = run.conversation
    return inspect_messages(
        found.messages,
        model=model or found.model,
        system=found.system,
        tools=found.tools,
        dialect=found.dialect,
        usage=found.usage,
        boundaries=found.boundaries,
        kept=found.kept,
    )


def _as_json(source: Source, runs: tuple[Run, ...], inspections: list[Inspection]) -> dict[str, object]:
    each = [
        {"run": run.number, "name": run.conversation.name, **inspection_json(found, run.conversation.notes)}
        for run, found in zip(runs, inspections, strict=True)
    ]
    if len(each) == 1:
        return inspection_json(inspections[0], [*source.notes, *runs[0].conversation.notes])
    return runs_json(combined(inspections), each)


def _fit_notes(source: Source, run: Run, window: Window, model: str | None, limit: int | None) -> list[str]:
    """What a reader of the report should know besides: an unknown window, what was mended on reading."""
    notes = [f"Read: {note}." for note in (*source.notes, *run.conversation.notes)]
    name = model or run.conversation.model
    if window.capacity is None:
        why = f"The window of {name!r} is not known" if name and window_of(name) is None else "No model is named"
        used = "" if limit is not None else f", and the budget is the {window.budget:,} of an unknown window"
        notes.append(f"{why}, so no window was checked{used}: give --model or --capacity.")
    return notes
