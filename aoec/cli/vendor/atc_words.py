"""The options of ATC, the vendor's model compiler, and the effect of each where aoec compiles from its bank.

Names, values and defaults are those of CANN's ATC guide (releases 5.0 to 9.1, atlasatcparam pages) and of the flags that its open sources
register. A spelling "of tutorials" is in no release, but public tutorials use it. A "removed" option was in earlier releases.
"""
from __future__ import annotations

from aoec.cli.vendor.vendor_words import AIPP, Use, Word

ONNX = "aoec reads ONNX: export the model to it"
BUILD = "it is about how CANN builds kernels"
KERNELS = "which of CANN's kernels are taken; aoec emits its own"
MEMORY = "it is about the device's memory and streams"
LOADED = "it is about the .om file"
CHANGED = "the model is compiled as it is, with weights as they are"
SHAPES = "shapes that vary are given as gears: --dynamic_batch_size, --dynamic_dims"
SHORT = {"-h": "help"}
OURS = {"exec", "help"}  # no word of ATC's
NOT_ATC = {*OURS, "aoe_mode", "auto_tune_mode"}  # left out of the line for the real one

_HONOURED = ("model", "framework", "output", "input_shape", "input_format", "soc_version", "dynamic_batch_size", "dynamic_dims",
             "dynamic_image_size", "precision_mode", "precision_mode_v2", "singleop", "out_nodes", "op_bank_path", "op_compiler_cache_dir",
             "mode")
_REPLACED = {
    "op_compiler_cache_mode": "what aoec remembers, which is named by what it follows from and so is never stale ($AOEC_CACHE_DIR)",
    "oo_level": "the clean-up passes, all of which are on",
}
_NOTED = {
    "aoe_mode": "no release of ATC has it, tutorials do; models are compiled from the bank, and aoec aoe --job_type=2 tunes",
    "auto_tune_mode": "removed; aoec aoe --job_type=2 tunes",
    "mdl_bank_path": "plans of models and of slices, which are aoec's of subgraphs, are in its one bank, --op_bank_path",
    "buffer_optimize": "a plan of slices that the bank has is taken where it is faster; aoec compile --slices none takes none",
    "log": "aoec says on standard error what it does; aoec --traceback shows faults",
    "enable_scope_fusion_passes": "it is for TensorFlow's graphs",
    "fusion_switch_file": "groups are aoec's own; aoec fuse shows them", "optimization_switch": "aoec's passes are its own, and all on",
    "oo_constant_folding": "constants are folded anyway", "oo_dead_code_elimination": "nodes that nothing reads are dropped anyway",
    "enable_small_channel": "images of few channels are laid out so anyway",
    "insert_op_conf": AIPP,
    "output_type": "outputs are given as the model declares them", "input_fp16_nodes": "inputs are taken as the model declares them",
    "is_input_adjust_hw_layout": "inputs are taken as the model has them",
    "is_output_adjust_hw_layout": "outputs are given as the model has them",
    "deterministic": "results are the same bytes each time anyway", "deterministic_level": "results are the same bytes each time anyway",
    "allow_hf32": "products of fp32 are calculated and timed as fp32",
    "virtual_type": "schedules are for all cores of the target; a machine file with fewer (--soc_version FILE.toml) compiles for a vNPU",
    "host_env_os": "the compiled model runs wherever aoec does", "host_env_cpu": "the compiled model runs wherever aoec does",
    "device_id": "no device is used: times are modelled",
    "topo_sorting_mode": "nodes run in the model's own order",
    **dict.fromkeys(("op_select_implmode", "optypelist_for_implmode", "op_precision_mode", "core_type", "customize_dtypes",
                     "op_name_map"), KERNELS),
    **dict.fromkeys(("keep_dtype", "modify_mixlist"), "--precision_mode is of the whole model; aoec compile --lowered says what it lowers"),
    **dict.fromkeys(("compress_weight_conf", "enable_compress_weight", "compression_optimize_conf", "cal_conf", "sparsity",
                     "is_weight_clip"), CHANGED),
    **dict.fromkeys(("op_debug_level", "op_debug_config", "debug_dir", "jit_compile", "build_config", "tiling_schedule_optimize",
                     "shape_generalized_build_mode", "static_model_ops_lower_limit", "status_check", "raw_ge_options",
                     "raw_ge_options_ignore_unsupported", "target"), BUILD),
    **dict.fromkeys(("disable_reuse_memory", "enable_single_stream", "ac_parallel_enable", "atomic_clean_policy", "cluster_config",
                     "hccl_sub_comm_config"), MEMORY),
    **dict.fromkeys(("external_weight", "save_original_model", "enable_attr_compression", "display_model_info", "check_report",
                     "dump_mode", "quant_dumpable"), LOADED),
}
_REFUSED = {
    "weight": ONNX,
    "om": "it turns a compiled model into JSON: aoec compile --dump DIR writes every stage as text",
    "json": "it is where --om writes: aoec compile --dump DIR writes every stage as text",
    "input_shape_range": SHAPES, "input_hint_shape": SHAPES,
    "aicore_num": "give a machine file with so many cores as --soc_version FILE.toml (extends = the chip's name)",
}
WORDS = {w.name: w for w in (
    *(Word(n) for n in _HONOURED), Word("exec", bare=True), Word("help", bare=True),
    *(Word(n, Use.REPLACED, said) for n, said in _REPLACED.items()),
    *(Word(n, Use.NOTED, said, n == "raw_ge_options_ignore_unsupported") for n, said in _NOTED.items()),
    *(Word(n, Use.REFUSED, said) for n, said in _REFUSED.items()))}

SWITCH = ("0", "1")
VALUES = {  # that ATC takes; it refuses others, and so the line for it would be of no use
    **dict.fromkeys(("sparsity", "dump_mode", "virtual_type", "status_check", "deterministic", "display_model_info", "atomic_clean_policy",
                     "disable_reuse_memory"), SWITCH),
    "deterministic_level": (*SWITCH, "2"), "external_weight": (*SWITCH, "2"), "op_debug_level": (*SWITCH, "2", "3", "4"),
    "framework": ("0", "1", "3", "5"), "mode": ("0", "1", "3", "5", "6", "7", "30"), "core_type": ("AiCore", "VectorCore"),
    "log": ("debug", "info", "warning", "error", "null"), "op_compiler_cache_mode": ("enable", "disable", "force"),
    "buffer_optimize": ("l1_optimize", "l2_optimize", "off_optimize"), "topo_sorting_mode": ("0", "1", "2", "3"),
    "op_select_implmode": ("high_precision", "high_performance", "high_precision_for_all", "high_performance_for_all"),
    "precision_mode": ("force_fp16", "force_fp32", "cube_fp16in_fp32out", "allow_mix_precision", "allow_fp32_to_fp16",
                       "must_keep_origin_dtype", "allow_mix_precision_fp16", "allow_mix_precision_bf16", "allow_fp32_to_bf16"),
    "precision_mode_v2": ("fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16", "cube_hif8", "mixed_hif8"),
}
