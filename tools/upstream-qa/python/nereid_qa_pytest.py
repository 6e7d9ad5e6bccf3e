"""Writes a JSON line for each case that pytest runs to $NEREID_QA_RUNS; pytest loads it by $PYTEST_PLUGINS."""

import json
import os

OUTCOMES = {"passed": "passed", "failed": "failed", "skipped": "skipped"}


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    file, _, name = report.nodeid.partition("::")
    reason = "" if report.outcome == "passed" else " ".join(report.longreprtext.split())[-300:]
    line = {
        "file": os.path.basename(file),
        "name": name.replace("::", "."),
        "outcome": OUTCOMES[report.outcome],
        "reason": reason,
    }
    with open(os.environ["NEREID_QA_RUNS"], "a") as runs:
        runs.write(json.dumps(line) + "\n")
