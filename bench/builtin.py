"""Makes the built-in bank: schedules of well-known networks for the main targets, as files of text in aoec/bank/.

    python bench/builtin.py [--networks resnet50 bert-base ...] [--targets Ascend910B3 ...] [--budget 2000] [--jobs N] [-o aoec/bank]
                            [--work build/builtin] [--keep OLDER_BANK | --changed OLDER_BANK]
    python bench/builtin.py --retime

Each network (fp16, batch 1) is tuned and checked as `aoec compile --tune` does it, with seed 0 and an empty bank. So the same sources make
the same bytes, on any machine and with any number of jobs. The program prints what each network took. A target's file is written when all
of its networks are done. Until then the results are in a folder (`--work`). After Ctrl-C or another end, the same sources go on from there.
Where no proof ends a search, its result depends on chance. `--keep` takes a folder of older files of the bank. Where these have a better
schedule, it is kept and timed again.

`--retime` searches nothing. It times all schedules of the files again, and writes them for the present sources where all times are equal.
Plans of models stay as they are, because a compile times the model before it takes a plan. `--retime` is for changes of the sources that
change no time. Where a time differs, it writes nothing and the exit code is 1.

`--changed` is for changes of the sources that change few times. It takes a folder of older files of the bank. All records whose time is
still equal are taken over, and only the other groups are searched.
"""
from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aoec
from aoec.bank.bank import Bank
from aoec.bank.builtin import BuiltIn, write
from aoec.bank.record import DEFAULT, Record
from aoec.jobs.bank.bank_verify import retime as retime_record
from aoec.jobs.version import model_version, source_version
from aoec.target.machine import Machine, load
from bench.networks import NETWORKS

TARGETS = ("Ascend910B3", "Ascend310P3")
USUAL = ("resnet50", "bert-base", "gpt2")  # of AOE's tutorials' networks; YOLOv5s alone would double time and size


def tune(name: str, target: str, folder: Path, budget: int, jobs: int) -> bool:
    """Tune a network into the bank of a folder. Return whether that was done now, and not by an earlier run. Raise CheckError
    where a value is wrong. A run that was interrupted is continued."""
    done = folder / f"{name}.done"
    if done.exists():
        return False
    aoec.compile(NETWORKS[name](1, 0).model, folder / "network.aoec", target=target, tune=True, budget=budget, jobs=jobs,
                 bank=folder / "bank.db", base="none", resume=True)
    done.touch()
    return True


def begun(work: Path, target: str, networks: Sequence[str], budget: int) -> Path:
    """Return the folder of unfinished work on a target's networks, made where there is none: one for all that decides what the bank is."""
    folder = work / f"{target}-{'-'.join(networks)}-{budget}-{source_version()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def better(records: Iterable[Record], older: Path) -> list[Record]:
    """Return the records, each with the schedule that an older built-in bank has for it where that takes fewer cycles now. Not of defaults,
    which are what is found without a search."""
    known = {(r.key.func_key, r.key.state): r for r in BuiltIn(older).list()} if older.is_file() else {}
    out = []
    for r in records:
        old = known.get((r.key.func_key, r.key.state))
        if old is not None and not r.key.state.endswith(DEFAULT) and old.trace != r.trace:
            ticks = retime_record(old, r.func, load(r.key.target))
            if isinstance(ticks, int) and ticks < r.ticks:
                r = replace(r, trace=old.trace, ticks=ticks, trials=old.trials, searched=old.searched)
        out.append(r)
    return out


def take_over(target: str, older: Path, bank: Path) -> int:
    """Return how many records of an older built-in bank are put into a bank for the present sources: those whose time is equal."""
    machine = load(target)
    found = timed_again(BuiltIn(older / f"{target}.jsonl").list(), machine)
    equal = [replace(of_present(r, machine), func=func) for r, func, ticks in found if ticks == r.ticks]
    Bank.open(bank).put_all(equal)
    return len(equal)


def timed_again(records: Sequence[Record], machine: Machine) -> list[tuple[Record, str, int | str]]:
    """Return (record, its func's text, what it takes now or why it cannot run) of the records of a built-in bank."""
    funcs = {r.key.func_key: r.func for r in records if r.func}
    return [(r, funcs[r.key.func_key], retime_record(r, funcs[r.key.func_key], machine)) for r in records]


def of_present(record: Record, machine: Machine) -> Record:
    """Return the record as one of the present sources and machine."""
    return replace(record, key=replace(record.key, machine_hash=machine.hash, model_version=model_version()))


def make(target: str, networks: Sequence[str], budget: int, jobs: int, work: Path, output: Path | None, keep: Path | None,
         changed: Path | None = None) -> Path:
    """Return where the built-in bank of a target now is, all of its networks being tuned into it."""
    folder = begun(work, target, networks, budget)
    if output:
        output.mkdir(parents=True, exist_ok=True)
    if changed and not (folder / "bank.db").exists():
        print(f"{target}: {take_over(target, changed, folder / 'bank.db')} records taken over", flush=True)
    for name in networks:
        before = cpu_s()
        new = tune(name, target, folder, budget, jobs)
        print(f"{name} on {target}: {cpu_s() - before:.0f} CPU s" if new else f"{name} on {target}: done before", flush=True)
    made = Bank.open(folder / "bank.db")
    records = made.list(target)
    path = write(target, better(records, keep / f"{target}.jsonl") if keep else records, output, made.model_plans.list(target))
    shutil.rmtree(folder)
    return path


def retime(target: str, output: Path | None) -> tuple[Path | None, list[str]]:
    """Write the built-in bank of a target for the present sources and machine. Return where it is, or None and the records whose time is
    another one now."""
    found, machine = BuiltIn.of(target), load(target)
    records = found.list() if found else ()
    different = [f"{r.label}, {r.key.func_key[:12]}, {r.key.state}: {r.ticks} ticks, now {ticks}"
                 for r, _, ticks in timed_again(records, machine) if ticks != r.ticks]
    if different or not records:
        return None, different
    plans = [replace(p, machine_hash=machine.hash, model_version=model_version()) for p in found.model_plans] if found else []
    return write(target, [of_present(r, machine) for r in records], output, plans), []


def retime_all(targets: Sequence[str], output: Path | None) -> int:
    """Retime the banks of targets. Return 1 where a time differs, or there is no bank."""
    code = 0
    for target in targets:
        path, different = retime(target, output)
        print(f"{path}: all times are equal" if path else "\n".join([f"{target}: {len(different)} times differ", *different[:20]]))
        code |= path is None
    return code


def cpu_s() -> float:
    """Return CPU seconds of this process and of those it has waited for."""
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--networks", nargs="+", choices=sorted(NETWORKS), default=list(USUAL), metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), metavar="NAME")
    parser.add_argument("--budget", type=int, default=2000, help="trials for each group (default: 2000, as aoec tune's)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("-o", "--output", type=Path, help="the folder (default: aoec/bank)")
    parser.add_argument("--work", type=Path, default=Path("build/builtin"), help="where unfinished work is kept (default: build/builtin)")
    parser.add_argument("--keep", type=Path, help="a folder of older files, of which what is better is kept (default: none)")
    parser.add_argument("--changed", type=Path, help="a folder of older files; only groups whose times are others now are searched")
    parser.add_argument("--retime", action="store_true", help="search nothing; write the files again where all times are equal")
    args = parser.parse_args(argv)
    if args.retime:
        return retime_all(args.targets, args.output)
    try:
        for target in args.targets:
            path = make(target, args.networks, args.budget, args.jobs, args.work, args.output, args.keep, args.changed)
            print(f"{path}: {path.stat().st_size:,} bytes, {len(path.read_text().splitlines()) - 1} records and plans", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted; what is finished is kept in {args.work}, and the same command goes on from there", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
