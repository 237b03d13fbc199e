"""Programs of one vector instruction: operands copied into UB, the instruction several times with fields by a seed, results copied out."""
from __future__ import annotations

from itertools import product

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.index import DTYPES, Expr, Float, Int
from aoec.ir.program import Instr, Program, Ref, SetFlag, Space, Stream, Tensor, WaitFlag
from aoec.target.isa.instructions import INSTRUCTIONS, REPEAT_BYTES, check_dtypes
from aoec.target.isa.meaning import NUMPY_DTYPES

SLOT = 4096  # bytes of an operand, of each of the times
TIMES = 4
VECTOR = tuple(n for n, word in INSTRUCTIONS.items()
               if word.pipe == "V" and all(o.scopes == ("UB",) for o in word.operands))
SHIFTS = ("vshls", "vshrs")


def dtypes_of(op: str) -> list[tuple[str, ...]]:
    """All dtypes of operands that an instruction takes."""
    word, out = INSTRUCTIONS[op], []
    for dtypes in product(DTYPES, repeat=min(len(word.operands), 3)):
        given = (*dtypes, *[dtypes[-1]] * (len(word.operands) - len(dtypes)))
        try:
            check_dtypes(word, list(given))
        except CheckError:
            continue
        out.append(given)
    return out


def fields_of(op: str, dtypes: tuple[str, ...], random: np.random.Generator) -> dict[str, Expr]:
    """Numbers of an instruction that keep to its slots: repeats of a target apart, sources anywhere."""
    word, lanes = INSTRUCTIONS[op], REPEAT_BYTES // max(DTYPES[d] for d in dtypes)
    names = [n.name for n in word.numbers]
    few = int(random.integers(1, min(lanes, 128) + 1)) if random.random() < 0.7 else min(lanes, 128)
    out: dict[str, int] = {"lanes": few, "repeat": int(random.integers(1, 4)), "mode": int(random.integers(0, 6))}
    blocks = [max(8 * DTYPES[d] // max(DTYPES[x] for x in dtypes), 1) for d in dtypes]
    for operand, reach in zip(word.operands, blocks):
        blk = int(random.integers(1, 3)) if operand.writes else int(random.integers(0, 3))
        out[f"{operand.name}_blk"] = blk
        out[f"{operand.name}_rep"] = reach * max(blk, 1) + int(random.integers(0, 3)) if operand.writes else int(random.integers(0, 12))
    if op in ("vcopy", "vdup") and DTYPES[dtypes[0]] == 1:
        out["lanes"] = 2 * int(random.integers(1, 65))
    if op in ("vcmax", "vcmin", "vcadd"):
        out["dst_rep"] = int(random.integers(1, 5))
    if op == "vnchwconv":
        turned = 16 if DTYPES[dtypes[0]] < 4 else 8
        out |= {"dst_stride": 2, "dst_half": 1, "src_stride": 1, "dst_rep": 2 * turned, "src_rep": 16,
                "dst_high": int(DTYPES[dtypes[0]] == 1 and random.random() < 0.5), "src_high": int(DTYPES[dtypes[0]] == 1)}
    if op == "vreducev2":
        out |= {"lanes": 2 * int(random.integers(1, 40)), "src_rep": int(random.integers(10, 12))}
    if op == "vgather":
        out |= {"lanes": min(few, REPEAT_BYTES // DTYPES[dtypes[0]]), "dst_rep": 8 + int(random.integers(0, 2)), "reach": SLOT}
    numbers: dict[str, Expr] = {n: Int(out[n]) for n in names if n in out}
    if "scalar" in names:
        value = 2 if op in SHIFTS else 0 if op == "vdup" and DTYPES[dtypes[0]] == 8 else round(float(random.normal()), 3)
        value = 1 if dtypes[0] == "bool" else value
        real = dtypes[-1] in ("fp32", "fp16", "bf16") or op in SHIFTS
        numbers["scalar"] = Float(float(value if real else min(abs(round(3 * value)), 1 if dtypes[0] == "bool" else 99)))
    return numbers


def program_of(op: str, dtypes: tuple[str, ...], seed: int = 0, machine: str = "Ascend910B3") -> Program:
    """The program of an instruction. O holds what its target holds at the end, D what it held before; operand i reads Xi."""
    word, random = INSTRUCTIONS[op], np.random.default_rng(seed)
    names = ["D", *[f"X{i}" for i in range(1, len(dtypes))]]
    sizes = [TIMES * SLOT // DTYPES[d] for d in dtypes]
    tensors = [Tensor(n, d, (Int(size),), "input") for n, d, size in zip(names, dtypes, sizes)]
    tensors.append(Tensor("O", dtypes[0], (Int(sizes[0]),), "output"))
    spaces = [Space(f"{n}_UB", d, "UB", Int(i * TIMES * SLOT), Int(TIMES * SLOT)) for i, (n, d) in enumerate(zip(names, dtypes))]
    copy = {"bursts": Int(1), "length": Int(TIMES * SLOT), "src_gap": Int(0), "dst_gap": Int(0)}
    body: list[object] = [Instr("copy_gm_ub", (("dst", Ref(f"{n}_UB", Int(0))), ("src", Ref(n, Int(0))), *copy.items())) for n in names]
    body += [SetFlag("MTE2", "V", Int(0)), WaitFlag("MTE2", "V", Int(0))]
    for time in range(TIMES):
        refs = tuple((o.name, Ref(f"{n}_UB", Int(time * SLOT // DTYPES[d]))) for o, n, d in zip(word.operands, names, dtypes))
        numbers = fields_of(op, dtypes, random)
        body.append(Instr(op, refs + tuple((n.name, numbers[n.name]) for n in word.numbers)))
    body += [SetFlag("V", "MTE3", Int(0)), WaitFlag("V", "MTE3", Int(0)),
             Instr("copy_ub_gm", (("dst", Ref("O", Int(0))), ("src", Ref("D_UB", Int(0))), *copy.items()))]
    core = "aiv" if machine == "Ascend910B3" else "core"
    stream = Stream("vec", core, (("core", Int(1)),), (), tuple(body))  # type: ignore[arg-type]
    return Program(op, machine, tuple(tensors), tuple(spaces), (stream,))


def feeds(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Values of its inputs: real ones of either sign where that has a meaning, whole ones small."""
    random, out = np.random.default_rng(seed), {}
    for t in program.tensors:
        if t.role == "input":
            dtype = np.dtype(NUMPY_DTYPES[t.dtype])
            size = int(np.prod([d.value for d in t.shape]))  # type: ignore[attr-defined]
            if t.dtype in ("fp32", "fp16", "bf16"):
                above = program.name in ("vln", "vsqrt", "vrsqrt", "vrec")
                values = random.uniform(0.5, 4, size) if above else random.normal(size=size) * 3
                values = np.where(random.random(size) < 0.2, 0.0 if program.name.startswith("vsel") else values, values)
            elif program.name == "vgather" and t.name == "X2":
                step = DTYPES[program.tensors[0].dtype]
                values = random.integers(0, SLOT // step, size) * step
            else:
                values = random.integers(0 if t.dtype[0] in "ub" else -9, 2 if t.dtype == "bool" else 10, size)
            out[t.name] = values.astype(dtype)
    return out
