"""LiteLLM as a client: by its OpenAI, Anthropic and Ollama providers, streams, tools, objects, images, vectors, errors, a router."""

import json

import litellm
from checks import HTTP, run_all
from pydantic import BaseModel

litellm.telemetry = False
litellm.num_retries = 0
BASE = f"http://{HTTP}"
OPENAI = {"model": "openai/agent", "api_base": f"{BASE}/v1", "api_key": "none"}
PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a town",
            "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
        },
    }
]


class Person(BaseModel):
    name: str
    age: int


def say(text):
    return [{"role": "user", "content": text}]


def text_of(stream):
    return "".join(part.choices[0].delta.content or "" for part in stream if part.choices)


def check_completion():
    """completion(), whole and streamed, with counts"""
    answer = litellm.completion(messages=say("hello"), **OPENAI)
    assert answer.choices[0].message.content == "You said: hello", answer
    assert answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0, answer.usage
    stream = list(litellm.completion(messages=say("hello"), stream=True, stream_options={"include_usage": True}, **OPENAI))
    assert text_of(stream) == "You said: hello", stream
    assert any(getattr(part, "usage", None) for part in stream), stream


def check_providers():
    """the same model by the providers of Anthropic, Ollama and hosted vLLM"""
    for model, base in [("anthropic/agent", BASE), ("ollama_chat/agent", BASE), ("hosted_vllm/agent", f"{BASE}/v1")]:
        asked = {"model": model, "api_base": base, "api_key": "none", "max_tokens": 100, "messages": say("hello")}
        assert litellm.completion(**asked).choices[0].message.content == "You said: hello", model
        assert text_of(litellm.completion(stream=True, **asked)) == "You said: hello", model


def check_tools():
    """a call, streamed or not, and its result"""
    messages = say("weather in Oslo")
    message = litellm.completion(messages=messages, tools=TOOLS, **OPENAI).choices[0].message
    (call,) = message.tool_calls
    assert json.loads(call.function.arguments) == {"town": "Oslo"}, call
    parts = list(litellm.completion(messages=messages, tools=TOOLS, stream=True, **OPENAI))
    whole = litellm.stream_chunk_builder(parts)
    assert whole.choices[0].message.tool_calls[0].function.name == "get_weather", whole
    messages += [message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    final = litellm.completion(messages=messages, tools=TOOLS, **OPENAI)
    assert final.choices[0].message.content == "The result is rain.", final


def check_objects():
    """response_format as a model of pydantic"""
    answer = litellm.completion(messages=say("Who?"), response_format=Person, **OPENAI)
    assert Person.model_validate_json(answer.choices[0].message.content) == Person(name="text", age=1), answer


def check_reasoning():
    """reasoning apart from the text"""
    message = litellm.completion(messages=say("think"), **OPENAI).choices[0].message
    assert (message.reasoning_content, message.content) == ("a thought", "an answer"), message


def check_images():
    """an image as a data URL"""
    content = [{"type": "text", "text": "this?"}, {"type": "image_url", "image_url": {"url": PNG}}]
    answer = litellm.completion(messages=[{"role": "user", "content": content}], **OPENAI)
    assert answer.choices[0].message.content == "I see 1.", answer


def check_embedding():
    """embedding()"""
    found = litellm.embedding(input=["abc", "abcd"], **{**OPENAI, "model": "openai/vectors"})
    assert [row["embedding"][0] for row in found.data] == [3, 4], found


def check_text():
    """text_completion()"""
    asked = {**OPENAI, "model": "text-completion-openai/tensorrt_llm"}
    answer = litellm.text_completion(prompt="a", max_tokens=3, temperature=0, **asked)
    assert answer.choices[0].text != "", answer


def check_responses():
    """responses()"""
    answer = litellm.responses(input="hello", **OPENAI)
    assert answer.output[-1].content[0].text == "You said: hello", answer


def check_errors():
    """an unknown model is NotFoundError, a wrong value BadRequestError"""
    for changes, kind in [({"model": "openai/none"}, litellm.NotFoundError), ({"temperature": 9}, litellm.BadRequestError)]:
        try:
            litellm.completion(messages=say("x"), max_retries=0, **{**OPENAI, **changes})
        except kind:
            continue
        raise AssertionError(f"{changes} was accepted")


async def check_async():
    """acompletion(), streamed, through a router"""
    router = litellm.Router(model_list=[{"model_name": "any", "litellm_params": OPENAI}], num_retries=0)
    stream = await router.acompletion(model="any", messages=say("hi"), stream=True)
    assert "".join([part.choices[0].delta.content or "" async for part in stream]) == "You said: hi"


run_all(globals())
