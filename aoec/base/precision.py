"""The modes of precision that a user chooses from, under short names and under those that the vendor's tools have."""
from __future__ import annotations

PRECISIONS = ("fp16", "bf16", "mixed", "cube16", "keep", "fp32")
# --precision_mode of ATC and AOE, and --precision_mode_v2 (origin, mixed_float16). Their force_fp32 is cube_fp16in_fp32out, not our fp32,
# which multiplies in fp32 too; modes that choose by what an operator supports (allow_fp32_to_fp16) mean nothing where each has both dtypes
SPELLINGS = {"force_fp16": "fp16", "cube_fp16in_fp32out": "cube16", "force_fp32": "cube16", "must_keep_origin_dtype": "keep",
             "origin": "keep", "allow_mix_precision": "mixed", "allow_mix_precision_fp16": "mixed", "mixed_float16": "mixed"}
