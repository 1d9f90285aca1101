"""`longturn config`: check, show and migrate a configuration file; and what such a file adds to `longturn fit`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from longturn import catalog
from longturn.arguments import output_room
from longturn.cli import screens
from longturn.cli.outputs import strict_json, write
from longturn.cli.sizes import tokens_of
from longturn.cli.sources import STDIN, Run, title
from longturn.config import Config, Problem, Setting, effective, examine, migrate, read, read_file
from longturn.config.effective import per_million
from longturn.core.policy import NO_LIMIT, Limits, Policy
from longturn.errors import ConfigError
from longturn.request import read_request

VARIABLE = "LONGTURN_CONFIG"
BAD_INPUT = 2

app = typer.Typer(
    name="config",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        envvar=VARIABLE,
        show_default=False,
        help="A configuration file (YAML); - reads standard input.",
    ),
]


@app.callback(invoke_without_command=True)
def config(ctx: typer.Context) -> None:
    """Check, show or migrate a configuration file: a YAML file of longturn's, or LibreChat's."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@dataclass(frozen=True, slots=True)
class Applied:
    """What a configuration file means for one request; window and max_output in tokens, None where it says nothing."""

    policy: Policy | str
    window: int | None = None
    max_output: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """One line about a model, and where it comes from; tokens, and prices in dollars per million tokens.

    limit: above it a window is shaped. max_output: the room that is kept for the answer.
    """

    name: str
    value: Any
    source: str


def applied(file: str | None, preset: str | None, run: Run, model: str | None) -> Applied:
    """The policy and the model's figures for a request. A preset that is named wins over the file's policy.

    The file's output limit counts where the request names none: the request is sent with its own.
    """
    if file is None:
        return Applied(preset or "default")
    config = read(_bytes(file), title(file))
    name = model or run.conversation.model
    said = config.model(name)
    own = None if run.body is None else read_request(run.body, None, catalog.provider_of(name)).max_output
    notes = tuple(f"{config.name}, {warning}." for warning in config.warnings)
    return Applied(preset or config.policy_for(name), said.window, None if own else said.max_output, notes)


@app.command(short_help="Say what is wrong in a configuration file.")
def check(file: File = None) -> None:
    """Say everything that is wrong in FILE, with line and key; and what is allowed but may not be meant.

    Exit status 0 when the file can be used, 2 when it cannot.
    """
    name = title(_named(file))
    found = examine(_bytes(file), name)
    for problem in found.problems:
        typer.echo(screens.printable(f"{name}, {problem}"))
    for warning in found.warnings:
        typer.echo(screens.printable(f"{name}, {warning} (warning)"))
    counts = [
        screens.number_of(len(each), kind)
        for kind, each in (("problem", found.problems), ("warning", found.warnings))
        if each
    ]
    typer.echo(f"{name}: {', '.join(counts) or 'nothing is wrong'}")
    if found.problems:
        raise typer.Exit(BAD_INPUT)


@app.command(short_help="Show the configuration that is in force.")
def show(
    ctx: typer.Context,
    file: File = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show too what holds for this model: window, budget, prices.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="What may be sent, instead of what the file says: 32000, 32k.")
    ] = None,
    capacity: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="The model's window, instead of what is known of it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every key of FILE with the value in force and where it comes from; without FILE, the defaults."""
    config = Config(Policy()) if file is None else read(_bytes(file), title(file))
    is_named_by_variable = getattr(ctx.get_parameter_source("file"), "name", "") == "ENVIRONMENT"
    origin = f"{config.name} (named by {VARIABLE})" if is_named_by_variable else config.name or "no file: the defaults"
    limit, window = tokens_of("--budget", budget), tokens_of("--capacity", capacity, least=1)
    settings = effective(config)
    resolved = _resolved(config, model, limit, window) if (model, limit, window) != (None, None, None) else []
    if as_json:
        write(strict_json(_as_json(config, origin, settings, model, resolved), indent=2).data, None)
        return
    screen = screens.console()
    screen.print(screens.printable(origin), style="bold")
    if screen.is_terminal:  # a section at a time, which leaves room for the values
        for section, keys in groupby(settings, key=lambda each: each.path.partition(".")[0]):
            rows = [(each.path.partition(".")[2] or section, _text(each.value), _line(config, each)) for each in keys]
            _table(screen, section, rows)
    else:
        _table(screen, "", [(each.path, _text(each.value), _source(config, each)) for each in settings])
    if resolved:
        heading = f"for {model or 'a model without a name'}"
        _table(screen, heading, [(each.name, _text(each.value), each.source) for each in resolved])
    screens.listed(screen, "Warnings", [str(each) for each in config.warnings])


@app.command("migrate", short_help="Write old settings anew.")
def migrate_file(
    file: File = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="OUT", help="Write the file here instead of printing it.")
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Replace FILE, in one step.")] = False,
) -> None:
    """Write FILE with its old settings in today's keys, every other byte as it was; on standard error, what was done.

    Old are `summarize` and `summaryModel` of LibreChat's endpoints, and the trigger `token_count`.
    """
    named = _named(file)
    if in_place and (out is not None or named == STDIN):
        raise ConfigError("--in-place replaces FILE itself: give neither -o nor - with it")
    data = _bytes(named)
    migration = migrate(data, title(named))
    for done in migration.done:
        typer.echo(screens.printable(f"{title(named)}, {done}"), err=True)
    if not migration.done:
        typer.echo(f"{title(named)}: nothing to migrate", err=True)
    if not in_place:
        write(migration.data, out)
    elif migration.data != data:
        write(migration.data, str(Path(named).resolve()))


def _named(file: str | None) -> str:
    if file is None:
        raise ConfigError(f"no file is named: give FILE, or set {VARIABLE}")
    return file


def _bytes(file: str | None) -> bytes:
    named = _named(file)
    return sys.stdin.buffer.read() if named == STDIN else read_file(named)


def _resolved(config: Config, model: str | None, limit: int | None, capacity: int | None) -> list[Resolved]:
    """What one request to a model works with (H10-H16, B10)."""
    said, policy = config.model(model), config.policy_for(model)
    window = _first(("flag", capacity), (config.name, said.window), ("catalog", catalog.window_of(model)))
    taken = _first((config.name, said.max_output), ("catalog", output_room(model, window.value) or None))
    budget = policy.budget(window.value, limit)
    room = None if window.value is None else max(0, window.value - (taken.value or 0))
    limits = Limits.of(policy, budget, room)
    prices = _first((config.name, per_million(said.prices)), ("catalog", per_million(catalog.prices_of(model))))
    is_reserved = policy.summarization is not None and policy.summarization.enabled
    shaped = "budget and capacity, less reserveRatio" if is_reserved else "the smaller of budget and capacity"
    return [
        Resolved("window", window.value, window.source),
        Resolved("max_output", taken.value, taken.source),
        Resolved("capacity", room, "window less max_output"),
        Resolved("budget", budget.limit, "flag" if limit is not None else _budget_source(config, window.value)),
        Resolved("limit", None if limits.limit >= NO_LIMIT else limits.limit, shaped),
        Resolved("image_tokens", policy.image_tokens, "default" if said.image_tokens is None else config.name),
        *(Resolved(f"prices.{name}", price, prices.source) for name, price in (prices.value or {}).items()),
    ]


def _first(*found: tuple[str, Any]) -> Resolved:
    """The first that is known."""
    return next((Resolved("", value, source) for source, value in found if value), Resolved("", None, "unknown"))


def _budget_source(config: Config, window: int | None) -> str:
    policy = config.policy
    keys = [
        key
        for key, is_set in (
            ("max_context_tokens", policy.max_context_tokens is not None),
            ("context_compact_ratio", policy.context_compact_ratio is not None),
            ("history_pruning", policy.history_pruning_enabled),
        )
        if is_set
    ]
    if keys:
        return f"{', '.join(keys)} in {config.name}"
    if policy.default_ratio is not None and window is not None:
        return f"default: {policy.default_ratio:g} of the window"
    return "default for an unknown window" if policy.default_ratio is not None else "default of a history section"


def _source(config: Config, setting: Setting) -> str:
    if setting.line is not None:
        return f"{config.name}:{setting.line}"
    preset = config.lines.get("ladder.preset")
    return "default" if preset is None or not setting.path.startswith("ladder") else f"preset, {config.name}:{preset}"


def _line(config: Config, setting: Setting) -> str:
    """The source without the name of the file, which stands above."""
    return _source(config, setting).replace(f"{config.name}:", "line ")


def _as_json(
    config: Config, origin: str, settings: Sequence[Setting], model: str | None, resolved: Sequence[Resolved]
) -> dict[str, object]:
    return {
        "file": config.name or None,
        "origin": origin,
        "settings": {each.path: {"value": each.value, "source": _source(config, each)} for each in settings},
        "model": model,
        "resolved": {each.name: {"value": each.value, "source": each.source} for each in resolved},
        "warnings": [_warning(each) for each in config.warnings],
    }


def _warning(problem: Problem) -> dict[str, object]:
    return {"line": problem.line, "path": problem.path, "text": problem.text}


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_text(each)}" for key, each in value.items()) or "none"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _table(screen: Any, heading: str, rows: Sequence[tuple[str, str, str]]) -> None:
    """Columns under a heading; values wrap on a terminal, and elsewhere a line holds key, value and source together."""
    shown = [tuple(map(screens.printable, row)) for row in rows]
    if heading:
        screen.print()
        screen.print(screens.printable(heading), style="bold")
    if screen.is_terminal:
        from rich.table import Table

        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(overflow="fold")
        table.add_column(overflow="fold", style="cyan")
        table.add_column(overflow="fold", style="dim")
        for row in shown:
            table.add_row(*row)
        screen.print(table)
        return
    widths = [max(len(row[column]) for row in shown) for column in (0, 1)]
    for key, value, source in shown:
        screen.print(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {source}")
