"""Work of one tensor that becomes one node."""
