"""The table of accepted differences: no row without a use, and the page that shows it. Runs after the others."""

from __future__ import annotations

import pytest

from differential import test_every_api, test_scripted
from differential.both import Both
from differential.page import PAGE, rendered


@pytest.mark.java
def test_no_row_has_become_idle(both: Both) -> None:
    expected = len(test_every_api.EVERY) + len(test_scripted.PLAYED)
    if len(both.played) < expected:
        pytest.skip(f"only {len(both.played)} of {expected} plays were run")
    assert [row.what for row in both.judge.unused] == [], "no longer different: delete these rows"


def test_the_page_shows_the_table() -> None:
    assert PAGE.read_text() == rendered(), "run `make docs`"
