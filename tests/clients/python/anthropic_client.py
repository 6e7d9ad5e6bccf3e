"""Anthropic's Python client: messages, streams, tools and their runner, thinking, images, structured output, counts, errors."""

import anthropic
from anthropic import beta_tool
from checks import HTTP, run_all
from pydantic import BaseModel

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
URL = f"http://{HTTP}"
client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
TOOL = {
    "name": "get_weather",
    "description": "Weather of a town",
    "input_schema": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
}


def ask(text, **more):
    return {"model": "agent", "max_tokens": 500, "messages": [{"role": "user", "content": text}], **more}


class Person(BaseModel):
    name: str
    age: int


def check_create():
    """messages.create() answers with a text, a reason and counts"""
    message = client.messages.create(**ask("hello", system="Be brief."))
    assert message.content[0].text == "You said: hello", message
    assert (message.stop_reason, message.role) == ("end_turn", "assistant"), message


def check_stream():
    """messages.stream() gives the text in pieces, and the whole message"""
    with client.messages.stream(**ask("hello there")) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(pieces) > 1 and "".join(pieces) == final.content[0].text == "You said: hello there", pieces


def check_tools():
    """a tool is called, and its result answered; two calls at once too"""
    first = client.messages.create(**ask("weather in Oslo and Rome", tools=[TOOL]))
    calls = [block for block in first.content if block.type == "tool_use"]
    assert [call.input for call in calls] == [{"town": "Oslo"}, {"town": "Rome"}], first
    assert first.stop_reason == "tool_use", first
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": f"rain {call.input['town']}"} for call in calls]
    messages = [*ask("weather in Oslo and Rome")["messages"], {"role": "assistant", "content": first.content}]
    messages.append({"role": "user", "content": results})
    second = client.messages.create(**{**ask(""), "messages": messages, "tools": [TOOL]})
    assert second.content[0].text == "The result is rain Oslo and rain Rome.", second


def check_streamed_tools():
    """a streamed call has the input of the whole one"""
    with client.messages.stream(**ask("weather in Oslo", tools=[TOOL])) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert "input_json" in kinds, kinds
    assert final.content[0].input == {"town": "Oslo"}, final


def check_tool_choice():
    """tool_choice any and tool"""
    for choice in [{"type": "any"}, {"type": "tool", "name": "get_weather"}]:
        message = client.messages.create(**ask("hello", tools=[TOOL], tool_choice=choice))
        assert message.content[0].input == {"town": "text"} and message.stop_reason == "tool_use", message


def check_tool_runner():
    """beta.messages.tool_runner() calls functions until the model is done"""

    @beta_tool
    def get_weather(town: str) -> str:
        """Weather of a town.

        Args:
            town: its name
        """
        return f"rain in {town}"

    runner = client.beta.messages.tool_runner(**ask("weather in Oslo", tools=[get_weather]))
    final = runner.until_done()
    assert final.content[0].text == "The result is rain in Oslo.", final


def check_parse():
    """messages.parse() gives an object of the class that it asked for"""
    message = client.messages.parse(**ask("Who?", output_format=Person))
    assert message.parsed_output == Person(name="text", age=1), message


def check_thinking():
    """thinking comes in a block of its own"""
    message = client.messages.create(**ask("think", max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}))
    assert [block.type for block in message.content] == ["thinking", "text"], message
    assert message.content[0].thinking == "a thought", message


def check_image():
    """an image block reaches the model"""
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    message = client.messages.create(**ask([{"type": "image", "source": source}, {"type": "text", "text": "this?"}]))
    assert message.content[0].text == "I see 1.", message


def check_counts_and_models():
    """count_tokens() and models.list()"""
    llm = {"model": "tensorrt_llm", "messages": [{"role": "user", "content": "Hello"}]}
    assert client.messages.count_tokens(**llm).input_tokens == 6
    assert "agent" in [model.id for model in client.models.list()]
    assert client.models.retrieve("agent").display_name == "agent"


def check_errors():
    """errors are of the client's own classes"""
    for body, kind in [
        ({"model": "none"}, anthropic.NotFoundError),
        ({"max_tokens": 0}, anthropic.BadRequestError),
        ({"messages": [{"role": "robot", "content": "x"}]}, anthropic.BadRequestError),
    ]:
        try:
            client.messages.create(**{**ask("x"), **body})
        except kind as error:
            assert error.body["type"] == "error", error
        else:
            raise AssertionError(f"{body} was answered")


async def check_async():
    """the asynchronous client, streamed"""
    async with anthropic.AsyncAnthropic(base_url=URL, api_key="none", max_retries=0) as many:
        async with many.messages.stream(**ask("again")) as stream:
            assert await stream.get_final_text() == "You said: again"


run_all(globals())
