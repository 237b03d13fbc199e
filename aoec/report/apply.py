"""`APPLY.md` of a delivery: the lines to measure before, to apply, to measure after, and to undo, and what to send back.

Options of ATC are on atlasatcparam_16. --op_compiler_cache_mode=force is needed because kernels are cached, so that a new bank has no
effect otherwise. Options of msprof are on atlasprofiling_16_0011, and $TUNE_BANK_PATH on envref_07_0104.
"""
from __future__ import annotations

from shlex import quote

from aoec.report.deliver import LABEL, Delivery, totals
from aoec.report.gradients import gradient_part

# our modes of precision -> --precision_mode of ATC, which has none that makes a whole net fp32: a model that declares it keeps it
PRECISION = {"fp16": "force_fp16", "cube16": "cube_fp16in_fp32out", "keep": "must_keep_origin_dtype", "mixed": "allow_mix_precision_fp16",
             "fp32": "must_keep_origin_dtype", "bf16": "allow_fp32_to_bf16"}


def text(d: Delivery, inputs: tuple[tuple[str, tuple[int, ...]], ...]) -> str:
    """Return the file. `inputs`: names and shapes of the model's, where it has them once."""
    gradients = [] if d.gradients is None else gradient_part.apply(d.gradients)
    if d.lines:
        said = [*_head(d), *_before(d, inputs), *_apply(d, inputs), *_further(d, inputs), *gradients, *_undo(d), *_back(d)]
    else:
        said = [*_head(d), *gradients]
    return "\n\n".join(said) + "\n"


def _head(d: Delivery) -> list[str]:
    times = "Its times are modelled." if d.lines or d.gradients is None else f"Its times: {d.gradients.times}."
    files = "\n".join(f"- `{name}`: {what}" for name, what in d.files.items())
    return [f"# {_plain(d.name)} on {d.soc}: how to apply this folder",
            f"**{LABEL[0].upper()}{LABEL[1:]}.** {times} Only a board can say what CANN makes of it: measure before and "
            "after, compare the results of the network too, and keep what wins.",
            files, "\n".join(f"- {line}" for line in totals(d))]


def atc(d: Delivery, inputs: tuple[tuple[str, tuple[int, ...]], ...], output: str, more: str = "") -> str:
    """Return the line that compiles the model."""
    if not inputs:
        return f"atc ... --output={output} --soc_version={d.soc} --op_compiler_cache_mode=force{more}   # as you compile your model"
    shapes = ";".join(f"{name}:{','.join(map(str, shape))}" for name, shape in inputs)
    words = ["atc", "--framework=5", f"--model={d.name}.onnx", f"--output={output}", f"--soc_version={d.soc}",
             f"--input_shape={shapes}", f"--precision_mode={PRECISION[d.precision]}", "--op_compiler_cache_mode=force"]
    return " ".join(map(quote, words)) + more


def _shell(*lines: str) -> str:
    return "\n".join(["```sh", *lines, "```"])


def _profile(name: str) -> str:
    return f"msprof --output=prof_{name} --task-time=on --ai-core=on $RUN {name}.om"


def _before(d: Delivery, inputs: tuple[tuple[str, tuple[int, ...]], ...]) -> list[str]:
    return ["## 1. Measure before",
            _shell("cd THIS_FOLDER                # and copy the model here",
                   'RUN="python3 -m ais_bench --loop 20 --model"   # or any program that runs an .om on fixed inputs, some 20 times',
                   "unset TUNE_BANK_PATH", atc(d, inputs, "before"), _profile("before")),
            "The profile is `prof_before/PROF_*/mindstudio_profiler_output/op_summary_*.csv`; it must have the columns Input Shapes and "
            "Output Shapes (`--task-time=l1` in releases that know it)."]


def _apply(d: Delivery, inputs: tuple[tuple[str, tuple[int, ...]], ...]) -> list[str]:
    if not d.recorded_lines:
        return ["## 2. Apply", "This folder holds no records for CANN's run-time bank. `deliver.txt` says why, for each group."]
    exact = "exact, from your own file" if d.keys else (
        "predicted: if CANN fuses or lays out in another way, a record is not hit. With the profile of step 1 they become exact: "
        "`aoec deliver ... --to NEW_FOLDER --op-summary op_summary_....csv`")
    return ["## 2. Apply", _shell(
        'chmod -R u+rwX bank; export TUNE_BANK_PATH="$PWD/bank"    # asked before --op_bank_path and the default folder',
        atc(d, inputs, "after"), _profile("after")),
        f"Keys are {exact}. CANN looks a key up exactly, by a hash that it computes itself when it loads the file; the `id` in a record "
        "is ours and is ignored. CANN does not say which records it used. A tiling that it took shows in the op_summary as another Block "
        "Dim or another time.",
        "Instead of setting the variable, you can put the records into your home directory, for all of your programs. There are two "
        "folders: for releases from 2026 on, and for older ones. Nothing there is overwritten:", _shell("cp -rn home/. ~/")]


def _further(d: Delivery, inputs: tuple[tuple[str, tuple[int, ...]], ...]) -> list[str]:
    out = []
    if "tune_ops.json" in d.files:
        out += ["## 3. CANN's own tuning of what is worth it (optional)",
                _shell('mkdir -p aoe_bank; TUNE_BANK_PATH="$PWD/aoe_bank" aoe --job_type=2 --framework=5 '
                       f"--model={quote(d.name + '.onnx')} --output=tuned --tune_ops_file=tune_ops.json"),
                "Its bank is kept apart from this one, so that each can be judged alone."]
    if "fusion_switch.json" in d.files:
        switched = atc(d, inputs, "grouped", " --fusion_switch_file=fusion_switch.json")
        out += ["## 4. Our grouping (optional)", _shell(switched, _profile("grouped")),
                "It turns off the fusions that make one kernel of what are two here, so that CANN asks for records of the single "
                "operators. It takes something away from CANN, so measure it as a third case, after `after`."]
    return out


def _undo(d: Delivery) -> list[str]:
    names = sorted({name.rsplit("/", 1)[-1] for name in d.files if name.startswith("home/")})
    home = [f"find ~/Ascend -name {quote(name)} -path '*custom*' -print   # what you copied: look, then add -delete" for name in names]
    again = "# then compile again with --op_compiler_cache_mode=force: kernels are cached"
    return ["## Undo", _shell("unset TUNE_BANK_PATH", *home, again)]


def _back(d: Delivery) -> list[str]:
    return ["## What to send back",
            "Both `op_summary_*.csv` (before, after), `deliver.json` of this folder, the version of CANN and of the driver "
            "(`npu-smi info`), and whether the results of the network were the same.",
            _shell("aoec deliver --read op_summary_after.csv --before op_summary_before.csv",
                   f"aoec calibrate --read op_summary_before.csv --target {d.target} -o my.toml")]


def _plain(name: str) -> str:
    """Return a name without what Markdown or a terminal would act on."""
    return "".join(c if c.isalnum() or c in "._- " else "_" for c in name)
