"""Writes text that comes in pieces, and breaks lines between words where a terminal shows it."""

import re
import sys
from typing import TYPE_CHECKING

from longturn.cli.screens import harmless

if TYPE_CHECKING:
    from rich.console import Console

# Between two wide characters a line may be broken too.
_PIECES = re.compile(
    "\n|[^\\S\n]+|[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]|[^\\s\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+"
)
_WAITING = "..."


class Writer:
    """One answer on a screen: `write` pieces of it as they come, then `end`. Where no terminal is, it only copies."""

    __slots__ = ("_column", "_is_waiting", "_screen", "_space", "_word", "said")

    def __init__(self, screen: "Console") -> None:
        self._screen = screen
        self._column, self._space, self._word = 0, "", ""
        self._is_waiting = False
        self.said = ""

    def wait(self) -> None:
        """Show that something is to come."""
        if self._screen.is_terminal and not self._column:
            self._put(_WAITING)
            self._is_waiting = True
            sys.stdout.flush()

    def write(self, text: str) -> None:
        """A piece of the answer, of any length."""
        self._arrive()
        self.said += text
        text = harmless(text)
        if not self._screen.is_terminal:
            self._put(text)
            self._column = 0 if text.endswith("\n") else 1
        else:
            for piece in _PIECES.findall(text):
                self._take(piece)
        sys.stdout.flush()

    def end(self) -> None:
        """Write what is held back, and begin a new line; nothing where nothing was written."""
        self._arrive()
        self._break_off()
        if self._column:
            self._put("\n")
        self._column, self._space = 0, ""
        sys.stdout.flush()

    def _arrive(self) -> None:
        if self._is_waiting:
            self._put("\b" * len(_WAITING) + " " * len(_WAITING) + "\b" * len(_WAITING))
            self._is_waiting = False

    def _take(self, piece: str) -> None:
        if not piece.isspace():
            is_wide = piece >= "\u2e80" and len(piece) == 1
            if is_wide:
                self._break_off()
            self._word += piece
            if is_wide:
                self._break_off()
            return
        self._break_off()
        if piece == "\n":
            self._put("\n")
            self._column, self._space = 0, ""
        else:
            self._space += piece.expandtabs(4)

    def _break_off(self) -> None:
        """Write the word that is complete now, on the next line where it does not fit on this one."""
        from rich.cells import cell_len

        if not self._word:
            return
        width, text = self._screen.width, self._space + self._word
        if self._column and self._column + cell_len(text) > width:
            self._put("\n")
            self._column, text = 0, self._word
        self._put(text)
        self._column += cell_len(text)
        self._space = self._word = ""

    def _put(self, text: str) -> None:
        sys.stdout.write(text)
