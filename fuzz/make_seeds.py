"""Writes the seed corpus again: honest requests of every API and version, honest batches of every codec.

Run from the repository: `python -m fuzz.make_seeds`. What a fuzzer found is added beside these by hand and kept.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"


def keep(kind: str, name: str, data: bytes) -> None:
    path = CORPUS / kind / f"{name}-{hashlib.sha256(data).hexdigest()[:8]}"
    path.write_bytes(data)


def main() -> None:
    sys.path.insert(0, str(HERE.parent / "tests"))
    from harness.batches import CODECS, encode_batch
    from hostile.frames import every_version, honest_payload

    for api_key, version in every_version():
        keep("frames", f"request-{api_key:02d}-v{version:02d}", b"Q" + honest_payload(api_key, version))
    for codec in CODECS:
        batch = encode_batch([b"value " * 5, None, b""], key=b"key", compression=codec)
        keep("batches", codec, batch)
    keep(
        "batches", "two", encode_batch([b"a"]) + encode_batch([b"b"], producer_id=7, producer_epoch=0, base_sequence=3)
    )


if __name__ == "__main__":
    main()
