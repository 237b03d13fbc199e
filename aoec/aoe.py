"""`python -m aoec.aoe`: AOE's own command line."""
import sys

from aoec.cli import main

if __name__ == "__main__":
    sys.exit(main(["aoe", *sys.argv[1:]]))
