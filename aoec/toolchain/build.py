"""Builds sources of Ascend C to objects in a pool, each distinct one once. What comes of one is kept by content, an error too.

An object or error is known by its source, the command lines, the compiler's version text and the product. A compiler that crashes or takes
too long is no such result: it is tried again next time.
"""
from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from aoec.base.errors import BackendError
from aoec.base.files.files import write_bytes
from aoec.base.files.memo import cache_folder
from aoec.base.files.ownership import is_own, others_can_write, why_not_own
from aoec.base.npu_errors import CompileError
from aoec.base.process.tool import end_all, run_tool
from aoec.toolchain.find import Toolkit
from aoec.toolchain.probe import Plan, how_it_ended, last_lines, plan
from aoec.toolchain.routes import Files, command_lines, place_files

FORMAT = 1  # of what is kept
SECONDS = 300.0  # for each command of a kernel
MOST_JOBS = 16
MOST_KEPT = 8192  # results, of which half go when there are more
RECORD_BYTES = 1 << 20
OBJECT_BYTES = 64 << 20  # far above any kernel's
LOG_CHARACTERS = 16384


@dataclass(frozen=True)
class Source:
    """A kernel to be built. `name`: the kernel's; `core_type`: as the manifest says it; `product`: 2201, 2002 or 1001."""

    name: str
    text: str
    core_type: str
    product: int


def build(sources: Sequence[Source], toolkit: Toolkit, jobs: int = 0, seconds: float = SECONDS,
          progress: Callable[[int, int], None] | None = None) -> list[Path | CompileError]:
    """Return the object of each source, or why there is none, in the order of the sources.

    `jobs`: kernels that are compiled at once, 0 for half the processors; `seconds`: the most for each command; `progress(done, all)` is
    called for each distinct source, in this thread. CannNotFound where there is no compiler, UnsupportedProduct where no route is known.
    Ctrl-C kills what runs, and keeps what is done.
    """
    folder = results_folder()
    plans: dict[tuple[int, str], Plan | CompileError] = {}
    for s in sources:
        if (s.product, s.core_type) not in plans:
            plans[s.product, s.core_type] = _plan(toolkit, s)
    keys = [_key(s, toolkit, p) if isinstance(p := plans[s.product, s.core_type], Plan) else "" for s in sources]
    todo = {k: (s, p) for k, s in zip(keys, sources) if isinstance(p := plans[s.product, s.core_type], Plan)}
    made: dict[str, Path | CompileError] = {}
    stopped = threading.Event()
    with ThreadPoolExecutor(jobs or default_jobs(), "bisheng") as pool:
        futures = {pool.submit(_result, folder, k, s, toolkit, p, seconds, stopped): k for k, (s, p) in todo.items()}
        try:
            for f in as_completed(futures):
                made[futures[f]] = f.result()
                if progress:
                    progress(len(made), len(todo))
        except BaseException:
            stopped.set()
            for f in futures:
                f.cancel()
            end_all()
            raise
    return [made[k] if isinstance(p := plans[s.product, s.core_type], Plan) else p for k, s in zip(keys, sources)]


def default_jobs() -> int:
    """Return half the number of processors, at most 16."""
    return min(MOST_JOBS, max(1, (os.cpu_count() or 2) // 2))


def results_folder() -> Path:
    """Return where results are kept. Objects there are loaded onto a device, so it must be a folder that no other user can write to."""
    folder = cache_folder().absolute() / "toolchain"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if why := why_not_own(folder):
        raise BackendError(f"kernels that are compiled are kept in {folder}, and {why}; name another folder in AOEC_CACHE_DIR")
    kept = sorted(folder.glob("*.json"), key=lambda p: p.stat().st_mtime)
    for old in kept[:len(kept) - MOST_KEPT // 2] if len(kept) > MOST_KEPT else ():
        old.unlink(missing_ok=True)
        old.with_suffix(".o").unlink(missing_ok=True)
    return folder


def _plan(toolkit: Toolkit, source: Source) -> Plan | CompileError:
    try:
        return plan(toolkit, source.product, source.core_type)
    except CompileError as e:
        return e


def _key(source: Source, toolkit: Toolkit, how: Plan) -> str:
    """Return the name of a result: a hash of all that decides it."""
    lines = command_lines(how.route, source.product, source.core_type, source.name,
                          Files("source.cpp", "out.bin", headers=tuple(map(str, toolkit.headers))), how.accepted)
    facts = [FORMAT, source.name, source.text, source.product, source.core_type, lines, how.version, toolkit.version]
    return sha256(json.dumps(facts).encode()).hexdigest()[:40]


def _result(folder: Path, key: str, source: Source, toolkit: Toolkit, how: Plan, seconds: float,
            stopped: threading.Event) -> Path | CompileError:
    """Return the kept result of a source. Where there is none, compile the source and keep the result. A crash is not kept."""
    path = folder / f"{key}.o"
    found = _kept_result(path, source)
    if found is not None:
        return found
    made = _compile(source, toolkit, how, seconds, stopped)
    if isinstance(made, bytes):
        record: dict[str, Any] = {"object": sha256(made).hexdigest()}
        write_bytes(path, made)
    elif made.crash:
        return made
    else:
        record = {"error": str(made), "argv": list(made.argv), "log": made.log}
    write_bytes(path.with_suffix(".json"), json.dumps(record).encode())
    return path if isinstance(made, bytes) else made


def _kept_result(path: Path, source: Source) -> Path | CompileError | None:
    """Return the result that an earlier run kept. Return None where there is none, or where it is damaged."""
    try:
        record = json.loads(_read_own(path.with_suffix(".json"), RECORD_BYTES))
        if isinstance(record, dict) and isinstance(record.get("object"), str):
            if sha256(_read_own(path, OBJECT_BYTES)).hexdigest() == record["object"]:
                return path
        elif isinstance(record, dict) and all(isinstance(record.get(k), str) for k in ("error", "log")):
            argv = record.get("argv")
            return CompileError(record["error"], argv=[str(a) for a in argv] if isinstance(argv, list) else (), log=record["log"],
                                source=source.name)
    except (OSError, ValueError, RecursionError):
        pass
    return None


def _read_own(path: Path, limit: int) -> bytes:
    """Return the bytes of a file that this user alone can have written; OSError otherwise."""
    with open(path, "rb") as f:
        found = os.fstat(f.fileno())
        if not is_own(found) or others_can_write(found) or found.st_size > limit:
            raise OSError("not this user's own")
        with contextlib.suppress(OSError):
            os.utime(path)  # used now: it goes last
        return f.read(limit)


def _compile(source: Source, toolkit: Toolkit, how: Plan, seconds: float, stopped: threading.Event) -> bytes | CompileError:
    """Return the bytes of the object, or the error with the command line that ended so."""
    with tempfile.TemporaryDirectory(prefix="aoec-build-") as folder:
        files = place_files(Path(folder), source.name, toolkit.headers)
        Path(files.source).write_text(source.text, "utf-8")
        for line in command_lines(how.route, source.product, source.core_type, source.name, files, how.accepted):
            argv = [str(toolkit.tool(line[0])), *line[1:]]
            if stopped.is_set():
                return CompileError(f"{source.name} was not compiled: the build was ended", source=source.name, crash=True)
            ran = run_tool(argv, Path(folder), seconds)
            if ran.code or ran.is_late:
                said = last_lines(ran.output)
                return CompileError(f"{source.name} does not compile: {line[0]} {how_it_ended(ran, seconds)}: "
                                    f"{(said.splitlines() or ['it said nothing'])[0].replace(folder + '/', '')}",
                                    argv=argv, log=ran.output[-LOG_CHARACTERS:], source=source.name, crash=ran.is_crash)
        try:
            with open(files.out, "rb") as f:
                data = f.read(OBJECT_BYTES + 1)
        except OSError:
            data = b""
    if not 0 < len(data) <= OBJECT_BYTES:
        return CompileError(f"{source.name} does not compile: {line[0]} ended well, and wrote no object that can be used", argv=argv,
                            log=ran.output[-LOG_CHARACTERS:], source=source.name, crash=True)
    return data
