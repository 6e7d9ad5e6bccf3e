"""Ollama's Python client: chats, streams, tools, structured output, images, embeddings, the lists, errors."""

import base64

import ollama
from checks import HTTP, run_all
from pydantic import BaseModel

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
client = ollama.Client(host=f"http://{HTTP}")


def say(text, **more):
    return [{"role": "user", "content": text, **more}]


def get_weather(town: str) -> str:
    """Weather of a town

    Args:
        town: its name
    """
    return f"rain in {town}"


class Person(BaseModel):
    name: str
    age: int


def check_chat():
    """chat(), whole and streamed"""
    assert client.chat(model="agent", messages=say("hello")).message.content == "You said: hello"
    parts = [part.message.content for part in client.chat(model="agent", messages=say("hello"), stream=True)]
    assert len(parts) > 1 and "".join(parts) == "You said: hello", parts


def check_tools():
    """a function as a tool is called, and its result answered"""
    messages = say("weather in Oslo")
    answer = client.chat(model="agent", messages=messages, tools=[get_weather])
    (call,) = answer.message.tool_calls
    messages += [answer.message, {"role": "tool", "content": get_weather(**call.function.arguments), "tool_name": "get_weather"}]
    final = client.chat(model="agent", messages=messages, tools=[get_weather])
    assert final.message.content == "The result is rain in Oslo.", final


def check_format():
    """format with a schema gives an object of it"""
    answer = client.chat(model="agent", messages=say("Who?"), format=Person.model_json_schema())
    assert Person.model_validate_json(answer.message.content) == Person(name="text", age=1), answer


def check_thinking():
    """thinking comes apart from the text"""
    message = client.chat(model="agent", messages=say("think"), think=True).message
    assert (message.thinking, message.content) == ("a thought", "an answer"), message


def check_images():
    """images as bytes and as base64 reach the model"""
    for image in [base64.b64decode(PNG), PNG]:
        answer = client.chat(model="agent", messages=say("this?", images=[image]))
        assert answer.message.content == "I see 1.", answer


def check_generate():
    """generate() with a system prompt, streamed"""
    parts = client.generate(model="agent", prompt="hello", system="Be brief.", stream=True)
    assert "".join(part.response for part in parts) == "You said: hello"


def check_embed():
    """embed() of several texts"""
    vectors = client.embed(model="vectors", input=["abc", "abcd"]).embeddings
    assert [round(vector[0], 4) for vector in vectors] == [0.6, 0.7071], vectors


def check_lists():
    """list(), ps() and show()"""
    for models in [client.list().models, client.ps().models]:
        assert "agent" in [model.model.removesuffix(":latest") for model in models], models
    assert "tools" in client.show("tensorrt_llm").capabilities or client.show("tensorrt_llm").modelinfo


def check_errors():
    """an unknown model is a ResponseError with status 404"""
    try:
        client.chat(model="none", messages=say("x"))
    except ollama.ResponseError as error:
        assert error.status_code == 404, error
    else:
        raise AssertionError("an unknown model answered")


async def check_async():
    """the asynchronous client, streamed"""
    stream = await ollama.AsyncClient(host=f"http://{HTTP}").chat(model="agent", messages=say("hi"), stream=True)
    assert "".join([part.message.content async for part in stream]) == "You said: hi"


run_all(globals())
