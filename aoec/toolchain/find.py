"""Finds CANN on this machine: its root, release, compiler, linker, libraries and headers. Nothing of it is started or loaded here."""
from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aoec.base.npu_errors import CannNotFound

VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")  # in the order in which they are looked at
LINKS = ("ascend-toolkit/latest", "latest", "cann")  # below a default root
COMPILERS = ("compiler/ccec_compiler/bin", "ccec_compiler/bin", "tools/bisheng_compiler/bin", "bin")  # folders of bisheng below the root
LIBRARIES = ("libacl_rt.so", "libascendcl.so", "libruntime.so")  # the newer one first; the last for kernels of both kinds of core
LIBRARY_FOLDERS = ("lib64", "runtime/lib64", "acllib/lib64")
HEADERS = {  # layout -> folders below the root; the first must be there
    "old": ("tools/tikcpp/tikcfw", "tools/tikcpp/tikcfw/interface", "tools/tikcpp/tikcfw/impl"),
    "old, in compiler": ("compiler/tikcpp/tikcfw", "compiler/tikcpp/tikcfw/interface", "compiler/tikcpp/tikcfw/impl"),
    "new": ("asc/include", "asc/impl", "asc/include/basic_api", "asc/include/utils", "asc/impl/basic_api", "asc/impl/utils")}
VERSION_FILES = ("version.info", "version.cfg", "compiler/version.info", "runtime/version.info", "ascend_toolkit_install.info")
VERSION = re.compile(r"^\s*\w*version\w*\s*=\s*\W?(\d+)\.(\d+)([\w.\-]*)", re.IGNORECASE | re.MULTILINE)
VERSION_BYTES = 1 << 16
SPELLINGS = ("8.1", "8.5", "9.1")  # those that aoec emit knows
STILL = "emit, check, simulate and all else that needs no device still work"
SET_UP = "install CANN's toolkit, source its set_env.sh, and check the driver with npu-smi info"


@dataclass(frozen=True)
class Toolkit:
    """A CANN that was found. `release`: "8.1", or "" where no file says it; `version`: as the file has it; `libraries`: paths of those of
    LIBRARIES that are there; `compiler` and `tried`: bisheng, and the places where it was looked for; `headers`: folders by layout."""

    root: Path
    release: str
    version: str
    compiler: Path | None
    linker: Path | None
    objcopy: Path | None
    libraries: tuple[Path, ...]
    headers: tuple[Path, ...]
    layout: str
    tried: tuple[str, ...] = ()

    def tool(self, name: str) -> Path:
        """Return the path of `bisheng`, `ld.lld` or `llvm-objcopy`; CannNotFound says where it was looked for."""
        found = {"bisheng": self.compiler, "ld.lld": self.linker, "llvm-objcopy": self.objcopy}[name]
        if found is None:
            short = f"CANN at {self.root} (release {self.release or 'unknown'}) has no {name}"
            raise CannNotFound(f"{short}; tried {', '.join(self.tried)}; install the toolkit, not the runtime alone, or put {name} on "
                               f"PATH; {STILL}", short=short, looked=self.tried)
        return found


def find_toolkit(environ: Mapping[str, str] | None = None) -> Toolkit:
    """Return the toolkit that the variables name, or that lies below a default root; CannNotFound says what was looked at and what still
    works."""
    given = os.environ if environ is None else environ
    looked = []
    for root, why in _candidates(given):
        libraries, compiler = _libraries(root), _compiler(root, given)
        if root.is_dir() and (libraries or any((root / c / "bisheng").is_file() for c in COMPILERS)):
            return _toolkit(root, libraries, compiler, given)
        looked.append(f"{why} ({'holds neither library nor compiler' if root.is_dir() else 'no folder'})")
    said = ", ".join(f"{v} is {given[v]}" if given.get(v) else f"{v} is not set" for v in VARIABLES)
    short = f"CANN was not found: {said}"
    raise CannNotFound(f"{short}; tried {', '.join(looked)}, for {', '.join(LIBRARIES[:2])} in {LIBRARY_FOLDERS[0]} and bisheng in "
                       f"{', '.join(COMPILERS)}; {SET_UP}; {STILL}", short=short, looked=looked)


def spelling(toolkit: Toolkit) -> str:
    """Return the spelling of `aoec emit --cann` that fits: the newest that is not newer than the toolkit, by the headers' layout where no
    file says a release. CANN 8.2 to 8.4 take the words of 8.1."""
    if not toolkit.release:
        return SPELLINGS[1] if toolkit.layout == "new" else SPELLINGS[0]
    fits = [s for s in SPELLINGS if _number(s) <= _number(toolkit.release)]
    return fits[-1] if fits else SPELLINGS[0]


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(n) for n in release.split("."))


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield roots to try, each with its source. Default places are tried only where no variable is set."""
    named = [v for v in VARIABLES if environ.get(v)]
    for v in named:
        yield Path(environ[v]), f"{environ[v]} of {v}"
    if not named:
        home = environ.get("HOME")
        for base in (Path("/usr/local/Ascend"), *([Path(home) / "Ascend"] if home else [])):
            for link in LINKS:
                yield base / link, str(base / link)


def _libraries(root: Path) -> tuple[Path, ...]:
    """Return the libraries that are there, in their order; each from the first folder that has it."""
    found = []
    for name in LIBRARIES:
        place = next((p for f in LIBRARY_FOLDERS if (p := root / f / name).is_file()), None)
        if place:
            found.append(place)
    return tuple(found)


def _compiler(root: Path, environ: Mapping[str, str], name: str = "bisheng") -> Path | None:
    """Return the tool below the root, or else on PATH."""
    for folder in COMPILERS:
        if os.access(root / folder / name, os.X_OK) and (root / folder / name).is_file():
            return root / folder / name
    found = shutil.which(name, path=environ.get("PATH", ""))
    return Path(found) if found and name == "bisheng" else None


def _toolkit(root: Path, libraries: tuple[Path, ...], compiler: Path | None, environ: Mapping[str, str]) -> Toolkit:
    root = root.absolute()
    release, version = _release(root)
    beside = [compiler.parent / n if compiler and (compiler.parent / n).is_file() else _compiler(root, environ, n)
              for n in ("ld.lld", "llvm-objcopy")]
    layouts = [(layout, tuple(root / f for f in folders if (root / f).is_dir())) for layout, folders in HEADERS.items()
               if (root / folders[0]).is_dir()]
    layout, headers = next(iter(layouts), ("", ()))
    if len(layouts) > 1:  # CANN 9 has both: all folders, older ones first
        layout, headers = "new", tuple(h for _, folders in layouts for h in folders)
    tried = (*(str(root / c) for c in COMPILERS), "PATH")
    return Toolkit(root, release, version, compiler, beside[0], beside[1], tuple(p.absolute() for p in libraries), headers, layout, tried)


def _release(root: Path) -> tuple[str, str]:
    """Return ("8.1", "8.1.RC1") of the first file that says a version; ("", "") where none does."""
    for name in (*VERSION_FILES, *(str(p.relative_to(root)) for p in sorted(root.glob("*-linux/ascend_toolkit_install.info")))):
        try:
            with open(root / name, "rb") as f:
                text = f.read(VERSION_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        if found := VERSION.search(text):
            return f"{int(found[1])}.{int(found[2])}", f"{found[1]}.{found[2]}{found[3]}"
    return "", ""
