"""The shop in one picture: revenue per window with alerts, and how far visitors get.

In: tables. Out: a PNG. Drawn without a display.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runnel.examples.shop.outcome import Funnel, Revenue
from runnel.examples.shop.rules import PAYMENTS_FAILING, WINDOW_MINUTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WINDOWS_SHOWN = 48
LABELS_SHOWN = 18
INK, PALE, GOOD, BAD = "#22313f", "#d9e2ec", "#2f7ebc", "#d1495b"


def draw(
    path: Path, revenue: Mapping[int, Revenue], funnel: Mapping[int, Funnel], alerts: Collection[tuple[str, str]]
) -> None:
    """Write the picture; a reader of the file never sees half of it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(11, 8), height_ratios=(3, 2), layout="constrained")
    try:
        shown = dict(sorted(revenue.items())[-WINDOWS_SHOWN:])
        _draw_revenue(top, shown, {subject for kind, subject in alerts if kind == PAYMENTS_FAILING})
        _draw_funnel(bottom, [funnel[at] for at in sorted(funnel)[-WINDOWS_SHOWN:]])
        figure.suptitle("The shop, from topics through Spark", color=INK, fontsize=15)
        scratch = path.with_suffix(".tmp.png")
        figure.savefig(scratch, dpi=110)
        scratch.replace(path)
    finally:
        pyplot.close(figure)


def _draw_revenue(axes: Axes, revenue: Mapping[int, Revenue], alarmed: Collection[str]) -> None:
    starts = [datetime.fromtimestamp(at / 1000, UTC) for at in revenue]
    labels = [start.strftime("%H:%M") for start in starts]
    euros = [window.revenue_cents / 100 for window in revenue.values()]
    failing = [start.strftime("%Y-%m-%dT%H:%M") in alarmed for start in starts]
    places = range(len(labels))
    axes.bar(places, euros, color=[BAD if bad else GOOD for bad in failing], width=0.8)
    for place, euro, bad, window in zip(places, euros, failing, revenue.values(), strict=True):
        if bad:
            share = _percent(window.failed, window.captured + window.failed)
            axes.annotate(share, (place, euro), (0, 3), textcoords="offset points", ha="center", color=BAD, fontsize=9)
    every = len(labels) // LABELS_SHOWN + 1
    axes.set_xticks(places[::every], labels[::every])
    axes.set_ylim(0, max(euros, default=1) * 1.2)
    day = f", {starts[-1]:%d %B %Y}" if starts else ""
    title = f"Revenue per {WINDOW_MINUTES} minutes (red: an alert, with the share of payments that failed)"
    _dress(axes, title, f"start of window (UTC{day})", "€ captured")
    axes.grid(axis="y", color=PALE)


def _draw_funnel(axes: Axes, windows: list[Funnel]) -> None:
    totals = Funnel(*(sum(column) for column in zip(*windows, strict=True))) if windows else Funnel(0, 0, 0, 0)
    names = ("visited", "filled a cart", "ordered", "paid")
    bars: Any = axes.barh(names, totals, color=[GOOD, GOOD, GOOD, INK])
    shares = [f" {total:,}  ({_percent(total, totals.visitors)})" for total in totals]
    axes.bar_label(bars, shares, color=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, max(totals.visitors, 1) * 1.15)
    _dress(axes, "From visit to payment", "customers, counted once per window", "")
    axes.grid(axis="x", color=PALE)


def _dress(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title, loc="left", color=INK)
    axes.set_xlabel(across, color=INK)
    axes.set_ylabel(up, color=INK)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"
