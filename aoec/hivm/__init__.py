"""Programs as HIVM text, one way, and what the verifier of a wheel of ascendnpu-ir says of such a text.

`words.toml` says which op an instruction is, what it takes, or why no op carries it. kernel.py writes a module, and verifier.py has it
verified by the vendor's compiler front half. None has ever run on an NPU.
"""
