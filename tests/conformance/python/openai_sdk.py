"""OpenAI's Python client against /v1: chats, streams, tools, parsed answers, completions, embeddings and errors."""

import asyncio
import json
import re
from typing import Literal

import openai
from checks import HTTP, run_all
from pydantic import BaseModel

URL = f"http://{HTTP}/v1"
LLM = "tensorrt_llm"
QUESTION = [{"role": "user", "content": "What is the first computer?"}]
ANSWER = " The first computer bug was an actual insect that got stuck in the Harvard Mark II computer in 1947."
client = openai.OpenAI(base_url=URL, api_key="none", max_retries=0)
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}
CALL = 'say: <tool_call>{"name": "get_weather", "arguments": {"town": "Oslo"}}</tool_call>'


class Colour(BaseModel):
    red: bool
    name: Literal["ruby", "rust"]


def check_models():
    """models.list() and retrieve() name the text models"""
    ids = [model.id for model in client.models.list()]
    assert LLM in ids and "echo" in ids, ids
    assert client.models.retrieve(LLM).id == LLM


def check_chat():
    """chat.completions.create() answers with usage and finish reason"""
    answer = client.chat.completions.create(model=LLM, messages=QUESTION, temperature=0, max_tokens=50)
    assert answer.choices[0].message.content == ANSWER, answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 27, answer.usage


def check_stream():
    """a stream adds up to the whole answer, and usage comes last"""
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model=LLM, messages=QUESTION, temperature=0, max_tokens=50, stream=True, stream_options=options
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == ANSWER, text
    assert chunks[-1].usage.total_tokens == 37, chunks[-1]


async def check_async():
    """64 chats at once by the asynchronous client"""
    async with openai.AsyncOpenAI(base_url=URL, api_key="none", max_retries=0) as many:
        ask = [
            many.chat.completions.create(model="echo", messages=[{"role": "user", "content": f"say: {i}"}])
            for i in range(64)
        ]
        texts = [answer.choices[0].message.content for answer in await asyncio.gather(*ask)]
    assert texts == [str(i) for i in range(64)], texts


def check_tools():
    """a call becomes a tool call, streamed or not"""
    messages = [{"role": "user", "content": CALL}]
    answer = client.chat.completions.create(model="caller", messages=messages, tools=[TOOL])
    (call,) = answer.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"town": "Oslo"})
    with client.chat.completions.stream(model="caller", messages=messages, tools=[TOOL]) as stream:
        final = stream.get_final_completion()
    (call,) = final.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"town": "Oslo"}, final


def check_responses():
    """responses.create() and stream() answer, keep the conversation, and parse"""
    first = client.responses.create(model=LLM, input=QUESTION[0]["content"], temperature=0)
    assert first.output_text == ANSWER, first
    assert first.usage.output_tokens == 27, first.usage
    assert client.responses.retrieve(first.id).output_text == ANSWER
    second = client.responses.create(model="echo", input="say: more", previous_response_id=first.id)
    items = list(client.responses.input_items.list(second.id, order="asc", limit=2))
    assert [item.role for item in items] == ["user", "assistant", "user"], items
    with client.responses.stream(model="caller", input=CALL, tools=[{**TOOL["function"], "type": "function"}]) as stream:
        final = stream.get_final_response()
    (call,) = final.output
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"town": "Oslo"}), final
    parsed = client.responses.parse(model=LLM, input="Hello", text_format=Colour, max_output_tokens=300, temperature=0)
    assert isinstance(parsed.output_parsed, Colour), parsed


def check_custom_tools():
    """a custom tool's input follows its grammar, in responses and chats"""
    grammar = {"syntax": "regex", "definition": "(left|right) [1-9]"}
    tool = {"type": "custom", "name": "turn", "format": {"type": "grammar", **grammar}}
    chosen = {"type": "custom", "name": "turn"}
    with client.responses.stream(model=LLM, input="Go", tools=[tool], tool_choice=chosen) as stream:
        (item,) = stream.get_final_response().output
    assert item.type == "custom_tool_call" and re.fullmatch(grammar["definition"], item.input), item
    custom = {"name": "turn", "format": {"type": "grammar", "grammar": grammar}}
    answer = client.chat.completions.create(
        model=LLM,
        messages=QUESTION,
        tools=[{"type": "custom", "custom": custom}],
        tool_choice={"type": "custom", "custom": {"name": "turn"}},
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.type == "custom" and re.fullmatch(grammar["definition"], call.custom.input), call


def check_compact():
    """compact() gives items that stand for the conversation"""
    compacted = client.responses.compact(model="echo", input="say: It is README.md.")
    assert [item.type for item in compacted.output] == ["message", "compaction"], compacted
    answer = client.responses.create(model="messages", input=compacted.output)
    assert "Summary of the conversation so far:\\nIt is README.md." in answer.output_text, answer


def check_background():
    """a background response is polled, streamed from an event on, and cancelled"""
    queued = client.responses.create(model="echo", input="say: one two", background=True)
    while client.responses.retrieve(queued.id).status in ("queued", "in_progress"):
        pass
    events = list(client.responses.retrieve(queued.id, stream=True, starting_after=2))
    assert (events[0].sequence_number, events[-1].type) == (3, "response.completed"), events
    slow = client.responses.create(model="slow", input="x", background=True)
    assert client.responses.cancel(slow.id).status == "cancelled"


def check_parse():
    """parse() gives an object of the class that it asked for"""
    answer = client.chat.completions.parse(
        model=LLM, messages=QUESTION, response_format=Colour, seed=3, max_tokens=300, temperature=0
    )
    assert isinstance(answer.choices[0].message.parsed, Colour), answer


def check_completions():
    """completions.create() with echo and log-probabilities"""
    answer = client.completions.create(model=LLM, prompt="a", temperature=0, max_tokens=2, echo=True, logprobs=1)
    assert answer.choices[0].text == "a: There", answer
    assert answer.choices[0].logprobs.tokens == ["<s>", "a", ":", " There"], answer


def check_extra_body():
    """fields of vLLM's clients pass through extra_body"""
    answer = client.chat.completions.create(
        model=LLM, messages=QUESTION, max_tokens=5, extra_body={"top_k": 1, "min_p": 0.1, "ignore_eos": True}
    )
    assert answer.usage.completion_tokens == 5, answer


def check_errors():
    """errors are of the client's own classes"""
    for body, kind, code in [
        ({"model": "none"}, openai.NotFoundError, "model_not_found"),
        ({"temperature": 9}, openai.BadRequestError, "decimal_above_max_value"),
    ]:
        try:
            client.chat.completions.create(**{"model": LLM, "messages": QUESTION, "max_tokens": 2, **body})
        except kind as error:
            assert error.code == code, error
        else:
            raise AssertionError(f"{body} was answered")


run_all(globals())
