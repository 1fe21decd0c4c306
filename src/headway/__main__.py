"""`python -m headway`."""

import sys

from headway.cli import main

sys.exit(main())
