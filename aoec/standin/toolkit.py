"""Makes a folder as a toolkit has it: a stand-in for compiler, linker and libascendcl of one release, found by ASCEND_HOME_PATH."""
from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import aoec
from aoec.base.files.files import write_text
from aoec.standin.build import acl_library

TOOLS = ("bisheng", "ld.lld", "llvm-objcopy")
BIN = Path("compiler/ccec_compiler/bin")
SCRIPT = """#!/bin/sh
PYTHONPATH={root}${{PYTHONPATH:+:$PYTHONPATH}} exec {python} -c {code} "$@"
"""
CODE = ("import sys; from pathlib import Path; from aoec.standin.bisheng import start; "
        "sys.exit(start({tool!r}, sys.argv[1:], Path({folder!r}), {release}))")


def make_toolkit(folder: Path, release: int, compiler: bool = True) -> Path:
    """Return the root of a toolkit of that release in a new folder; `compiler`: whether it has one."""
    (folder / "lib64").mkdir(parents=True)
    shutil.copyfile(acl_library(release), folder / "lib64/libascendcl.so")
    os.symlink("libascendcl.so", folder / "lib64/libruntime.so")
    if release >= 91:
        os.symlink("libascendcl.so", folder / "lib64/libacl_rt.so")  # one library: what one starts the other knows
    write_text(folder / "version.info", f"Version={release // 10}.{release % 10}.0\n")
    if compiler:
        (folder / BIN).mkdir(parents=True)
        for tool in TOOLS:
            code = CODE.format(tool=tool, folder=str(folder.absolute()), release=release)
            root = shlex.quote(str(Path(aoec.__file__).parents[1]))
            write_text(folder / BIN / tool, SCRIPT.format(root=root, python=shlex.quote(sys.executable), code=shlex.quote(code)))
            os.chmod(folder / BIN / tool, 0o755)
    return folder
