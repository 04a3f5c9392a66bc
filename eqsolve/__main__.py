"""``python -m eqsolve`` is the command ``eqsolve``."""

import sys

from eqsolve.cli import main

if __name__ == "__main__":
    sys.exit(main())
