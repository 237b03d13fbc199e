"""What instructions do and what their fields count, in words: the dictionary itself (target/isa/instructions.py) has names and limits."""
from __future__ import annotations

from collections.abc import Mapping

Said = tuple[str, str]  # what a field counts, what it says

_ARITHMETIC = {"vadd": "src0 + src1", "vsub": "src0 - src1", "vmul": "src0 * src1", "vdiv": "src0 / src1",
               "vmax": "the larger of src0 and src1", "vmin": "the smaller of src0 and src1", "vadds": "src + scalar",
               "vmuls": "src * scalar", "vmaxs": "the larger of src and the scalar",
               "vmins": "the smaller of src and the scalar", "vexp": "e to the power of src", "vln": "the natural logarithm of src",
               "vsqrt": "the square root of src", "vrsqrt": "1 / the square root of src", "vrec": "1 / src", "vabs": "the magnitude of src",
               "vrelu": "src, and 0 where it is below 0", "vaddrelu": "src0 + src1, and 0 where the sum is below 0",
               "vand": "the bits that src0 and src1 share", "vor": "the bits of src0 or src1", "vnot": "the bits that src lacks",
               "vshls": "src shifted left by so many bits", "vshrs": "src shifted right by so many bits",
               "vfloor": "src rounded down", "vceil": "src rounded up", "vrint": "src rounded to the nearest, ties to even",
               "vtrunc": "src rounded toward zero"}
DOES: Mapping[str, str] = {
    "copy_gm_l1": "Copies runs of blocks from GM to L1.",
    "copy_gm_l1_nd2nz": "Copies a matrix of rows from GM to L1 as columns of fractals (NZ). Zeros fill up the last block of each row.",
    "load_l0a": "Copies fractals from L1 to L0A; it may turn each of them.",
    "load_l0b": "Copies fractals from L1 to L0B; it may turn each of them.",
    "load3d": "Makes rows of img2col of an image in L1, and writes them to L0A as rows of fractals (ZZ).",
    "load_bt": "Copies a bias from L1 to the bias table.",
    "load_fb": "Copies words with scales from L1 to the buffer of FIXPIPE.",
    "mmad": "Multiplies a tile of L0A with a tile of L0B and adds the product to L0C; with init = 1 it starts from 0.",
    "mmad_bias": "Does what mmad does; with init = 1 it starts from the bias of each column.",
    "fixpipe_nd": "Copies a tile from L0C to GM as rows, with a cast and perhaps relu.",
    "fixpipe_nz": "Copies a tile from L0C to GM as columns of fractals, with a cast and perhaps relu.",
    "fixpipe_nd_scale": "Does what fixpipe_nd does from int32 to int8: times the scale of the column, of whose fraction ten bits count, "
                        "plus its zero point, limited to int8.",
    "fixpipe_nz_scale": "Does what fixpipe_nz does from int32 to int8: times the scale of the column, of whose fraction ten bits count, "
                        "plus its zero point, limited to int8.",
    "copy_gm_ub": "Copies runs of bytes from GM to UB; each starts at a block of UB.",
    "copy_gm_ub_at": "Copies one run of bytes from GM to UB, from where an index in UB says. An index below 0 counts from the end; one "
                     "outside is taken as the nearest inside.",
    "copy_ub_gm": "Copies runs of bytes from UB to GM; each starts at a block of UB.",
    "copy_l0c_ub": "Copies runs of fractals from L0C to UB, with a cast and perhaps relu.",
    "copy_ub_l1": "Copies runs of blocks from UB to L1.",
    **{name: f"Writes {text}, element by element." for name, text in _ARITHMETIC.items()},
    "vaddreluconv": "Writes src0 + src1 in fp16, and 0 where the sum is below 0, element by element. The sum is rounded once.",
    "vcopy": "Copies elements within UB.",
    "vconv": "Casts elements. Lanes and repeats count elements of the wider dtype.",
    "vdup": "Writes the scalar to every element.",
    "vcmax": "Writes the largest element of each repeat.",
    "vcmin": "Writes the smallest element of each repeat.",
    "vcadd": "Writes the sum of the elements of each repeat.",
    "vcgmax": "Writes the largest element of each block.",
    "vcgmin": "Writes the smallest element of each block.",
    "vcgadd": "Writes the sum of the elements of each block.",
    "vbrcb": "Fills a block with each of 8 elements a repeat.",
    "vnchwconv": "Turns 16 rows of a block into rows of 16 elements.",
    "vreducev2": "Packs the first elements of rows, one row behind the other.",
    "vgather": "Writes the elements of src that lie where byte offsets from its start say.",
    "vcmp": "Writes 1 where src0 compares with src1 as the mode says, elsewhere 0.",
    "vcmps": "Writes 1 where src compares with the scalar as the mode says, elsewhere 0.",
    "vsel": "Writes src1 where src0 is not 0, elsewhere src2.",
    "vsels": "Writes src1 where src0 is not 0, elsewhere the scalar.",
}

_GAP = "from the end of a run to the start of the next"
_NEXT = "from the start of one to the start of the next"
FIELDS: Mapping[str, Said] = {
    "bursts": ("runs", "how many runs are copied"), "length": ("blocks", "of a run"), "atomic": ("switch", "1: adds to what GM holds"),
    "repeat": ("repeats", "how many repeats of 256 bytes; the last one has `lanes` elements"),
    "lanes": ("elements", "of the last repeat that take part"), "scalar": ("real", "the second operand"),
    "mode": ("number", "0: <, 1: >, 2: ==, 3: <=, 4: >=, 5: !="), "transpose": ("switch", "1: each fractal of 16 x 16 is turned"),
    "relu": ("switch", "1: what is below 0 becomes 0"), "zero": ("number", "the zero point in the words of the scales"),
    "unit": ("switch", "1: L0C is handed over in granules of 512 bytes, not as a whole tile"),
    "init": ("switch", "1: starts anew; 0: adds to what L0C holds"), "m": ("rows", "of the result"), "n": ("columns", "of the result"),
    "k": ("elements", "along the axis of the sum"),
}
_LOAD2D: Mapping[str, Said] = {"repeat": ("fractals", "how many fractals are copied"), "src_stride": ("fractals", _NEXT),
                               "dst_gap": ("fractals", _GAP)}
_FIXPIPE_ND: Mapping[str, Said] = {"src_rows": ("rows", "of the tile in L0C"), "dst_stride": ("elements", "from one row in GM to the next")}
_FIXPIPE_NZ: Mapping[str, Said] = {"src_rows": ("rows", "of the tile in L0C"),
                                   "dst_stride": ("elements", "from one column of fractals in GM to the next")}
_REDUCED: Mapping[str, Said] = {"dst_rep": ("elements", "from one result to the next")}
_BLOCKS_REDUCED: Mapping[str, Said] = {"dst_rep": ("eights of elements", "from one repeat's results to the next")}
OWN: Mapping[str, Mapping[str, Said]] = {
    "copy_gm_l1": {"src_gap": ("blocks", f"in GM, {_GAP}"), "dst_gap": ("blocks", f"in L1, {_GAP}")},
    "copy_ub_l1": {"src_gap": ("blocks", f"in UB, {_GAP}"), "dst_gap": ("blocks", f"in L1, {_GAP}")},
    "copy_gm_l1_nd2nz": {"rows": ("rows", "that are copied"), "cols": ("elements", "of a row"),
                         "src_stride": ("elements", "from one row in GM to the next"), "dst_rows": ("rows", "of the matrix in L1")},
    "load_l0a": _LOAD2D, "load_l0b": _LOAD2D,
    "load3d": {
        "h": ("rows", "of the image in L1"), "w": ("pixels", "of a row of the image in L1"), "channels": ("channels", "of the image"),
        "k_start": ("elements", "the first column of img2col"), "k_size": ("elements", "columns of img2col"),
        "m_start": ("pixels", "the first output pixel"), "m_size": ("pixels", "output pixels"),
        "stride_h": ("rows", "from one window to the next"), "stride_w": ("pixels", "from one window to the next"),
        "filter_h": ("rows", "of the filter"), "filter_w": ("pixels", "of a row of the filter"),
        "dilation_h": ("rows", "from one tap to the next"), "dilation_w": ("pixels", "from one tap to the next"),
        "pad_top": ("rows", "of padding above"), "pad_bottom": ("rows", "of padding below"),
        "pad_left": ("pixels", "of padding to the left"),
        "pad_right": ("pixels", "of padding to the right"), "pad_value": ("number", "what int8 pixels in the padding read")},
    "fixpipe_nd": _FIXPIPE_ND, "fixpipe_nd_scale": _FIXPIPE_ND, "fixpipe_nz": _FIXPIPE_NZ, "fixpipe_nz_scale": _FIXPIPE_NZ,
    "copy_gm_ub": {"length": ("bytes", "of a run"), "src_gap": ("bytes", f"in GM, {_GAP}"), "dst_gap": ("blocks", f"in UB, {_GAP}"),
                   "pad": ("number", "that the rest of a run's last block becomes; without it that is the run's first element")},
    "copy_ub_gm": {"length": ("bytes", "of a run"), "src_gap": ("blocks", f"in UB, {_GAP}"), "dst_gap": ("bytes", f"in GM, {_GAP}")},
    "copy_gm_ub_at": {"length": ("bytes", "of the run"), "pitch": ("bytes", "from what one index names to what the next does"),
                      "extent": ("elements", "how many elements an index may name")},
    "copy_l0c_ub": {"length": ("fractals", "of a run"), "src_gap": ("fractals", f"in L0C, {_GAP}"),
                    "dst_gap": ("blocks", f"in UB, {_GAP}")},
    "vcmax": _REDUCED, "vcmin": _REDUCED, "vcadd": _REDUCED,
    "vcgmax": _BLOCKS_REDUCED, "vcgmin": _BLOCKS_REDUCED, "vcgadd": _BLOCKS_REDUCED,
    "vshls": {"scalar": ("bits", "how far the bits are shifted")}, "vshrs": {"scalar": ("bits", "how far the bits are shifted")},
    "vbrcb": {"repeat": ("repeats", "how many times 8 elements are taken"), "dst_blk": ("blocks", "from one element's block to the next")},
    "vnchwconv": {
        "repeat": ("repeats", "how many times 16 rows are turned"), "dst_stride": ("blocks", "from one row of the result to the next"),
        "dst_half": ("blocks", "from the first 8 elements of a row to the others, of dtypes of 4 bytes"),
        "src_stride": ("blocks", "from one row of the source to the next"),
        "dst_high": ("switch", "1: bytes go to the upper half of a block"),
        "src_high": ("switch", "1: bytes come from the upper half of a block")},
    "vreducev2": {"lanes": ("elements", "that are taken of a row"), "repeat": ("rows", "how many rows"),
                  "src_rep": ("blocks", "from one row to the next")},
    "vgather": {"reach": ("bytes", "of src, in which all elements lie that offsets name")},
}


def field(instruction: str, name: str) -> Said:
    """Return (what a field counts, what it says)."""
    own = OWN.get(instruction, {})
    if name in own:
        return own[name]
    if name.endswith("_blk"):
        return "blocks", f"of {name.removesuffix('_blk')}, from one block of a repeat to the next"
    if name.endswith("_rep"):
        return "blocks", f"of {name.removesuffix('_rep')}, from one repeat to the next"
    return FIELDS[name]


# numbers of RELATIONS (target/isa/instructions.py) that the fields of an instruction must keep; all with `lanes` have one, or one of
# their own
TOGETHER: Mapping[str, tuple[int, ...]] = {
    "copy_gm_l1_nd2nz": (1,), "load_l0a": (2,), "load_l0b": (2,), "load3d": (3, 4, 10), "copy_ub_gm": (8, 9), "vreducev2": (11,),
    "fixpipe_nd": (5, 8), "fixpipe_nz": (5, 7, 8), "fixpipe_nd_scale": (5, 8), "fixpipe_nz_scale": (5, 7, 8)}
LANES = 6


def together(instruction: str, fields: tuple[str, ...]) -> tuple[int, ...]:
    """Return the numbers of the relations that an instruction with these fields must keep."""
    return TOGETHER.get(instruction, (LANES,) * ("lanes" in fields))
