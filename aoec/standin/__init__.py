"""A stand-in for the vendor's compiler and board: Ascend C kernels compiled with g++ and run on the host. It never ran on an NPU."""
