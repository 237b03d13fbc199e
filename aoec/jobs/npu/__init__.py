"""A compiled model on a device: its kernels, their memory and their order; what is measured there; the first steps on a board."""
