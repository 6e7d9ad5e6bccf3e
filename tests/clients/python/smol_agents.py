"""Hugging Face's smolagents repairs a program by tool calls, streamed or not."""

from checks import HTTP, run_all
from program import Program
from smolagents import OpenAIModel, ToolCallingAgent, tool

TASK = "The tests of this folder fail. Repair the program."
model = OpenAIModel(model_id="coder", api_base=f"http://{HTTP}/v1", api_key="none")


def tools(program):
    @tool
    def list_files() -> str:
        """Names of the files of the folder."""
        return program.list_files()

    @tool
    def read_file(path: str) -> str:
        """The text of a file.

        Args:
            path: its name
        """
        return program.read_file(path)

    @tool
    def write_file(path: str, content: str) -> str:
        """Replaces the text of a file.

        Args:
            path: its name
            content: the new text
        """
        return program.write_file(path, content)

    @tool
    def run_tests() -> str:
        """Runs the tests of the folder."""
        return program.run_tests()

    return [list_files, read_file, write_file, run_tests]


def check_agent():
    """the task, whole and streamed"""
    for is_streaming in [False, True]:
        program = Program()
        agent = ToolCallingAgent(tools=tools(program), model=model, stream_outputs=is_streaming, verbosity_level=0, max_steps=8)
        assert agent.run(TASK) == "All tests pass."
        program.expect_repaired()


run_all(globals())
