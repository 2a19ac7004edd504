"""For verbs that need an extra of the package: what the user can mend is told in one line, without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def plain_words(extra: str, *also: type[Exception]) -> Iterator[None]:
    """A missing extra; our own errors, which are written for users (no Java, a project that is none, no table); and
    `also` what else tells of wrong input."""
    try:
        yield
    except ImportError as error:
        raise click.ClickException(f"this verb needs an extra: pip install 'runnel[{extra}]' ({error})") from error
    except (ValueError, RuntimeError, OSError) as error:
        if isinstance(error, also) or type(error).__module__.startswith("runnel."):
            raise click.ClickException(str(error)) from error
        raise
