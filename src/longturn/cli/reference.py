"""Prints the page docs/cli.md: the commands as their own help describes them, the same on every machine."""

import re
import sys
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from longturn.cli.app import app
from longturn.cli.sizes import FORMS

# What typer writes around a metavar of ours.
_BRACES = re.compile(r"\{(FILE|ID)\}|\[(?=\[)|(?<=\])\]")
_INTRODUCTION = f"""\
# Command line

<!-- Written by `make reference`; edit the help texts in src/longturn/cli instead. -->

`pip install 'longturn[cli]'` brings the command `longturn`; [`chat` and `sessions`](chat.md) need more extras.

- **FILE** is a request body, a bare list of messages in any dialect, or a session log of an agent (Claude Code, Codex,
  pi, Gemini CLI, ADK, SWE-agent, mini-swe-agent, OpenHands, inspect_ai, LibreChat, LangChain); `-` is standard input.
- **TOKENS** is a number as {FORMS}.
- What is printed is for a person: bars on a terminal, plain lines elsewhere. `NO_COLOR` and `COLUMNS` are honoured.
- JSON is strict and UTF-8. `fit` refuses a request with NaN or Infinity in it; a half of a character (a lone surrogate)
  is written as U+FFFD, and the report says so.

| Exit status | Meaning |
|---|---|
| 0 | done |
| 1 | our fault, or a server or model that failed |
| 2 | bad usage, or input that cannot be read; the message names line or position |
| 3 | the request cannot fit the model's window |
| 130, 141 | interrupted; whoever read the output closed it |
"""

_INSPECTION = """\
### What `inspect --json` prints

`tokens` has `total` and what it is the sum of: `system`, `tools`, `user`, `assistant`, `tool_calls`, `tool_results` and
`images`. All are estimates for `model`.

| Key | Meaning |
|---|---|
| `dialect`, `model` | the format (`mixed` over several), and the model it is counted for |
| `messages`, `turns`, `rounds` | items of the list; user messages that open a turn; answers |
| `thinking` | the part of `tokens.assistant` that is thinking |
| `by_tool` | `name`, `calls`, `results`, `call_tokens` and `result_tokens` of each tool, the largest first |
| `largest` | the ten largest messages: `message` (its index), `kind`, `tool`, `tokens`, how it `begins`, its `run` |
| `problems` | what the provider would refuse, with positions |
| `reported` | what the log says the provider counted: `calls`, `input_tokens`, `cached_tokens`, `output_tokens` over \
all calls, `largest_input` of one, and `estimated_input`, our count for that one; null without |
| `boundaries` | indices at which the agent that kept the log had compacted its history |
| `checkpoints` | of each checkpoint's entry: its index (`message`), its `tokens` as it is sent, and how many messages \
it `covers`, 0 where it is of none that are here |
| `notes` | what was left out or mended on reading |
| `runs` | only for a file with several conversations: each with its number (`run`), its `name` and all these keys; \
those above are then the totals |

### What `replay --json` prints

`calls`, and under `policies` for each policy the numbers below, in the order in which the policies were named. With
several files these are the totals, and `files` has the same of each, with its name (`file`).

| Key | Meaning |
|---|---|
| `name` | the policy |
| `rejected` | calls that are over the window |
| `sent_tokens` | tokens of all requests: `fresh_tokens` and `cached_tokens`, what the provider's cache would serve |
| `broken_fronts` | calls whose request does not begin with all of the last one |
| `misses` | calls whose answer quotes a result that was not whole in the request |
| `peak_tokens` | the largest request |
| `cleared_results`, `dropped_turns`, `dropped_rounds` | how many of the run's were ever cleared or left out |
| `cost_usd` | what the requests cost in dollars, null without prices |

`basis` says what the runs were judged by: `model`, `window`, `room` for the answer, `budget`, `own` (budgets of
policies that have one of their own), the cache's `rule`, `prices` in dollars per token, and for how many `runs`.
`notes` says what was mended on reading and where a replay starts anew; `against` is what a server made of the calls.

`fit --json` prints `report`, `edits`, `events` (see the [reference](reference.md)) and `notes`. `count --json` prints
`tokens`, `counted_as`, `bytes` and `model`.
"""


def page() -> str:
    """The whole page as Markdown."""
    group = get_command(app)
    with group.make_context("longturn", [], resilient_parsing=True) as top:
        sections = [_INTRODUCTION]
        for name, command in _leaves(group):
            context = command.make_context(name, [], parent=top, resilient_parsing=True)
            usage = _BRACES.sub(lambda found: found[1] or "", " ".join(command.collect_usage_pieces(context)))
            lines = [f"## `longturn {name}`", "", f"```text\nlongturn {name} {usage}\n```", "", command.help, ""]
            lines += ["| Argument or option | Meaning |", "|---|---|"]
            for parameter in command.get_params(context):
                record = parameter.get_help_record(context)
                if record:
                    left, right = (text.replace("|", "\\|") for text in record)
                    lines.append(f"| `{left}` | {right} |")
            sections.append("\n".join(lines) + "\n")
    return "\n".join([*sections, _INSPECTION])


def _leaves(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Each command by its full name, those of a group behind its name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, f"{before}{name} ")
        else:
            yield before + name, command


if __name__ == "__main__":
    sys.stdout.write(page())
