"""`runnel doctor`: says in plain words why a client cannot work with a broker, and what to do."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import click

from runnel.cli.diagnosis import diagnose
from runnel.cli.findings import Finding, show_finding
from runnel.cli.options import bootstrap_options, chosen_bootstrap, chosen_timeout_s, json_option
from runnel.cli.output import counted, print_json

EXIT_FAILED = 1
DIAL_TIMEOUT_S_MAX = 5.0


@click.command()
@click.option("--write", is_flag=True, help="Also send a record through a temporary topic and read it back.")
@json_option
@bootstrap_options
def doctor(write: bool, as_json: bool) -> int:
    """Dial the bootstrap servers and every address that the brokers advertise; check what a client needs.

    Exit code 0: nothing stands in the way. 1: something does.
    """
    bootstrap, timeout_s = chosen_bootstrap(), min(chosen_timeout_s(), DIAL_TIMEOUT_S_MAX)
    findings = asyncio.run(_collect(bootstrap, timeout_s, write=write, show=not as_json))
    failures = sum(finding.status == "failure" for finding in findings)
    warnings = sum(finding.status == "warning" for finding in findings)
    if as_json:
        print_json(
            {
                "bootstrap_server": bootstrap,
                "ok": failures == 0,
                "failures": failures,
                "warnings": warnings,
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        click.echo(_verdict(failures, warnings, write=write))
    return EXIT_FAILED if failures else 0


async def _collect(bootstrap: str, timeout_s: float, *, write: bool, show: bool) -> list[Finding]:
    findings: list[Finding] = []
    async for finding in diagnose(bootstrap, timeout_s=timeout_s, write=write):
        findings.append(finding)
        if show:
            show_finding(finding)
    return findings


def _verdict(failures: int, warnings: int, *, write: bool) -> str:
    if failures:
        return f"{counted(failures, 'problem')} found; the first one is the one to mend first"
    hint = "" if write else "; --write also sends a record through"
    return f"nothing stands in a client's way ({counted(warnings, 'warning')}){hint}"
