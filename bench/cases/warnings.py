"""What is known against a published row: such rows are reported, and not counted among the eligible."""
from __future__ import annotations

import re

# (column, pattern, column, pattern or "", warning)
RULES = (
    ("notes", r"do not fit|lower bound only", "", "", "the source's own spread forbids a fit"),
    ("notes", r"FLAG:", "variant", r"L2[- ]bypass|bypass", "above the nominal HBM rate, part of it from what the previous launch left"),
    ("notes", r"FLAG:", "id", r"^m0(665)$", "rate above the nominal HBM rate that L2 does not explain"),
    ("op", r"model_resnet50", "dtype", r"int8", "precision not stated by the source; batches 8 to 32 fall below batch 4"),
    ("op", r"sst", "", "", "rows of lengths 64 and 128 are mixed"),
    ("shape", r"\?", "", "", "the source does not state the shape"),
    ("chip", r"^910A-class$", "op", r"^(matmul|batch_matmul|matmul_)",
     "static tilings of the time are erratic: an upper bound on the best schedule"),
    ("dtype", r"\?", "", "", "dtype not stated: ratios only"),
    ("variant", r"Triton", "", "", "dtype not stated: ratios only"),
    ("source", r"pto-isa", "op", r"flash_attention",
     "the kernel's inner tile goes by the length and is not stated: slower at 2048 keys than at 4096"),
    ("op", r"attention", "shape", r"causal|mask|dropout", "masked, and ours is not"),
    ("op", r"attention", "shape", r"paged|slots|ctx", "context lengths not recorded"),
    ("variant", r"in-model|isolated replay", "", "", "isolated and in-model time of one kernel differ 1.7 to 4.1 times"),
    ("chip", r"unspecified", "", "", "the chip is not named"),
    ("confidence", r"low", "", "", "low confidence of the source"),
    ("source", r"EvoKernel", "op", r"matmul|conv", "kernels that nobody tuned"),
    ("notes", r"950 one|does not restate the chip", "", "", "the chip is inferred"))


def warning_of(row: dict[str, str]) -> str:
    """Return the warnings of a table's row, joined; empty where there is none."""
    return "; ".join(dict.fromkeys(words for column, pattern, also, second, words in RULES
                                   if re.search(pattern, row[column], re.I) and (not also or re.search(second, row[also], re.I))))
