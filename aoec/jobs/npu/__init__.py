"""A compiled model on a device: its kernels, their memory and their order; what is measured there; what a stranger's board is asked first."""
