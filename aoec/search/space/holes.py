"""The holes that sketches have, by name: which primitive each fills, and what it decides in each kind of sketch."""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aoec.base.errors import CheckError
from aoec.base.text import nearest

# kind of sketch -> (the file that lays it out, the funcs that it is for)
SKETCHES: dict[str, tuple[str, str]] = {
    "matmul": ("sketches_matmul.py", "matrix products, with what follows them in a group"),
    "convolution": ("sketches_cube.py", "convolutions, whose left operand is an img2col of the image"),
    "attention": ("sketches_attention.py", "two products with a softmax between them, in one pass over the keys"),
    "vector": ("sketches_vector.py", "elementwise work, reductions of rows that UB holds, pools, moves"),
    "columns": ("sketches_columns.py", "elementwise work of rows and columns that some inputs share by columns"),
    "rows in parts": ("sketches_reduce.py", "reductions of rows that are taken a part at a time"),
    "sum": ("sketches_sum.py", "one sum whose terms are shared by the cores"),
}


@dataclass(frozen=True)
class Kind:
    """Describes a hole. `primitive`: the one whose field holds it. `unit`: what a choice counts. `decides`: what it decides, by
    kind of sketch. `vendor`: sketches that have it only where a vendor's tiling is turned into a trace; a search lays none out."""

    name: str
    primitive: str
    unit: str
    decides: Mapping[str, str]
    vendor: tuple[str, ...] = ()

    def is_named(self, name: str) -> bool:
        """Return True for its name; <axis> stands for the name of a loop."""
        return re.fullmatch(re.escape(self.name).replace("<axis>", r"\w+"), name) is not None


def _same(text: str, *sketches: str) -> dict[str, str]:
    return dict.fromkeys(sketches, text)


_VECTOR = ("vector", "columns", "rows in parts", "sum")
_CUBE = ("matmul", "convolution")

KINDS: tuple[Kind, ...] = (
    # tiles of L0 and L1
    Kind("tm", "split", "elements", _same("rows of an L0 tile of the result", "matmul")),
    Kind("tn", "split", "elements", _same("columns of an L0 tile of the result", "matmul")),
    Kind("tk", "split", "elements", _same("length of an L0 tile along k, the axis of the sum", *_CUBE)),
    Kind("sk", "split", "L0 tiles or planes", {
        "matmul": "L0 tiles along k in the smaller chunk of L1",
        "convolution": "planes of C0 channels in a chunk of k in L1"}),
    Kind("rk", "split", "chunks", _same("smaller chunks of k in a larger one of L1, where one operand is loaded in larger ones", *_CUBE),
         vendor=("convolution",)),
    Kind("pm", "split", "L0 tiles", _same("L0 tiles of rows in an L1 tile", "matmul"), vendor=("matmul",)),
    Kind("pn", "split", "L0 tiles", _same("L0 tiles of columns in an L1 tile", "matmul"), vendor=("matmul",)),
    Kind("n1", "split", "fractals", {
        "convolution": "output channels of an L0 tile, in fractals of 16 columns, or in units of 32 where the result is int8",
        "attention": "keys of an L0 tile of the scores"}),
    Kind("k1", "split", "fractals", _same("keys of an L0 tile of the product of the shares with the values", "attention")),
    Kind("th", "split", "rows", _same("output rows of an L1 tile", "convolution")),
    Kind("tw", "split", "pixels", _same("output pixels of a row of an L1 tile; without this hole a tile is whole rows", "convolution")),
    Kind("h0", "split", "rows", _same("output rows of an L0 tile, where the image stays in L1", "convolution")),
    Kind("w0", "split", "pixels", _same("output pixels of an L0 tile, where the image is one row and stays in L1", "convolution")),
    Kind("uc", "split", "fractals", _same("columns of fractals that leave L0C for UB together, where results go through UB", *_CUBE)),
    # tiles of UB
    Kind("t0", "split", "elements", {
        "vector": "tile in UB of the first tiled axis", "columns": "rows of a tile in UB",
        "rows in parts": "rows of a tile in UB", "sum": "terms of a tile in UB"}),
    Kind("t1", "split", "elements", {
        "vector": "tile in UB of the second tiled axis", "columns": "columns of a tile in UB", "sum": "kept elements of a tile in UB"}),
    Kind("k0", "split", "elements", _same("elements of the reduced axis in a part", "rows in parts")),
    Kind("tr", "online", "rows", _same("rows of queries of a vector core", "attention")),
    Kind("tp", "online", "repeats of 64 keys", _same("keys of a part", "attention")),
    # work over cores
    Kind("gm", "split", "parts", {"matmul": "parts of the rows, one for each row of the grid of cores",
                                  "attention": "parts of the tiles of queries, over cores"}),
    Kind("gn", "split", "parts", {"matmul": "parts of the columns, one for each column of the grid of cores",
                                  "convolution": "parts of the tiles of output channels, over cores"}),
    Kind("gb", "split", "parts", _same("parts of the batch, over cores", "convolution", "attention")),
    Kind("gb<axis>", "split", "parts", _same("parts of a leading axis of the product (gb0, gb1, ...), over cores", "matmul")),
    Kind("gg", "split", "parts", _same("parts of the groups of a grouped convolution, over cores", "convolution")),
    Kind("gh", "split", "parts", _same("parts of the tiles of rows, over cores", "convolution")),
    Kind("gw", "split", "parts", _same("parts of the tiles of pixels of a row, over cores", "convolution")),
    Kind("g0", "split", "parts", {
        "vector": "parts of the tiles of the first axis, over cores", "columns": "parts of the tiles of rows, over cores",
        "rows in parts": "parts of the tiles of rows, over cores", "sum": "parts of the tiles of terms, over cores"}),
    Kind("g1", "split", "parts", {
        "vector": "parts of the tiles of the second axis, over cores", "columns": "parts of the tiles of columns, over cores",
        "sum": "parts of the tiles of kept elements, over cores"}),
    Kind("vc", "online", "cores", _same("vector cores that a cube core uses", "attention")),
    Kind("sm", "split", "elements", _same("rows of a core's block, where blocks have stated extents", "matmul"), vendor=("matmul",)),
    Kind("sn", "split", "elements", _same("columns of a core's block, where blocks have stated extents", "matmul"), vendor=("matmul",)),
    Kind("sc", "split", "elements", _same("length of a core's share of k; the cores add their parts in GM", "matmul")),
    Kind("cores", "split", "cores", _same("cores that blocks are dealt to", "matmul"), vendor=("matmul",)),
    Kind("so", "split", "blocks", _same("rows (or columns) of blocks that are walked together, where blocks are dealt out", "matmul")),
    Kind("bm", "swizzle", "blocks", _same("rows of blocks in an L2 tile, where blocks are walked tile by tile", "matmul"),
         vendor=("matmul",)),
    Kind("bn", "swizzle", "blocks", _same("columns of blocks in an L2 tile, where blocks are walked tile by tile", "matmul"),
         vendor=("matmul",)),
    Kind("lm", "split", "L1 tiles", _same("L1 tiles of rows in a block that stays in L2", "matmul")),
    Kind("ln", "split", "L1 tiles", _same("L1 tiles of columns in a block that stays in L2", "matmul")),
    # slots
    Kind("da", "double_buffer", "slots", _same("slots of the left operand, of an image or of keys in L1", *_CUBE, "attention")),
    Kind("db", "double_buffer", "slots", _same("slots of the right operand, of weights or of values in L1", *_CUBE, "attention")),
    Kind("d0a", "double_buffer", "slots", _same("slots of L0A", *_CUBE)),
    Kind("d0b", "double_buffer", "slots", _same("slots of L0B", *_CUBE, "attention")),
    Kind("dc", "double_buffer", "slots", _same("slots of L0C", *_CUBE, "attention")),
    Kind("di", "double_buffer", "slots", _same("slots of what is loaded into UB", *_VECTOR, "attention")),
    Kind("do", "double_buffer", "slots", _same("slots of what is stored from UB", *_VECTOR, *_CUBE, "attention")),
    Kind("du", "double_buffer", "slots", _same("slots of operands that go through UB on their way to L1 or beside the result", *_CUBE)),
    # order
    Kind("pl", "preload", "iterations", {
        "matmul": "chunks of k by which loads are ahead of their use", "attention": "parts by which scores are ahead of their use",
        "vector": "tiles by which padded ones are filled and loaded ahead of their use"}),
    Kind("ps", "preload", "iterations", _same("parts by which the cube cores are ahead with the scores", "attention")),
    Kind("uf", "unit_flag", "switch", _same("1: results leave L0C in granules of 512 bytes during the product; 0: as whole tiles", *_CUBE)),
    Kind("p0", "place", "bytes", _same("the result starts at a multiple of this in UB: at the next slot, or in a bank of its own",
                               "vector", "columns")),
)


def kind(name: str) -> Kind:
    """Return the hole of that name, with its `?` or without; CheckError with the nearest one where there is none."""
    plain = name.removeprefix("?")
    found = next((k for k in KINDS if plain in (k.name, k.name.replace("<axis>", "")) and plain != ""), None)
    found = found or next((k for k in KINDS if k.is_named(plain)), None)
    if found is None:
        known = [k.name for k in KINDS]
        raise CheckError(f"no sketch has a hole {plain}{nearest(plain, known) or '; aoec holes lists them'}")
    return found
