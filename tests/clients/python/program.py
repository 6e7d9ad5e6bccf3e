"""A broken program in a folder of its own, and the tools of an agent that repairs it."""

import pathlib
import subprocess
import sys
import tempfile

BROKEN = 'def add(a, b):\n    """Sum: "a" and \\"b\\"."""\n    return a - b\n'
TESTS = "import unittest\nfrom sum import add\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"


class Program:
    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name)
        (self.path / "sum.py").write_text(BROKEN)
        (self.path / "test_sum.py").write_text(TESTS)
        self.steps = []

    def list_files(self) -> str:
        self.steps.append("list_files")
        return "\n".join(sorted(path.name for path in self.path.glob("*.py")))

    def read_file(self, path: str) -> str:
        self.steps.append("read_file")
        return (self.path / path).read_text()

    def write_file(self, path: str, content: str) -> str:
        self.steps.append("write_file")
        (self.path / path).write_text(content)
        return "written"

    def run_tests(self) -> str:
        self.steps.append("run_tests")
        run = [sys.executable, "-B", "-m", "unittest", "-q"]
        return subprocess.run(run, cwd=self.path, capture_output=True, text=True).stderr

    def expect_repaired(self):
        assert self.steps == ["list_files", "read_file", "write_file", "run_tests"], self.steps
        # Some agents tell the model a text without its last line break.
        assert (self.path / "sum.py").read_text().strip() == BROKEN.replace("a - b", "a + b").strip()
