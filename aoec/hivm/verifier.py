"""What the vendor's compiler front half says of a text: it parses, verifies and lowers it to calls of its tile library."""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from aoec.base.errors import BackendError, CheckError
from aoec.hivm.report import instruction_at, loops_at
from aoec.hivm.wheel import Wheel

SECONDS = 30.0  # for a text; a kernel takes some hundredths
MOST_BYTES = 8 << 20  # of a text
MOST_REFUSALS = 20
PASSES = ("--verify-each", "--hivm-infer-func-core-type", "--hivm-init-entry-kernel", "--convert-hivm-to-std")
INPUT, OUTPUT = "kernel.mlir", "lowered.mlir"
ERROR = re.compile(rf"^{re.escape(INPUT)}:(\d+):(\d+): error: (.*)$", re.MULTILINE)
ROUTINE = re.compile(r"^ *func\.func private @(\w+)\(", re.MULTILINE)


@dataclass(frozen=True)
class Refusal:
    """What is refused: a line and column of the text (0 where none is known), why, and the instruction and loops that stand there."""

    line: int
    column: int
    why: str
    instruction: str
    loops: tuple[str, ...]

    def sentence(self) -> str:
        """Return all of it in one line."""
        where = f" in {', '.join(self.loops)}" if self.loops else ""
        return f"{self.instruction or 'it'}{where}: {self.why}"


@dataclass(frozen=True)
class Verdict:
    """`refusals`: none where the text is verified and lowered. `routines`: of the tile library, that it is lowered to."""

    refusals: tuple[Refusal, ...]
    routines: tuple[str, ...]
    seconds: float


def verify(text: str, wheel: Wheel, seconds: float = SECONDS) -> Verdict:
    """Return the verdict on a text; CheckError for what is no text of that kind, BackendError where the verifier gives none."""
    from aoec.base.process.tool import run_tool
    if len(text.encode()) > MOST_BYTES:
        raise CheckError(f"the text has {len(text.encode()):,} bytes; at most {MOST_BYTES:,} are verified")
    with TemporaryDirectory(prefix="aoec-check-") as made:
        folder = Path(made)
        (folder / INPUT).write_text(text, "utf-8")
        ran = run_tool([str(wheel.tool), *PASSES, INPUT, "-o", OUTPUT], folder, seconds, keep="begin")
        lowered = (folder / OUTPUT).read_text("utf-8", "replace") if ran.code == 0 and (folder / OUTPUT).is_file() else ""
    if ran.is_late:
        raise BackendError(f"{wheel.name} gave no verdict in {seconds:g} s, and was ended")
    lines = text.splitlines()
    found = [_refusal(lines, int(m[1]), int(m[2]), m[3]) for m in list(ERROR.finditer(ran.output))[:MOST_REFUSALS]]
    if ran.code == 0 and not lowered:
        raise BackendError(f"{wheel.name} wrote nothing")
    if lowered and "func.func" not in lowered:
        raise CheckError("the text has no function, so that nothing was verified")
    if ran.code and not found:
        why = f"it ended by a fault of its own (signal {-ran.code})" if ran.code < 0 else f"it ended with code {ran.code}"
        first = next((line for line in ran.output.splitlines() if line.strip()), "")
        found = [Refusal(0, 0, f"{why} and said: {first[:160]}" if first else f"{why} and said nothing", "", ())]
    routines = tuple(sorted(set(ROUTINE.findall(lowered))))
    missing = [r for r in routines if not wheel.has_routine(r)]
    found += [Refusal(0, 0, f"it is lowered to {r}, which the wheel's tile library does not have", "", ()) for r in missing]
    return Verdict(tuple(found), routines, ran.seconds)


def _refusal(lines: Sequence[str], line: int, column: int, why: str) -> Refusal:
    return Refusal(line, column, why[:400], instruction_at(lines, line), loops_at(lines, line))
