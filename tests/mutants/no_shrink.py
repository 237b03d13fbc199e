"""A pytest plugin: a failing example need not be the smallest, so Hypothesis stops at the first, and draws the same each time."""
from hypothesis import Phase, settings

settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], derandomize=True, deadline=None)
settings.load_profile("mutants")
