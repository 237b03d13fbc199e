"""Asks a compiler what it is and which compile route it takes for a product. Answers are kept for as long as the compiler is the same."""
from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from aoec.base.files.memo import Memo, cache_folder
from aoec.base.npu_errors import CannNotFound, CompileError, UnsupportedProduct
from aoec.base.process.tool import Ran, run_tool
from aoec.base.text import plural
from aoec.toolchain.find import STILL, Toolkit
from aoec.toolchain.routes import ORDER, command_lines, has_route, kind_of, optional_words, place_files, tools_of

FORMAT = "1"  # of what is kept
ASK_SECONDS, COMPILE_SECONDS = 60.0, 300.0
TARGET = "hiipu64"  # of -print-targets; a bisheng without it compiles for the host alone
LOG_LINES = 12  # of the compiler's output in an error
NAME = "aoec_probe"
KERNEL = '#include "kernel_operator.h"\n\nextern "C" __global__ __aicore__ void {name}(GM_ADDR x)\n{{\n{kind}}}\n'


@dataclass(frozen=True)
class Compiler:
    """What a compiler says of itself. `targets`: all of what -print-targets prints."""

    version: str
    targets: str

    @property
    def has_target(self) -> bool:
        """Return whether it compiles for the AI core, as far as it says."""
        return TARGET in self.targets


@dataclass(frozen=True)
class Plan:
    """How kernels of a product and kind of core are compiled: the route, and which of its optional words the compiler takes."""

    route: str
    accepted: tuple[str, ...]
    version: str


def ask_compiler(toolkit: Toolkit) -> Compiler:
    """Return bisheng's version and targets. Raise CannNotFound where it is not there or does not run."""
    path = toolkit.tool("bisheng")
    memo, key = _memo(), ("compiler", *_identity(toolkit))
    found = memo.get(*key)
    if isinstance(found, dict) and found.keys() == {"version", "targets"}:
        return Compiler(str(found["version"]), str(found["targets"]))
    said = []
    for word in ("--version", "-print-targets"):
        with tempfile.TemporaryDirectory(prefix="aoec-probe-") as folder:
            ran = run_tool([str(path), word], Path(folder), ASK_SECONDS)
        if ran.is_crash or (word == "--version" and ran.code):
            raise CannNotFound(f"{path} {word} {how_it_ended(ran, ASK_SECONDS)}: {last_lines(ran.output, 2) or 'it said nothing'}; "
                               f"is this the compiler of this computer's architecture? {STILL}")
        said.append(ran.output.strip() if not ran.code else "")
    made = Compiler(*said)
    memo.put(asdict(made), *key)
    return made


def plan(toolkit: Toolkit, product: int, core_type: str) -> Plan:
    """Return the first route by which the compiler makes an object of an empty kernel of that product and kind. UnsupportedProduct where
    none is known. Raise CompileError, with what was said of each route, where none works."""
    routes = [r for r in ORDER if has_route(r, product, core_type)]
    if not routes:
        raise UnsupportedProduct(f"no compile route is known for {kind_of(core_type)} kernels of product {product}")
    version = ask_compiler(toolkit).version
    memo, key = _memo(), ("plan", *_identity(toolkit), version, *map(str, toolkit.headers), str(product), core_type)
    found = memo.get(*key)
    if isinstance(found, dict) and found.get("route") in routes and isinstance(found.get("accepted"), list):
        return Plan(found["route"], tuple(w for w in optional_words(found["route"]) if w in found["accepted"]), version)
    said, crash, argv = [], False, list[str]()
    for route in routes:
        words, ran, argv = _try(toolkit, route, product, core_type)
        if words is not None:
            memo.put({"route": route, "accepted": list(words)}, *key)
            return Plan(route, words, version)
        crash |= ran.is_crash
        said.append(f"{route}: {Path(argv[0]).name} {how_it_ended(ran, COMPILE_SECONDS)}: {last_lines(ran.output)}")
    alone = "" if ask_compiler(toolkit).has_target else f"; it lists no target {TARGET}, so it may compile for the host alone"
    raise CompileError(f"bisheng of CANN {toolkit.release or 'of unknown release'} compiles no empty {kind_of(core_type)} kernel of "
                       f"product {product} by {plural(len(routes), 'route')}: {'; '.join(s.splitlines()[0] for s in said)}{alone}",
                       argv=argv, log="\n".join(said), source=NAME, crash=crash)


def _try(toolkit: Toolkit, route: str, product: int, core_type: str) -> tuple[tuple[str, ...] | None, Ran, list[str]]:
    """Return (the optional words that are taken, or None where the route does not work; what the last command did; that command)."""
    ran, argv = _compile(toolkit, route, product, core_type, ())
    if ran.code:
        return None, ran, argv
    words = tuple(w for w in optional_words(route) if not _compile(toolkit, route, product, core_type, (w,))[0].code)
    return words, ran, argv


def _compile(toolkit: Toolkit, route: str, product: int, core_type: str, words: tuple[str, ...]) -> tuple[Ran, list[str]]:
    kind = f"    KERNEL_TASK_TYPE_DEFAULT({core_type});\n" if core_type else ""
    with tempfile.TemporaryDirectory(prefix="aoec-probe-") as folder:
        files = place_files(Path(folder), NAME, toolkit.headers)
        Path(files.source).write_text(KERNEL.format(name=NAME, kind=kind), "utf-8")
        for line in command_lines(route, product, core_type, NAME, files, words):
            argv = [str(toolkit.tool(line[0])), *line[1:]]
            ran = run_tool(argv, Path(folder), COMPILE_SECONDS)
            if ran.code or ran.is_late:
                break
    return ran, argv


def how_it_ended(ran: Ran, seconds: float) -> str:
    """Return how a command ended, in words."""
    if ran.is_late:
        return f"did not end in {seconds:.0f} s and was killed"
    return f"ended by signal {-ran.code if ran.code < 0 else ran.code - 128}" if ran.is_crash else f"ended with code {ran.code}"


def last_lines(text: str, count: int = LOG_LINES) -> str:
    """Return the lines of a log from its first error on, and its last ones where it has none."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if "error" in line.lower()), max(0, len(lines) - count))
    return "\n".join(lines[first:first + count])


def _memo() -> Memo:
    return Memo(cache_folder() / "toolchain_probe", FORMAT)


def _identity(toolkit: Toolkit) -> tuple[str, ...]:
    """Return the identity of a compiler: its path, size and time, and the toolkit's version."""
    out = [str(toolkit.root), toolkit.version]
    for name in tools_of("modern") + tools_of("cce"):
        path = {"bisheng": toolkit.compiler, "ld.lld": toolkit.linker, "llvm-objcopy": toolkit.objcopy}[name]
        if path:
            try:
                found = path.stat()
            except OSError as e:
                raise CannNotFound(f"{path} cannot be read: {e.strerror}; {STILL}") from None
            out += [str(path), str(found.st_size), str(found.st_mtime_ns)]
    return tuple(out)
