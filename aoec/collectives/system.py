"""Systems by name or from a file."""
from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path

from aoec.base.errors import BackendError, CheckError
from aoec.base.files.files import read_bytes
from aoec.base.text import nearest
from aoec.collectives.costs import COLLECTIVES, Statement, System
from aoec.collectives.read_system import ranks_in, read_system

__all__ = ["COLLECTIVES", "Statement", "System", "load", "names", "shipped_texts"]
LIMIT_BYTES = 1 << 20  # of a system's file; far above any real one


def names() -> list[str]:
    """Return the systems that come with aoec, each with its ranks at the end, sorted by file and ranks."""
    return [f"{stem}-{ranks}" for stem, text in sorted(shipped_texts().items()) for ranks in ranks_in(text, f"{stem}.toml")]


def load(name_or_path: str) -> System:
    """Return a system by its name (`aoec systems` lists them) or from a file, FILE.toml. A file with several counts of ranks is asked for
    as FILE.toml:RANKS. Raise CheckError where there is none, or where the file does not say what it must, with the place in it."""
    name = str(name_or_path)
    path, _, count = name.rpartition(":") if ".toml:" in name else (name, "", "")
    if path.endswith(".toml") or "/" in path or "\\" in path:
        if count and not count.isdigit():
            raise CheckError(f"{name}: behind the colon stands a count of ranks, such as {path}:8")
        return read_system(_text_of(path), path, int(count) if count else None, name)
    stem, _, ranks = name.lower().rpartition("-")
    texts = shipped_texts()
    if name.lower() not in names():
        raise CheckError(f"there is no system {name}{nearest(name.lower(), names())} (a file of your own: FILE.toml)")
    return read_system(texts[stem], f"{stem}.toml", int(ranks), name.lower())


@lru_cache(maxsize=1)
def shipped_texts() -> dict[str, str]:
    """Return the texts of the files that come with aoec, by name without .toml."""
    files = resources.files("aoec.collectives").joinpath("systems").iterdir()
    return {f.name.removesuffix(".toml"): f.read_text(encoding="utf-8") for f in files if f.name.endswith(".toml")}


def _text_of(path: str) -> str:
    try:
        return read_bytes(Path(path), LIMIT_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise CheckError("a file of a system is UTF-8 text; this is not", source=path) from None
    except (BackendError, ValueError) as e:  # ValueError: a path with a NUL
        raise CheckError(f"cannot read this file of a system: {e}", source=path) from None
