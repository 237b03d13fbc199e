"""The options of AOE's own command line: which of them aoec honours, and what it says of the others.

Names, meanings and defaults are those of CANN's AOE guide (its parameter pages for the host and for the device as host). Spellings "of
tutorials" are in no release, but public tutorials use them. `system` and `hccl_test` are aoec's own options: AOE measures the links of a
cluster's devices, and there are no devices here.
"""
from __future__ import annotations

from aoec.cli.vendor.vendor_words import AIPP, Use, Word

NO_DEVICE = "no device is used: times are modelled"
ATC = "it is ATC's, and means nothing for schedules"
ONNX = "aoec reads ONNX: export the model to it"
SHORT = {"-m": "model", "-w": "weight", "-j": "job_type", "-f": "framework", "-h": "help"}

_HONOURED = ("job_type", "model", "model_path", "singleop", "framework", "tune_ops_file", "output", "progress_bar", "input_shape",
             "dynamic_batch_size", "dynamic_dims", "dynamic_image_size", "precision_mode", "precision_mode_v2", "tune_optimization_level",
             "input_format", "soc_version", "tuning_time_limit", "base_result", "config", "out_nodes", "loss_name", "system", "hccl_test")
_BARE = ("Fdeeper_opat", "reload", "help")
_NOTED = {
    "device": NO_DEVICE, "ip": NO_DEVICE, "port": NO_DEVICE,
    "log": "aoec says on standard error what it does; aoec --traceback shows faults",
    "virtual_type": "schedules are for all cores of the target; a machine file with fewer (--soc_version FILE.toml) tunes for a vNPU",
    "host_env_os": "the compiled model runs wherever aoec does", "host_env_cpu": "the compiled model runs wherever aoec does",
    "disable_reuse_memory": ATC, "op_debug_level": ATC, "build_bypass": ATC, "op_select_implmode": ATC, "optypelist_for_implmode": ATC,
    "op_precision_mode": ATC, "keep_dtype": ATC, "modify_mixlist": ATC, "customize_dtypes": ATC, "op_name_map": ATC,
    "enable_scope_fusion_passes": "it is for TensorFlow's graphs", "enable_small_channel": "images of few channels are laid out so anyway",
    "compress_weight_conf": ATC, "compression_optimize_conf": ATC, "sparsity": ATC, "buffer_optimize": ATC, "core_type": ATC,
    "fusion_switch_file": "groups are aoec's own; aoec fuse shows them",
    "is_input_adjust_hw_layout": "inputs are taken as the model has them",
    "is_output_adjust_hw_layout": "outputs are given as the model has them",
    **dict.fromkeys(("enable_compress_weight", "enable_single_stream", "op_tune_file", "op_tune_mode", "op_tune_kernel_path"), ATC),
    "insert_op_conf": AIPP,
    "input_fp16_nodes": "inputs are taken as the model declares them", "output_type": "outputs are given as the model declares them",
}
_BARE_NOTED = {
    "Fop_format": "layouts are chosen with their conversions counted, for every operator",
    "Fnonhomo_split": "parts are as even as rows, images or heads allow", "Finner_axis_cut": "regions are cut along leading axes",
}
_REFUSED = {
    "weight": ONNX,
    "om": "a .om is compiled already: give --model the ONNX file that it was made from",
    "input_shape_range": "give gears with --dynamic_dims",
    "aicore_num": "give a machine file with so many cores as --soc_version FILE.toml (extends = the chip's name)",
}
WORDS = {w.name: w for w in (
    *(Word(n) for n in _HONOURED), *(Word(n, bare=True) for n in _BARE), *(Word(n, Use.NOTED, said) for n, said in _NOTED.items()),
    *(Word(n, Use.NOTED, said, True) for n, said in _BARE_NOTED.items()), *(Word(n, Use.REFUSED, said) for n, said in _REFUSED.items()))}
