"""The command line: `aoec COMMAND`. Results go to standard output or -o, everything else to standard error.

Exit codes: 0 done, 1 a comparison that failed (compile and run with --verify), 2 bad input or options, 70 a fault of aoec
itself, 130 interrupted.
"""
from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from aoec.base.errors import AoecError
from aoec.base.files.files import reason, say

if TYPE_CHECKING:
    from aoec.cli.command import Command
    from aoec.options.option import Options

LONGEST_WORD = 400  # characters of a message without a space between them
LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 60},}}")
EXIT_BAD_INPUT, EXIT_FAULT, EXIT_INTERRUPTED, EXIT_CLOSED_PIPE = 2, 70, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of one command; no exception leaves it, and what went wrong is one sentence on standard error."""
    open_streams()
    from aoec.cli.parser import parse
    words = list(sys.argv[1:] if argv is None else argv)
    options, traceback_wanted = None, "--traceback" in words
    try:
        try:
            vendor = words[:1] in (["aoe"], ["atc"])  # whose options are their own
            command, options = parse(words[:1] if vendor else words, words[1:])
        except SystemExit as e:  # argparse: 0 after --help and --version, 2 after a message
            say("")
            return int(e.code or 0)
        return run(command, options)
    except BrokenPipeError:
        quiet_stdout()
        return EXIT_CLOSED_PIPE
    except KeyboardInterrupt as e:
        left = str(e) or (options.left_behind() if options else "nothing was written")
        return fail(EXIT_INTERRUPTED, f"interrupted; {left}")
    except AoecError as e:
        return fail(EXIT_BAD_INPUT, f"error: {in_full(e, words)}")
    except MemoryError:
        return fail(EXIT_BAD_INPUT, "error: out of memory; a smaller model or batch, or more memory, would help")
    except OSError as e:
        return fail(EXIT_BAD_INPUT, f"error: {e.filename or 'the system'}: {reason(e)}")
    except Exception as e:
        if traceback_wanted:
            traceback.print_exc()
        hint = "" if traceback_wanted else "; please report it with the output of: aoec --traceback " + " ".join(words)
        return fail(EXIT_FAULT, f"internal fault: {type(e).__name__}: {first_line(e)}{hint}")


class Closed(io.TextIOBase):
    """Standard output that the caller has closed: what a command would write is refused as by any output that cannot be written."""

    def write(self, text: str) -> int:
        if text:
            raise OSError(errno.EBADF, "it is closed")
        return 0


def open_streams() -> None:
    """Return nothing; the standard streams are there, and write as an escape what their encoding does not have. Those that the
    caller has closed keep their numbers, so that no file that is opened later gets one."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            handle = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, and so this stream's
            if handle > 2:
                os.close(handle)
            setattr(sys, name, Closed() if number == 1 else open(os.devnull, "w" if number else "r"))  # noqa: SIM115
        elif number and getattr(stream, "errors", "") == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def run(command: Command[Any], options: Options) -> int:
    """Run a command and return its exit code. Output that is still buffered is written here, where a closed pipe is expected."""
    from aoec.options.shared import StepLimit
    if isinstance(options, StepLimit) and options.most_steps:
        from aoec.base.process.stop import allow
        allow(options.most_steps)
    code = command.start(options)
    say("")
    return code


def fail(code: int, message: str) -> int:
    """Write the message to standard error, and return `code`."""
    with contextlib.suppress(OSError):  # which cannot be written to: the message says why
        sys.stdout.flush()
    print(f"aoec: {shorten_words(message)}", file=sys.stderr)
    return code


def shorten_words(message: str) -> str:
    """Return the message, in which words out of files are not longer than a path may be shown."""
    return LONG_WORD.sub(lambda found: f"{found[0][:LONGEST_WORD]}[... {len(found[0]) - LONGEST_WORD:,} more characters]", message)


def in_full(error: AoecError, words: Sequence[str]) -> str:
    """Return the error's text, with options that would help shown as the whole corrected command, ready to paste."""
    options = getattr(error, "options", "")
    return str(error).replace(options, f"aoec {shlex.join(replaced_by(options, words))} {options}") if options else str(error)


def replaced_by(options: str, words: Sequence[str]) -> list[str]:
    """Return the words of a command without what the options, which follow them, say of the same inputs."""
    new = [f"{option}={value.partition(':')[0]}:" for option, value in pairwise(shlex.split(options))]
    out = list(words)
    for at in reversed(range(len(out))):
        name, equals, _ = out[at].partition("=")
        if out[at].startswith(tuple(new)):
            del out[at]
        elif not equals and name.startswith("--") and "=".join(out[at:at + 2]).startswith(tuple(new)):
            del out[at:at + 2]
    return out


def first_line(error: Exception) -> str:
    """Return the first line of an exception's text, at most 200 characters."""
    return (str(error).splitlines() or ["no message"])[0][:200]


def quiet_stdout() -> None:
    """Send standard output to the null device, so that Python's own flush at exit does not report the closed pipe again."""
    with contextlib.suppress(OSError):  # a stream without a number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
