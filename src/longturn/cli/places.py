"""Where sessions are kept when nobody says it: one file in the user's own folder for data."""

import os
import sys
from pathlib import Path

from longturn.errors import ConfigError, StoreError

VARIABLE = "LONGTURN_STORE"
FILE = "sessions.db"


def default_store() -> Path:
    """The file as the system has it: XDG's data folder, Library/Application Support, or the local AppData."""
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        # What is no absolute path is to be ignored, says the specification.
        given = Path(os.environ.get("XDG_DATA_HOME") or "")
        base = given if given.is_absolute() else home / ".local" / "share"
    return base / "longturn" / FILE


def store_to_read(named: str | None) -> str | None:
    """The store to open; None where it is the default one and nothing was ever kept.

    Raises ConfigError for a file that is not there: reading makes none.
    """
    if named is None:
        return str(default_store()) if default_store().exists() else None
    path = _file(_named(named))
    if path is not None and not path.exists():
        raise ConfigError(f"there is no store at {path}: correct --store, or start one with `longturn chat --store`")
    return named


def store_to_write(named: str | None) -> str:
    """The store to open; a new one's folder is made, and only its owner can look into the default one."""
    if named is not None:
        return _named(named)
    path = default_store()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreError(f"no folder can be made for {path} ({why}): name a file with --store") from error
    return str(path)


def _named(named: str) -> str:
    if not named.strip():
        raise ConfigError("--store is empty: name a file or a database (postgresql://...)")
    return named


def _file(named: str) -> Path | None:
    """The file of a SQLite store; None for a server's."""
    scheme, found, rest = named.partition("://")
    if not found:
        return Path(named).expanduser()
    return Path(rest.removeprefix("/").partition("?")[0]) if scheme.startswith("sqlite") else None
