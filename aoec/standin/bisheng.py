"""The command line of a stand-in for the vendor's compiler, and its linker and objcopy: what a toolkit folder of the stand-in starts.

It takes the options of both compile routes, refuses others as clang does, notes every command line, and compiles with g++ against the
stand-in's header. What it writes is a shared object of the host.
"""
from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from aoec.base.errors import BackendError
from aoec.standin.build import CompileError, compile_kernel, sources_digest

FAULT = "AOEC_STANDIN_BISHENG"  # "hang": never ends; "crash": ends with a signal's code
ARCHITECTURES = {"dav-2201": 2201, "dav-2002": 2002, "dav-c220-vec": 2201, "dav-c220-cube": 2201, "dav-c220": 2201, "dav-m200": 2002,
                 "dav-c100": 1001}
ARCH = re.compile(r"--(npu|cce-aicore)-arch=(\S+)")
WITH_VALUE = ("-o", "-x", "-mllvm", "-I", "-L", "-include", "-D")
PLAIN = re.compile(r"-c|-fPIC|-O[0-3]|-std=\S+|--?shared|-x(asc|cce)|-[lLID]\S+|--cce-[\w-]+(=\S+)?|--run-mode=\S+|-Wl,\S+|-W\S*|-g")
MODERN = 85  # the first release that takes --npu-arch, and here --cce-auto-sync=off
AUTO_SYNC = "--cce-auto-sync=off"


def note(folder: Path, tool: str, words: Sequence[str]) -> None:
    """Append a command line to the folder's list."""
    with open(folder / "commands.jsonl", "a", encoding="utf-8") as f:
        f.write(json.dumps([tool, *words]) + "\n")


def commands(folder: Path) -> list[list[str]]:
    """Return every command line that the tools of a folder were started with."""
    path = folder / "commands.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def start(tool: str, words: Sequence[str], folder: Path, release: int) -> int:
    """Return the exit code of a tool."""
    note(folder, tool, words)
    if os.environ.get(FAULT) == "hang":
        time.sleep(3600)
    if os.environ.get(FAULT) == "crash":
        return 139
    try:
        return {"bisheng": _compile, "ld.lld": _link, "llvm-objcopy": _extract}[tool](words, release)
    except CompileError as e:
        print(e.log or e, file=sys.stderr)
    except (BackendError, OSError) as e:
        print(f"{tool}: error: {e}", file=sys.stderr)
    return 1


def _values(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return options with a value behind them, and all other words."""
    values: dict[str, list[str]] = {}
    rest, left = [], list(words)
    while left:
        word = left.pop(0)
        if word in WITH_VALUE and left:
            values.setdefault(word, []).append(left.pop(0))
        else:
            rest.append(word)
    return values, rest


def _compile(words: Sequence[str], release: int) -> int:
    if list(words) == ["--version"]:
        print(f"stand-in for bisheng, CANN {release // 10}.{release % 10}, sources {sources_digest()}")
        return 0
    if list(words) == ["-print-targets"]:
        print("  Registered Targets:\n    hiipu64 - stand-in")
        return 0
    values, rest = _values(words)
    sources = [w for w in rest if not w.startswith("-")]
    product = 0
    for word in (w for w in rest if w.startswith("-")):
        arch = ARCH.fullmatch(word)
        if arch and (arch[1] != "npu" or release >= MODERN):
            if arch[2] not in ARCHITECTURES:
                raise BackendError(f"invalid value '{arch[2]}' in '{word}'")
            product = ARCHITECTURES[arch[2]]
        elif arch or not PLAIN.fullmatch(word) or word == AUTO_SYNC and release < MODERN:
            raise BackendError(f"unknown argument: '{word}'")
    if len(sources) != 1 or not product or "-o" not in values:
        raise BackendError("no input files" if not sources else "the architecture, one source and -o are needed")
    defines = [*values.get("-D", []), *[w[2:] for w in rest if w.startswith("-D")]]
    defines = [d for d in defines if not d.startswith("TILING_KEY")]
    made = compile_kernel(Path(sources[0]).read_text("utf-8"), product, release, tuple(defines))
    shutil.copyfile(made, values["-o"][-1])
    return 0


def _link(words: Sequence[str], release: int) -> int:
    """Return one object, linked for the AI core: the object itself. Of the two halves of a mixed kernel, which are both whole here, the
    first."""
    values, rest = _values([w for w in words if w != "-m"])
    inputs = [w for w in rest if not w.startswith("-") and w != "aicorelinux"]
    halves = [b"_mix_aic\0", b"_mix_aiv\0"] if len(inputs) == 2 else []
    if "aicorelinux" not in rest or len(inputs) not in (1, 2) or "-o" not in values:
        raise BackendError("the stand-in links one object, or two halves of a kernel, with -m aicorelinux and -o")
    if missing := [p for p, name in zip(inputs, halves) if name not in Path(p).read_bytes()]:
        raise BackendError(f"{missing[0]} is not the half that it should be: no kernel of it has the ending")
    shutil.copyfile(inputs[0], values["-o"][-1])
    return 0


def _extract(words: Sequence[str], release: int) -> int:
    """Return the device code of a shared object: all of it."""
    _, rest = _values([w for w in words if w not in ("-O", "binary")])
    inputs = [w for w in rest if not w.startswith("-")]
    if "--only-section=.aicore_binary" not in rest or len(inputs) != 2:
        raise BackendError("the stand-in takes the section .aicore_binary of one file into another")
    shutil.copyfile(*inputs)
    return 0
