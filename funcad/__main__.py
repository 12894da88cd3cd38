"""`python -m funcad`: a short help; `python -m funcad tour` and the other commands are in commands/command_line.py."""

import sys

from funcad.commands.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
