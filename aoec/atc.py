"""`python -m aoec.atc`: ATC's own command line."""
import sys

from aoec.cli import main

if __name__ == "__main__":
    sys.exit(main(["atc", *sys.argv[1:]]))
