"""`python -m envwright` is the command `envwright`: for launchers that start modules, such as `accelerate launch -m`."""

import sys

from envwright.training.cli import main

if __name__ == "__main__":
    sys.exit(main())
