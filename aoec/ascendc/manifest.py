"""What the launch of a kernel needs to know beside its source: one JSON file."""
from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from aoec.ascendc.calls import table
from aoec.ascendc.kernel import Kernel
from aoec.ir.index import DTYPES, evaluate
from aoec.ir.program import For, Instr, Item, Program, Ref
from aoec.ir.text.show import show
from aoec.target.isa.instructions import INSTRUCTIONS, added_to, operand_align
from aoec.target.isa.scales import word_tensors

ENDING = ".json"  # behind the name of the source
SCHEMA = 1


def digest(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def manifest(kernel: Kernel) -> dict[str, Any]:
    """Return the facts, in the order in which they are written.

    `scale_words`: the tensor holds a word of 64 bits for each scale of the graph, made with this zero point (target/isa/scales.py).
    `sync_address`: the runtime puts an address of 8 bytes before the arguments, as it does for kernels of both kinds of core.
    `reads_on_bytes`: how far behind a tensor's end the kernel may read, and on 2002 and 1001 write back what it read; no other kernel may
    write there at that time. `zeros`: the tensor holds zeros when the kernel starts.
    """
    program, zeros, aligned = kernel.program, added_to(kernel.program), alignments(kernel.program)
    words = word_tensors(program)
    given = []
    for t in program.tensors:
        shape = [int(evaluate(d, {})) for d in t.shape]
        given.append({"name": t.name, "role": t.role, "dtype": t.dtype, "shape": shape, "bytes": prod(shape) * DTYPES[t.dtype],
                      "alignment": aligned.get(t.name, DTYPES[t.dtype]), "zeros": t.name in zeros}
                     | ({"scale_words": {"zero": words[t.name]}} if t.name in words else {}))
    return {"schema": SCHEMA, "kernel": kernel.name, "core_type": kernel.kind, "blocks": kernel.blocks, "arguments": given,
            "sync_address": "MIX" in kernel.kind, "workspace_bytes": 0, "reads_on_bytes": kernel.reads_on,
            "product": kernel.product, "target": kernel.target, "cann": kernel.release,
            "source_sha256": digest(kernel.source), "program_sha256": digest(show(program)), "calls_sha256": table().hash,
            "notes": list(kernel.notes)}


def alignments(program: Program) -> dict[str, int]:
    """Return bytes that the first element of each tensor must be a multiple of, as the instructions that reach it say."""
    dtypes, out = {t.name: t.dtype for t in program.tensors}, dict[str, int]()
    for item in _walk([i for s in program.streams for i in s.body]):
        word = INSTRUCTIONS[item.op]
        for o in word.operands:
            ref = item[o.name]
            if isinstance(ref, Ref) and ref.buffer in dtypes:
                need = operand_align(word, o, "GM", dtypes[ref.buffer])
                out[ref.buffer] = max(out.get(ref.buffer, 1), need)
    return out


def _walk(items: Sequence[Item]) -> Iterator[Instr]:
    for item in items:
        if isinstance(item, For):
            yield from _walk(item.body)
        elif isinstance(item, Instr):
            yield item
