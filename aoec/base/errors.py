"""The errors a user can cause. Each message says where, what, how much, and what would help, in one sentence or two."""
from __future__ import annotations


def one_line(text: str) -> str:
    """Return the text with escapes for whatever is not printed as it is: names out of files can hold line breaks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class AoecError(Exception):
    """Root of the tree; the command line prints it as one line and exits with 2."""


class ParseError(AoecError):
    """Text that does not parse, with its place; the picture with a caret is drawn only when it is read."""

    def __init__(self, message: str, text: str = "", line: int = 0, column: int = 0, source: str = "") -> None:
        super().__init__(message)
        self.message, self.text, self.line, self.column, self.source = one_line(message), text, line, column, source

    def __str__(self) -> str:
        source = one_line(self.source)
        where = f"{source or 'text'}:{self.line}:{self.column}: " if self.line else f"{source}: " if source else ""
        return where + self.message + self.picture()

    def picture(self) -> str:
        """Return the line of the text with a caret under the place; empty where no place is known."""
        lines = self.text.splitlines()
        if not 0 < self.line <= len(lines):
            return ""
        row = lines[self.line - 1]
        start = max(0, min(self.column - 1, len(row)) - 60)  # keep the caret in sight on very long lines
        return f"\n  {row[start:start + 120]}\n  {' ' * (max(self.column - 1, 0) - start)}^"


class CheckError(ParseError):
    """Text or a node that parses and breaks a rule; carries a place where the text is known."""


class ScheduleError(AoecError):
    """A primitive that cannot be applied; the func is unchanged."""


class CapacityError(AoecError):
    """Buffers that do not fit a scope, or cores, flags or repeats beyond the machine's count."""


class UnsupportedError(AoecError):
    """Valid input that aoec does not do (an operator, dtype or shape). `options`: what of the message can be added to the command; `at`:
    the block of a func that the message is about, or the tensor whose statement it is, for those who know the text."""

    def __init__(self, message: str, options: str = "", at: str = "") -> None:
        super().__init__(one_line(message))
        self.options, self.at = options, at


class TargetError(AoecError):
    """A machine or machine file that is unknown, incomplete or inconsistent."""


class BankError(AoecError):
    """A knowledge bank that cannot be read or written."""


class BackendError(AoecError):
    """A device, library or file system that failed."""
