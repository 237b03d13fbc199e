"""Reading and writing of files: bounded, `-` for the standard streams, written aside and renamed, failures as sentences."""
from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from typing import IO, Any

from aoec.base.errors import BackendError, CheckError, ParseError
from aoec.base.text import in_columns

TEXT_LIMIT_BYTES = 64 << 20  # far above any real stage text; a wrong file is refused before it fills the memory
NO_TEXT = {".onnx": "an ONNX model, and text is wanted here: aoec import makes a graph of it, aoec compile --dump the text of every stage",
           ".aoec": "a compiled model, and text is wanted here: aoec compile --dump writes the text of every stage",
           ".npz": "a file of arrays, and text is wanted here"}  # what a file is that is read for another, by the end of its name

_MASK = threading.Lock()
PART = ".part"  # ends the name of what is being written
STALE_SECONDS = 600.0  # after which what nobody has locked is left by a run that was killed
WRITER_SECONDS = 10.0  # that a named pipe may be without a writer
KINDS = {stat.S_IFDIR: "a directory", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def read_bytes(path: str | Path, limit_bytes: int) -> bytes:
    """Return the content of a file, or of standard input for `-`; BackendError where it cannot be read or is larger than the limit."""
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(limit_bytes + 1)
        else:
            with open_plain(path, pipes=True) as f:
                data = _read_pipe(f, path, limit_bytes) if stat.S_ISFIFO(os.fstat(f.fileno()).st_mode) else f.read(limit_bytes + 1)
    except OSError as e:
        raise BackendError(f"cannot read {path}: {reason(e)}{meant(path) * isinstance(e, FileNotFoundError)}") from e
    if len(data) > limit_bytes:
        raise BackendError(f"{path} is larger than {limit_bytes:,} bytes, the most that is read here")
    return data


def open_plain(path: str | Path, pipes: bool = False) -> IO[bytes]:
    """Return a file that is open for reading. Raise OSError where it cannot be opened. Raise BackendError for a device, which may have
    no end. Raise it for a pipe as well, unless `pipes` is set: opening one would wait for a writer."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        kind = KINDS.get(stat.S_IFMT(mode), "")
        if kind and not (pipes and stat.S_ISFIFO(mode)):
            raise BackendError(f"cannot read {path}: it is {kind}, not a file")
        return os.fdopen(handle, "rb", 0 if kind else -1)
    except BaseException:
        os.close(handle)
        raise


def _read_pipe(f: IO[bytes], path: str | Path, limit_bytes: int) -> bytes:
    """Return what comes out of a pipe, one byte more than the limit at most; BackendError where nobody opens it to write."""
    data, handle, until, has_writer = bytearray(), f.fileno(), time.monotonic() + WRITER_SECONDS, False
    while len(data) <= limit_bytes:
        try:
            part = os.read(handle, min(1 << 20, limit_bytes + 1 - len(data)))
        except BlockingIOError:  # it has a writer, who has nothing yet
            has_writer = True
            select.select([handle], [], [])
            continue
        data += part
        if part:
            has_writer = True
        elif has_writer:
            break
        elif time.monotonic() > until:
            raise BackendError(f"cannot read {path}: it is a pipe, and nobody has written to it for {WRITER_SECONDS:.0f} s")
        else:
            time.sleep(0.01)
    return bytes(data)


def check_file(path: str | Path, what: str, pipes: bool = False) -> int:
    """Return the size of a file in bytes, or 0 for a pipe. Raise BackendError for a missing file, a directory, or a device, which may
    have no end. Raise it for a pipe as well, unless `pipes` is set."""
    try:
        found = os.stat(path)
    except OSError as e:
        raise BackendError(f"cannot read {path}: {reason(e)}{meant(path) * isinstance(e, FileNotFoundError)}") from e
    kind = KINDS.get(stat.S_IFMT(found.st_mode), "")
    if kind and not (pipes and kind == "a pipe"):
        raise BackendError(f"cannot read {path}: it is {kind}, not {what}")
    return found.st_size


def meant(path: str | Path) -> str:
    """Return a sentence's tail for a file that is not there: the name in its folder that is nearest to it, or the folder that is not
    there."""
    folder = Path(path).parent
    try:
        names = os.listdir(folder)
    except OSError:
        return f" (there is no directory {folder})" if not folder.exists() else ""
    own = Path(path).name
    close = [n for n in names if n.lower() == own.lower()] or get_close_matches(own, names, n=1, cutoff=0.75)
    return f"; did you mean {folder / close[0]}?" if close else ""


def read_text(path: str | Path) -> str:
    """Return the text of a file, or of standard input for `-`; ParseError where it is no UTF-8 text."""
    data = read_bytes(path, TEXT_LIMIT_BYTES)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        why = f"not UTF-8 text (byte {e.start} is 0x{data[e.start]:02x})"
        raise ParseError(f"this is {NO_TEXT.get(Path(path).suffix, why)}", source=str(path)) from e


def read_json(path: str | Path) -> Any:
    """Return what a small file of JSON says; CheckError where it is none."""
    import json  # here: few commands read any

    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as e:  # the first of numbers with more than 4,300 digits too
        raise CheckError(f"{path} is not JSON: {str(e)[:100]}") from e


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write `data` to a file. The file holds either all of it or its former content."""
    write_whole(path, lambda f: f.write(data))


def write_whole(path: str | Path, put: Callable[[IO[bytes]], object]) -> None:
    """Write a file by `put`. The file holds either all of it or its former content: the new one is written beside it, then renamed.

    A link stays a link: the file that it points to is written. A device or a pipe cannot be replaced by a rename, so it gets the bytes
    directly.
    """
    place = Path(os.path.realpath(path))
    aside = ""
    try:
        if place.exists() and not place.is_file():
            with open(place, "wb") as f:
                put(f)
            return
        remove_stale(place.parent, place.name)
        handle, aside = tempfile.mkstemp(prefix=f".{place.name}.", suffix=PART, dir=place.parent)
        with os.fdopen(handle, "wb") as f:
            _lock(handle)
            put(f)
        os.chmod(aside, 0o666 & ~_umask())  # mkstemp makes it private; the result is an ordinary file
        os.replace(aside, place)
    except OSError as e:
        raise BackendError(f"cannot write {path}: {reason(e)}") from e
    finally:
        with contextlib.suppress(OSError):
            os.unlink(aside)


def remove_stale(folder: Path, name: str = "") -> None:
    """Delete what killed writers have left of a file, or of all files where no name is given. Only this user's own leftovers are
    deleted, which are untouched for STALE_SECONDS and locked by nobody."""
    own = re.compile(rf"\.{re.escape(name) if name else '.+'}\.[a-z0-9_]{{8}}{re.escape(PART)}")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        left = [e.path for e in entries if own.fullmatch(e.name)]
        for path in left:
            with contextlib.suppress(OSError):
                _remove_stale(path)


def _remove_stale(path: str) -> None:
    found = os.lstat(path)
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    if not mine or time.time() - found.st_mtime < STALE_SECONDS:
        return
    if stat.S_ISDIR(found.st_mode):
        shutil.rmtree(path, ignore_errors=True)
    elif stat.S_ISREG(found.st_mode):
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            if _lock(handle):
                os.unlink(path)
        finally:
            os.close(handle)


def _lock(handle: int) -> bool:
    """Return whether an open file is locked for this process now; true too where a system has no locks, and the age of a file decides."""
    try:
        import fcntl  # here: not on every system
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to a file, whole or not at all, or to standard output for `-`."""
    if str(path) == "-":
        say(text)
    else:
        write_bytes(path, text.encode("utf-8"))


def say(text: str) -> None:
    """Write `text` to standard output and flush it. So a closed pipe raises its error here, where it is expected, and not at exit."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        raise BackendError(f"cannot write standard output: {reason(e)}") from e


def note(text: str) -> None:
    """Writes a line for people to standard error, where it does not mix with results; on a terminal in lines that fit it."""
    if sys.stderr.isatty():
        text = in_columns(text, get_terminal_size().columns - 1)
    print(text, file=sys.stderr, flush=True)


def check_writable(path: str | Path) -> None:
    """Raise BackendError if a file cannot be written. It is called before long work, so that a misspelt folder does not waste hours."""
    check_path(path)
    folder = Path(path).parent
    if Path(path).is_dir():
        raise BackendError(f"cannot write {path}: it is a directory")
    if not folder.is_dir():
        raise BackendError(f"cannot write {path}: there is no directory {folder}")
    if not os.access(folder, os.W_OK):
        raise BackendError(f"cannot write {path}: the directory {folder} is not writable")


def same(path: str | Path, other: str | Path) -> bool:
    """Return whether two paths lead to one file or folder that is there."""
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def check_apart(written: Iterable[str], read: Collection[str]) -> None:
    """Raise BackendError where a file that is to be written is one that is read."""
    for path in written:
        if any(same(path, other) for other in read):
            raise BackendError(f"cannot write {path}: it is read here, and would be lost; name another file")


def check_folder(path: str | Path) -> None:
    """Raise BackendError where no folder is or can be made at `path`."""
    check_path(path)
    there = next(p for p in (Path(path), *Path(path).absolute().parents) if p.exists())
    if not there.is_dir():
        raise BackendError(f"cannot write into {path}: {there} is no directory")
    if not os.access(there, os.W_OK):
        raise BackendError(f"cannot write into {path}: the directory {there} is not writable")


def write_folder(path: str | Path, files: Mapping[str, str]) -> None:
    """Write a folder with these texts, by their names in it. The folder must not exist or be empty. It gets all of the texts, or stays
    as it was."""
    check_new_folder(path)
    place = Path(os.path.realpath(path))
    aside = ""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(place.parent, place.name)
        aside = tempfile.mkdtemp(prefix=f".{place.name}.", suffix=PART, dir=place.parent)
        for name, text in files.items():
            file = Path(aside, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode("utf-8"))
        os.chmod(aside, 0o777 & ~_umask())
        os.rename(aside, place)  # over an empty folder too
    except OSError as e:
        raise BackendError(f"cannot write {path}: {reason(e)}") from e
    finally:
        if aside:
            shutil.rmtree(aside, ignore_errors=True)


def check_new_folder(path: str | Path) -> None:
    """Raise BackendError where a folder at `path` cannot be made, or holds something already."""
    check_folder(path)
    if Path(path).is_dir() and any(Path(path).iterdir()):
        raise BackendError(f"cannot write {path}: there are files in it already; name a new folder, or empty this one")


def reason(error: OSError) -> str:
    """Return the operating system's words for an error, in lower case, without numbers and paths."""
    text = error.strerror or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def _umask() -> int:
    with _MASK:  # else two threads at it leave the process without one
        mask = os.umask(0)
        os.umask(mask)
    return mask


def check_path(path: str | Path) -> None:
    """Raise BackendError where a name is an address on a network, for which folders would be made here."""
    if found := re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/+", str(path)):
        raise BackendError(f"{path} is an address ({found[0]}), and only files are read and written here: give a path")
