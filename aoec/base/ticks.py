"""The unit of modelled time, as the timeline counts it (kernels/timeline.py, which imports nothing of aoec, says the same)."""
TICKS_PER_CYCLE = 1024
