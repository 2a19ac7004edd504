"""`python -m benchmarks.spark decode|rates`."""

from __future__ import annotations

import sys


def main() -> int:
    if sys.argv[1:2] == ["decode"]:
        from benchmarks.spark import decode

        decode.main()
        return 0
    if sys.argv[1:2] == ["rates"]:
        from benchmarks.spark import rates

        rates.main(sys.argv[2:])
        return 0
    print("python -m benchmarks.spark decode|rates [RECORDS]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
