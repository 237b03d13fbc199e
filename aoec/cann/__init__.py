"""The formats that CANN reads and writes: no search, no job."""
