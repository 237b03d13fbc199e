"""The places in which ATC looks for results of tuning.

For operators it takes $TUNE_BANK_PATH first, then --op_bank_path, then the default place. It skips a place that does not exist
(atlasatcparam_16_0076). aoec's bank is a file in such a directory. A bank of CANN's may be beside it."""
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from aoec.base.errors import CheckError
from aoec.base.files.bank_place import default_bank, in_folder
from aoec.cann.runtime_bank import SUFFIX
from aoec.cli.vendor.vendor_words import Options, Use
from aoec.report.results.folder import latest

OPTIONS = ("op_bank_path", "op_compiler_cache_dir")  # the latter as tutorials mean it: what tuning left there
KERNEL_BANKS = f"unified_bank/*{SUFFIX}"  # below the directory of a chip
DELIVERED = ("", "bank")  # where that is: in a directory as $TUNE_BANK_PATH names it, or in one that `aoec deliver` wrote


def banks_of(given: Options, fates: Fates, note: Note) -> list[str]:
    """Return the words for the bank of aoec's to compile from, and for results of tuning beneath it; what becomes of options is said."""
    found, beneath = None, list[str]()
    if path := os.environ.get("TUNE_BANK_PATH"):
        found = bank_at(path)
        note(f"atc: $TUNE_BANK_PATH={path}: " + (f"{found} is the bank" if found else _without(path)))
    before = "$TUNE_BANK_PATH"
    for name in (n for n in OPTIONS if n in given):
        if found is not None:
            fates[name] = Use.NOTED, f"{before} comes before it, as in ATC"
        elif name == "op_compiler_cache_dir" and given.get("op_compiler_cache_mode") == "disable":
            fates[name] = Use.NOTED, "--op_compiler_cache_mode=disable"
        elif (found := bank_at(given[name])) is not None:
            before, fates[name] = f"--{name}", (Use.HONOURED, f"{found} is the bank")
        elif name == "op_compiler_cache_dir" and (folder := latest(Path(given[name]).expanduser())) is not None:
            beneath = ["--base", str(folder)]
            fates[name] = Use.HONOURED, f"the schedules in {folder} are taken where the bank has none"
        else:
            fates[name] = Use.NOTED, _without(given[name])
    return ["--bank", str(found or default_bank()), *beneath]


def bank_at(path: str) -> Path | None:
    """Return the bank of aoec's that a file is or a directory holds. Return None where there is none."""
    at = Path(path).expanduser()
    at = in_folder(at) if at.is_dir() else at
    return at if at.is_file() else None


def _without(path: str) -> str:
    """Return why a place is passed over."""
    at = Path(path).expanduser()
    beside = "a bank of CANN's, which --exec takes, and " * bool(of_cann(at))
    return (f"it holds {beside}no bank of aoec's (aoec.db)" if at.exists() else "it is not there") + "; the next place is looked at"


def of_cann(folder: Path) -> dict[str, Path]:
    """Return chip -> the value for $TUNE_BANK_PATH, for the CANN banks in a directory."""
    places = [folder / name for name in reversed(DELIVERED)] if folder.is_dir() else []
    return {p.parent.parent.name: place for place in places for p in place.glob(f"*/{KERNEL_BANKS}")}


def find_delivered(given: Options, chip: str) -> Path | None:
    """Return the directory that CANN is to take its bank for a chip from: that of --exec, else the first of the places above that has
    one."""
    return next((found[chip].absolute() for found in map(of_cann, _places(given)) if chip in found), None)


def _places(given: Options) -> list[Path]:
    named = (given["exec"],) if given.get("exec") else (os.environ.get("TUNE_BANK_PATH"), *map(given.get, OPTIONS))
    return [Path(p).expanduser() for p in named if p]


def need_delivered(given: Options, chip: str) -> None:
    """Raise CheckError where there is no delivered bank for the chip."""
    if find_delivered(given, chip) is not None:
        return
    for place in (places := _places(given)):
        if others := of_cann(place):
            raise CheckError(f"--exec: {place} has a bank for {', '.join(sorted(others))} and none for {chip}")
    where = f" in {', '.join(map(str, places))}" if places else ""
    raise CheckError(f"--exec: there is no delivered bank{where} ({chip}/{KERNEL_BANKS}): aoec deliver {given.get('model', 'MODEL.onnx')} "
                     f"--target {given['soc_version']} --to DIR writes one, --exec=DIR names it")


Note = Callable[[str], None]


Fates = dict[str, tuple[Use, str]]
