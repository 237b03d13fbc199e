"""`python -m aoec` is `aoec`."""
import sys

from aoec.cli import main

sys.exit(main())
