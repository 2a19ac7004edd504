"""What is made of Spark's words. The texts are Spark 4.3's; that they still come is seen by the tests of runs."""

from __future__ import annotations

import pytest

from runnel.spark.pipelines.messages import FlowEvent, condition, flow_event, shortened

COLUMN = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `valeu` cannot be resolved."


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ("Run is COMPLETED.", None),
        ("Flow spark_catalog.default.orders is QUEUED.", FlowEvent("spark_catalog.default.orders", "QUEUED")),
        ("Flow spark_catalog.default.orders has COMPLETED.", FlowEvent("spark_catalog.default.orders", "COMPLETED")),
        ("Flow 'large_orders' SKIPPED due to upstream failure(s).", FlowEvent("large_orders", "SKIPPED")),
        (
            "Flow 'a.b.orders' has FAILED more than 2 times and will not be restarted.\n"
            f"Error: {COLUMN} SQLSTATE: 42703",
            FlowEvent("a.b.orders", "FAILED", COLUMN),
        ),
        (
            "Failed to resolve flow: 'a.b.orders'.\n"
            f"Error: {COLUMN} SQLSTATE: 42703; line 2 pos 7;\n'Project ['valeu]\n+- Relation []",
            FlowEvent("a.b.orders", "FAILED", COLUMN),
        ),
        (
            f"Failed to resolve flow due to upstream failure: 'a.b.revenue'.\nError: {COLUMN} SQLSTATE: 42703",
            FlowEvent("a.b.revenue", "SKIPPED"),
        ),
        ("Failed to resolve flow due to upstream failure: 'revenue'.", FlowEvent("revenue", "SKIPPED")),
    ],
)
def test_events_tell_how_a_flow_fares(message: str, event: FlowEvent | None) -> None:
    assert flow_event(message) == event


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("plain words", "plain words"),
        (f"{COLUMN} SQLSTATE: 42703\n\nJVM stacktrace:\norg.apache...", COLUMN),
        (
            "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: Job aborted: "
            'Traceback (most recent call last):\n  File "x.py", line 1\n    int(x)\nValueError: not a number: seven\n'
            "\n\tat org.apache.Spark(Scala.scala:1)\n\tat other(X.scala)\n=== Streaming Query ===\nIdentifier: orders",
            "ValueError: not a number: seven",
        ),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `ordrs` cannot be found. Verify the spelling.\nSearch path: "
            "[`system`.`builtin`].\nIf you did not qualify it, do.\nTo tolerate the error on drop use DROP VIEW IF "
            "EXISTS or DROP TABLE IF EXISTS. SQLSTATE: 42P01; line 1 pos 47;\n'Project [*]",
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `ordrs` cannot be found. Verify the spelling.",
        ),
        (
            "Sorting is not supported on streams;\n~Sort [key#1], true\n+- ~Project [key#1]",
            "Sorting is not supported on streams",
        ),
        ("(org.apache.spark.Graph$Outer) org.apache.spark.Inner: [NOT_FOUND] no schema", "[NOT_FOUND] no schema"),
        ("runnel.spark.errors.OptionError: there is no option 'a'", "there is no option 'a'"),
        (
            'Traceback (most recent call last):\n  File "y.py", line 2\nrunnel.spark.errors.RowError: row 3 of a task',
            "row 3 of a task",
        ),
    ],
)
def test_what_went_wrong_is_left(text: str, short: str) -> None:
    assert shortened(text) == short


def test_conditions_are_read() -> None:
    assert condition(COLUMN) == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert condition("no condition") == ""
