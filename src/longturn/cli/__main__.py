"""The entry point: runs a command, and turns whatever went wrong into one line and an exit status."""

import os
import sys
from collections.abc import Sequence

from longturn.errors import ContextWindowExceeded, LongturnError

try:
    import typer

    from longturn.cli.app import app
except ModuleNotFoundError as missing:
    if missing.name not in ("typer", "rich"):
        raise
    sys.exit(f"longturn: the command line needs {missing.name}: pip install 'longturn[cli]'")

BAD_INPUT, CANNOT_FIT = 2, 3
INTERRUPTED, PIPE_CLOSED = 130, 141  # 128 and the number of the signal, as shells have it


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; gives its exit status (0 done, 2 bad usage or input, 3 it cannot fit, 130 interrupted).

    An error that is ours alone leaves a traceback, and Python's status of 1.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            # A text that the terminal's encoding lacks is no reason to stop.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        status = app(list(arguments) or ["--help"], prog_name="longturn", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except ContextWindowExceeded as error:
        return _complain(str(error), CANNOT_FIT)
    except LongturnError as error:
        return _complain(str(error), BAD_INPUT)
    except typer.TyperException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "longturn")
        return _complain(f"{error.format_message().rstrip('.')} (see `{command} --help`)", BAD_INPUT)
    except RecursionError:
        return _complain("the input is nested too deeply: flatten it", BAD_INPUT)
    except MemoryError:
        return _complain("the input is too large for this machine's memory: split it", BAD_INPUT)
    except (BrokenPipeError, SystemExit):
        # Typer and rich make a SystemExit of a closed pipe, and of nothing else here. Whoever read our output has seen
        # enough; what is left in the buffer must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED


def _complain(text: str, status: int) -> int:
    print(f"longturn: {' '.join(text.split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
