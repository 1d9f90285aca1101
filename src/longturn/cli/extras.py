"""Modules of ours that need an extra: loaded by the command that needs them, so that `--help` needs none."""

from importlib import import_module
from typing import Any

from longturn.errors import ConfigError


def loaded(module: str, *, command: str, extras: str) -> Any:
    """The module. Raises ConfigError that says what to install where a package is missing.

    extras: of longturn, as they are written behind its name: "agent,stores".
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package in ("", "longturn"):
            raise
        raise ConfigError(f"`longturn {command}` needs {package}: pip install 'longturn[{extras}]'") from missing
