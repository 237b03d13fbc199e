"""What collectives cost on a system of several devices: data with sources, read from TOML, from hccl_test, or from a topology."""
