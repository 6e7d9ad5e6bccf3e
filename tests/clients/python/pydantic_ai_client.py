"""Pydantic AI: agents with tools, typed output by each mode, streams, histories and images, by chats, responses and messages."""

from checks import HTTP, run_all
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

OPENAI = OpenAIProvider(base_url=f"http://{HTTP}/v1", api_key="none")
ANTHROPIC = AnthropicProvider(base_url=f"http://{HTTP}", api_key="none")
CHAT = OpenAIChatModel("agent", provider=OPENAI)
MODELS = [CHAT, OpenAIResponsesModel("agent", provider=OPENAI), AnthropicModel("agent", provider=ANTHROPIC)]


class Person(BaseModel):
    name: str
    age: int


async def check_text():
    """run() answers by each API, with counts"""
    for model in MODELS:
        result = await Agent(model, instructions="Be brief.").run("hello")
        assert result.output == "You said: hello", result
        usage = result.usage() if callable(result.usage) else result.usage
        assert usage.output_tokens > 0, usage


async def check_streams():
    """run_stream() gives the text in parts"""
    for model in MODELS:
        async with Agent(model).run_stream("hello") as stream:
            parts = [part async for part in stream.stream_text(delta=True, debounce_by=None)]
        assert len(parts) > 1 and "".join(parts) == "You said: hello", parts


async def check_tools():
    """a function as a tool is called, and its result answered"""
    for model in MODELS:
        agent = Agent(model)

        @agent.tool_plain
        def get_weather(town: str) -> str:
            """Weather of a town."""
            return f"rain in {town}"

        result = await agent.run("weather in Oslo and Rome")
        assert result.output == "The result is rain in Oslo and rain in Rome.", result.output


async def check_output():
    """typed output by a tool, and by the form of the answer"""
    expected = Person(name="text", age=1)
    for form in [ToolOutput(Person), NativeOutput(Person)]:
        assert (await Agent(CHAT, output_type=form).run("Who?")).output == expected


async def check_history():
    """a conversation goes on, and an image reaches the model"""
    agent = Agent(CHAT)
    first = await agent.run("hello")
    second = await agent.run("again", message_history=first.all_messages())
    assert second.output == "You said: again", second
    seen = await agent.run(["this?", BinaryContent(data=b"\x89PNG", media_type="image/png")])
    assert seen.output == "I see 1.", seen


async def check_thinking():
    """thinking is a part of its own"""
    result = await Agent(CHAT).run("think")
    kinds = [part.part_kind for part in result.all_messages()[-1].parts]
    assert kinds == ["thinking", "text"] and result.output == "an answer", result


async def check_errors():
    """an unknown model is ModelHTTPError 404"""
    try:
        await Agent(OpenAIChatModel("none", provider=OPENAI)).run("x")
    except ModelHTTPError as error:
        assert error.status_code == 404, error
    else:
        raise AssertionError("an unknown model answered")


run_all(globals())
