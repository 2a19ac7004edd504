"""``python -m runnel``: the same as the ``runnel`` command."""

import sys

from runnel.cli.main import main

sys.exit(main())
