"""Writes a JSON line for each case that unittest runs to $NEREID_QA_RUNS. Python loads this module at its start."""

import json
import os
import sys
import unittest


def write(case, outcome, reason):
    name, file = case.removeprefix("__main__."), os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "model.py"
    if file == "python3 -m unittest":
        module, _, name = name.partition(".")
        file = f"{module}.py"
    line = json.dumps({"file": file, "name": name, "outcome": outcome, "reason": reason})
    with open(os.environ["NEREID_QA_RUNS"], "a") as runs:
        runs.write(line + "\n")


def last_line(error):
    kind, value, _ = error
    text = " ".join(str(value).split())
    return f"{kind.__name__}: {text}"


def report(result):
    """Wraps the methods of unittest.TestResult by which a runner tells what became of a case."""

    def wrap(method, outcome, reason_of):
        original = getattr(result, method)

        def told(self, test, *rest):
            write(test.id(), outcome, reason_of(*rest))
            return original(self, test, *rest)

        setattr(result, method, told)

    wrap("addSuccess", "passed", lambda: "")
    wrap("addFailure", "failed", last_line)
    wrap("addError", "failed", last_line)
    wrap("addSkip", "skipped", str)
    report_subtests(result)


def report_subtests(result):
    """A case with failed subtests is told of by them alone."""
    original = result.addSubTest

    def told(self, test, subtest, error):
        if error is not None:
            write(test.id(), "failed", f"{subtest._subDescription()} {last_line(error)}")
        return original(self, test, subtest, error)

    result.addSubTest = told


if "NEREID_QA_RUNS" in os.environ:
    report(unittest.TestResult)
