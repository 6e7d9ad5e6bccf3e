"""OpenAI's Agents SDK repairs a program: a handover, four tools in turn, an answer; by chats and by responses, streamed too."""

import openai
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from checks import HTTP, run_all
from program import Program

set_tracing_disabled(True)
TASK = "The tests of this folder fail. Repair the program."


def agents(program, kind):
    """The one that is asked, which hands over to the one with the tools."""
    client = openai.AsyncOpenAI(base_url=f"http://{HTTP}/v1", api_key="none", max_retries=0)
    model = kind(model="coder", openai_client=client)
    settings = ModelSettings(include_usage=True)
    tools = [function_tool(each) for each in [program.list_files, program.read_file, program.write_file, program.run_tests]]
    coder = Agent(name="coder", instructions="Repair programs.", model=model, model_settings=settings, tools=tools)
    return Agent(name="desk", instructions="Hand over.", model=model, model_settings=settings, handoffs=[coder])


def expect_done(program, result):
    program.expect_repaired()
    assert result.final_output == "All tests pass.", result.final_output
    assert result.last_agent.name == "coder", result.last_agent
    assert len(result.raw_responses) == 6, result.raw_responses
    assert result.context_wrapper.usage.output_tokens > 0


async def check_chat():
    """the task by chat completions"""
    program = Program()
    expect_done(program, await Runner.run(agents(program, OpenAIChatCompletionsModel), TASK))


async def check_responses():
    """the task by responses"""
    program = Program()
    expect_done(program, await Runner.run(agents(program, OpenAIResponsesModel), TASK))


async def check_streams():
    """the task by both, streamed"""
    for kind in [OpenAIChatCompletionsModel, OpenAIResponsesModel]:
        program = Program()
        result = Runner.run_streamed(agents(program, kind), TASK)
        kinds = [event.type async for event in result.stream_events()]
        assert "raw_response_event" in kinds, kinds
        expect_done(program, result)


run_all(globals())
