"""The loaded library: each function of functions.toml with its argument types, as far as the libraries export it. For the worker alone."""
from __future__ import annotations

import ctypes
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from aoec.acl.codes import error_of
from aoec.base.npu_errors import CannNotFound, NpuError

TYPES: dict[str, Any] = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64,
                         "size": ctypes.c_size_t, "ptr": ctypes.c_void_p, "str": ctypes.c_char_p, "f32": ctypes.c_float,
                         "code": ctypes.c_int32}
OUT = "out."


@dataclass(frozen=True)
class Function:
    """A row of the table."""

    name: str
    arguments: tuple[str, ...]
    returns: str
    required: bool

    def types(self) -> list[Any]:
        """Return the ctypes of its arguments."""
        return [ctypes.POINTER(TYPES[a.removeprefix(OUT)]) if a.startswith(OUT) else TYPES[a] for a in self.arguments]


@cache
def functions() -> Mapping[str, Function]:
    """Return the table by name."""
    raw = tomllib.loads(resources.files("aoec.acl").joinpath("functions.toml").read_text("utf-8"))
    return {name: Function(name, tuple(arguments), raw["returns"].get(name, "code"), part == "required")
            for part in ("required", "optional") for name, arguments in raw[part].items()}


class Library:
    """The functions that are there. `where`: which library each comes from."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Load the library. Raise CannNotFound, with the loader's words, where none can be loaded, or a required function is in none."""
        loaded, said = [], []
        for path in paths:
            try:
                loaded.append((path, ctypes.CDLL(path)))
            except OSError as e:
                said.append(f"{path} ({e})")
        if not loaded:
            raise CannNotFound(f"no library of ACL can be loaded: {'; '.join(said) or 'the toolkit has none'}; is the driver installed, "
                               "and was set_env.sh sourced?")
        self.where: dict[str, str] = {}
        self._functions: dict[str, Any] = {}
        for f in functions().values():
            for path, library in loaded:
                if (entry := getattr(library, f.name, None)) is not None:
                    entry.argtypes, entry.restype = f.types(), TYPES[f.returns]
                    self._functions[f.name], self.where[f.name] = entry, path
                    break
        if missing := [f.name for f in functions().values() if f.required and f.name not in self._functions]:
            raise CannNotFound(f"{', '.join(p for p, _ in loaded)} lacks {', '.join(missing)}, which every release of CANN that aoec knows "
                               f"has{'; not loaded: ' + '; '.join(said) if said else ''}")

    def has(self, *names: str) -> bool:
        """Return whether all these functions are there."""
        return all(n in self._functions for n in names)

    def call(self, name: str, *given: Any) -> Any:
        """Call a function. Return its out values: one as it is, several as a tuple. Return its result where that is no code. Raise the
        error of the code where it failed."""
        f, entry = functions()[name], self._functions[name]
        values, out, rest = [], [], list(given)
        for a in f.arguments:
            if a.startswith(OUT):
                out.append(TYPES[a.removeprefix(OUT)]())
                values.append(ctypes.byref(out[-1]))
            else:
                values.append(rest.pop(0))
        answer = entry(*values)
        if f.returns != "code":
            return answer
        if answer:
            raise self.error(name, answer)
        got = [o.value for o in out]
        return got[0] if len(got) == 1 else tuple(got) if got else None

    def error(self, name: str, code: int, kind: type[NpuError] | None = None) -> NpuError:
        """Return the error of a code, with the vendor's text."""
        text = self.call("aclGetRecentErrMsg") if self.has("aclGetRecentErrMsg") else None
        return error_of(name, code, (text or b"").decode("utf-8", "replace"), kind=kind)
