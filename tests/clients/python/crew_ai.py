"""CrewAI repairs a program by tool calls."""

import os

from checks import HTTP, run_all
from program import Program

os.environ.update({"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"})
from crewai import LLM, Agent, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402

TASK = "The tests of this folder fail. Repair the program."
BASE = {"base_url": f"http://{HTTP}/v1", "api_key": "none"}


def tools(program):
    @tool
    def list_files() -> str:
        """Names of the files of the folder."""
        return program.list_files()

    @tool
    def read_file(path: str) -> str:
        """The text of a file."""
        return program.read_file(path)

    @tool
    def write_file(path: str, content: str) -> str:
        """Replaces the text of a file."""
        return program.write_file(path, content)

    @tool
    def run_tests() -> str:
        """Runs the tests of the folder."""
        return program.run_tests()

    return [list_files, read_file, write_file, run_tests]


def crew_of(model, task, **more):
    agent = Agent(role="coder", goal="Repair programs", backstory="A coder.", llm=LLM(model=f"openai/{model}", **BASE), **more)
    return Crew(agents=[agent], tasks=[Task(description=task, expected_output="An outcome", agent=agent)])


def check_call():
    """the model itself, by its own class"""
    assert LLM(model="openai/coder", **BASE).call("hello").startswith("First I look around."), "another answer"


def check_agent():
    """the task with four tools"""
    program = Program()
    result = crew_of("coder", TASK, tools=tools(program)).kickoff()
    program.expect_repaired()
    assert "All tests pass." in result.raw, result.raw


run_all(globals())
