"""Gradient tuning (GDAT): a training step's trace and a system's costs become a plan of which gradients are sent together."""
