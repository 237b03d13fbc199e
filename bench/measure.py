"""Ten kernels whose measurement on a board would narrow the machine model most: chosen, and written as programs and as a table.

    python bench/measure.py [--seeds 256] [--of 62] [--pick 10] [--among NAME ...] [--write]

Candidates are the kernels of bench/cases/probes.py, for Ascend910B3. What shall become certain are the times of the tuned groups of the
built-in bank (`--of`: how many of them). All are timed on machines whose numbers vary within their confidence (aoec/target/vary.py), on
`--seeds` of them. A measurement of a kernel gives two times, each with 2 % of noise. Hot: the launch before was the same. Cold: L2 was
cleared. All logarithms of times are taken as linear and Gaussian. Candidates are taken one after the other. Each is the one that leaves the
least variance of the groups' times, once those before it are known.

Prints of each what it measures and its modelled times with a standard deviation. Then the share of the variance that is left, also on as
many other machines that had no part in the choice. Last the machine numbers that its times correlate with most. `--among` takes only
kernels whose names begin so.

`--write` puts the table into docs/measure-for-us.md, and the programs into bench/measure/, whose other programs are removed.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from aoec.bank.builtin import BuiltIn
from aoec.bank.record import DEFAULT, Record
from aoec.base.errors import AoecError
from aoec.base.files.files import write_text
from aoec.ir.program import Program
from aoec.jobs.bank.bank_verify import func_of
from aoec.jobs.calibrate.calibrate_times import Times
from aoec.jobs.stages.stages import program_text
from aoec.jobs.states import state_of
from aoec.jobs.tune.made import emit_trace
from aoec.jobs.version import model_version
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing.machines import times_on
from aoec.simulate.timing.state import CLEARED, PREVIOUS_LAUNCH, State
from aoec.target.machine import Machine, load
from aoec.target.vary import ratio, varies, vary_machine
from bench.cases.page import marks, with_blocks
from bench.cases.probes import TARGET, Probe, probes

Array = np.ndarray
NOISE = 0.02  # standard deviation of the logarithm of a measured time
STATES = (PREVIOUS_LAUNCH, CLEARED)  # hot, cold
NAMED, GOES_WITH = 3, 0.3  # numbers that are named of a kernel, at most, and the correlation from which they are
ROOT = Path(__file__).resolve().parents[1]
PAGE, FOLDER = "docs/measure-for-us.md", "bench/measure"
BEGIN, END = marks("kernels")


@dataclass(frozen=True)
class Choice:
    """A kernel that was taken. `hot` and `cold`: (modelled µs, standard deviation of its logarithm over machines); `left`: the share of the
    variance of the groups that is left with it and those before; `held_out`: the same on machines by which nothing was chosen; `numbers`:
    (place, correlation) of those that it goes with."""

    probe: Probe
    hot: tuple[float, float]
    cold: tuple[float, float]
    left: float
    held_out: float
    numbers: tuple[tuple[str, float], ...]


def tuned_groups(machine: Machine, count: int) -> list[Record]:
    """Return the tuned records of the built-in bank, or so many of them, evenly drawn."""
    bank = BuiltIn.of(machine.name)
    records = [r for r in bank.list() if not r.key.state.endswith(DEFAULT)] if bank else []
    count = min(count, len(records))
    return [records[i * len(records) // count] for i in range(count)]


def log_times(program: Program, machine: Machine, machines: Sequence[Machine], state: State) -> Array:
    """Return the logarithms of the µs that a program takes with its launch, by machine."""
    ticks = [int(times.total_ticks[0]) for times in times_on(encode(program, machine), machines, {}, state)]
    return np.log([t * m.us_per_tick for t, m in zip(ticks, machines)])


def left_variance(wanted: Array, seen: Array, between: Array, noise: float) -> float:
    """Return the summed variance of what is wanted, after what is seen with noise. `wanted`: its variances; `seen`: the covariance of what
    is seen; `between`: covariances [seen, wanted]."""
    known = np.linalg.solve(seen + noise**2 * np.eye(len(seen)), between)
    return float(wanted.sum() - (between * known).sum())


def choose(covariance: Array, candidates: Sequence[Sequence[int]], wanted: Sequence[int], noise: float, pick: int
           ) -> list[tuple[int, float]]:
    """Return (candidate, summed variance that is left with it and those before) in the order in which they are taken. `covariance` of all;
    `candidates`: the places of what each lets be seen; `wanted`: the places of what shall become certain. Of equals the first is taken."""
    taken: list[tuple[int, float]] = []
    aims = list(wanted)
    variances = np.diag(covariance)[aims]
    for _ in range(min(pick, len(candidates))):
        before = [place for i, _ in taken for place in candidates[i]]
        rest = [i for i in range(len(candidates)) if i not in {i for i, _ in taken}]
        left = []
        for i in rest:
            places = [*before, *candidates[i]]
            left.append(left_variance(variances, covariance[np.ix_(places, places)], covariance[np.ix_(places, aims)], noise))
        best = int(np.argmin(np.round(np.array(left) / variances.sum(), 9)))  # equals are equal on every machine
        taken.append((rest[best], left[best]))
    return taken


def held_out_share(chosen_on: tuple[Array, Array], others: tuple[Array, Array], noise: float) -> float:
    """Return the share of the variance of the wanted that is left on other machines, by what was learned on the first. Each is (seen
    [machine, time], wanted [machine, time]); the noise of what is seen is in it."""
    (seen, wanted), (seen2, wanted2) = chosen_on, others
    centred, aims = seen - seen.mean(axis=0), wanted - wanted.mean(axis=0)
    known = np.linalg.solve(centred.T @ centred / (len(seen) - 1) + noise**2 * np.eye(seen.shape[1]), centred.T @ aims / (len(seen) - 1))
    errors = (wanted2 - wanted.mean(axis=0)) - (seen2 - seen.mean(axis=0)) @ known
    return float(((errors**2).mean(axis=0) + noise**2 * (known**2).sum(axis=0)).sum() / (wanted2 - wanted.mean(axis=0)).var(axis=0).sum())


def goes_with(times: Array, ratios: Array, places: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Return the numbers whose logarithms of ratios [machine, number] correlate most with the times [machine, state], the strongest first;
    each with its larger correlation, signed."""
    scaled = [(a - a.mean(axis=0)) / np.maximum(a.std(axis=0), 1e-12) for a in (times, ratios)]
    found = scaled[0].T @ scaled[1] / len(times)
    strongest = found[np.abs(found).argmax(axis=0), range(len(places))]
    order = np.argsort(-np.abs(strongest), kind="stable")[:NAMED]
    return tuple((places[j], float(strongest[j])) for j in order if abs(strongest[j]) >= GOES_WITH)


def read_numbers(program: Program, machine: Machine) -> set[str]:
    """Return the numbers of the machine that a program's time may depend on."""
    times = Times(machine, [encode(program, machine)], PREVIOUS_LAUNCH)
    return {"clock_mhz", *(place for place, read in zip(times.places, times.read) if read)}


def find_choices(seeds: int, count: int, pick: int, among: Sequence[str] = ()) -> list[Choice]:
    """Return the kernels that are taken, in their order."""
    machine = load(TARGET)
    machines = [vary_machine(machine, seed) for seed in range(2 * seeds)]  # the second half holds the result against other machines
    candidates = probes(machine, among)
    programs = [program_text(p.text, p.name, TARGET, {})[0] for p in candidates]
    groups = [(emit_trace(func_of(r.func, r.key.func_key), r.trace, machine)[1], state_of(r.key.state))
              for r in tuned_groups(machine, count)]
    seen = np.stack([log_times(p, machine, machines, state) for p in programs for state in STATES], axis=1)
    wanted = np.stack([log_times(p, machine, machines, state) for p, state in groups], axis=1)
    every = np.hstack([seen, wanted])[:seeds]
    n = len(STATES)
    places = [range(n * i, n * (i + 1)) for i in range(len(candidates))]
    aims = range(seen.shape[1], every.shape[1])
    taken = choose(np.cov(every, rowvar=False), places, aims, NOISE, pick)
    numbers = [p for p in machine.sources if varies(p, machine)]
    ratios = np.log([[ratio(p, machine.sources[p].confidence, seed) for p in numbers] for seed in range(seeds)])
    whole, out = float(wanted[:seeds].var(axis=0, ddof=1).sum()), []
    for step, (i, left) in enumerate(taken, 1):
        columns = [place for j, _ in taken[:step] for place in places[j]]
        held = held_out_share((seen[:seeds, columns], wanted[:seeds]), (seen[seeds:, columns], wanted[seeds:]), NOISE)
        mine = seen[:seeds, places[i]]
        here = [float(np.exp(log_times(programs[i], machine, [machine], state)[0])) for state in STATES]
        hot, cold = zip(here, mine.std(axis=0, ddof=1).tolist())
        read = read_numbers(programs[i], machine)
        mask = [j for j, place in enumerate(numbers) if place in read]
        out.append(Choice(candidates[i], hot, cold, left / whole, held, goes_with(mine, ratios[:, mask], [numbers[j] for j in mask])))
    return out


def file_name(number: int, choice: Choice) -> str:
    return f"{number:02}-{choice.probe.name}.prog"


def told_time(time: tuple[float, float]) -> str:
    return f"{time[0]:.2f} ± {100 * time[1]:.1f} %"


def told_share(share: float) -> str:
    return f"{100 * share:.1f} %"


def told_numbers(choice: Choice) -> str:
    return ", ".join(f"`{place}` {r:+.2f}" for place, r in choice.numbers) or "many, none above the others"


def table(choices: Sequence[Choice], seeds: int, count: int) -> str:
    """Return the lines between the marks of the page."""
    head = "| program | what it measures | hot µs, modelled | cold µs, modelled | left | left on other machines | goes with |"
    rows = [f"| [{name}](../{FOLDER}/{name}) | {c.probe.about} | {told_time(c.hot)} | {told_time(c.cold)} | {told_share(c.left)} "
            f"| {told_share(c.held_out)} | {told_numbers(c)} |" for i, c in enumerate(choices, 1) for name in [file_name(i, c)]]
    words = f"{TARGET}, model version {model_version()}, {seeds} seeded machines, {count} groups. Every time is modelled."
    return "\n".join([words, "", head, "|---" * (head.count("|") - 1) + "|", *rows])


def write(choices: Sequence[Choice], text: str, root: Path) -> None:
    """Write the table into the page, and the programs into their folder. Remove old ones. Raise SystemExit where the page lacks marks."""
    page, folder = root / PAGE, root / FOLDER
    try:
        written = with_blocks(page.read_text("utf-8"), {"kernels": text})
    except AoecError as e:
        raise SystemExit(f"{page}: {e}") from None
    folder.mkdir(exist_ok=True)
    files = {file_name(i, c): f"# {c.probe.about}\n{c.probe.text}" for i, c in enumerate(choices, 1)}
    for old in folder.glob("*.prog"):
        if old.name not in files:
            old.unlink()
    for name, program in files.items():
        write_text(folder / name, program)
    write_text(page, written)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=256, metavar="N",
                        help="machines to choose by; as many more check the choice (default: 256)")
    parser.add_argument("--of", type=int, default=62, metavar="N", help="groups of the built-in bank (default: all 62)")
    parser.add_argument("--pick", type=int, default=10, metavar="N", help="kernels to choose (default: 10)")
    parser.add_argument("--among", nargs="+", default=[], metavar="NAME", help="only kernels whose names begin so")
    parser.add_argument("--write", action="store_true", help=f"writes the table into {PAGE} and the programs into {FOLDER}")
    args = parser.parse_args(argv)
    choices = find_choices(args.seeds, args.of, args.pick, args.among)
    for number, c in enumerate(choices, 1):
        print(f"{number:2} {c.probe.name}: {c.probe.about}\n   hot {told_time(c.hot)}, cold {told_time(c.cold)} µs, modelled; "
              f"left {told_share(c.left)}, on other machines {told_share(c.held_out)}; {told_numbers(c)}", flush=True)
    if args.write:
        write(choices, table(choices, args.seeds, len(tuned_groups(load(TARGET), args.of))), ROOT)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
