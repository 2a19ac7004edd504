"""Fuzzing of the decoders: what a peer sends may be refused, and may do nothing else.

`make fuzz SECONDS=60` runs both targets under atheris from the seeds in corpus/. `make test` replays the seeds through
the same checks.
"""
