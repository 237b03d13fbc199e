"""The commands of `aoec`, a file each: its options, and what it does. Imports of jobs stand in functions, so that a command loads
only what it uses."""
