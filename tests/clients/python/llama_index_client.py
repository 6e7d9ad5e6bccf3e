"""LlamaIndex's OpenAILike: completions, chats, streams, tools, structured output, embeddings."""

from checks import HTTP, run_all
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike, OpenAILikeResponses
from pydantic import BaseModel

PNG = b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SERVER = {"api_base": f"http://{HTTP}/v1", "api_key": "none", "max_retries": 0}
model = OpenAILike(model="agent", is_chat_model=True, is_function_calling_model=True, context_window=8000, **SERVER)
plain = OpenAILike(model="tensorrt_llm", is_chat_model=False, temperature=0, max_tokens=4, **SERVER)


def get_weather(town: str) -> str:
    """Weather of a town"""
    return f"rain in {town}"


class Person(BaseModel):
    name: str
    age: int


def say(text):
    return [ChatMessage(role="user", content=text)]


def check_chat():
    """chat() and stream_chat()"""
    assert model.chat(say("hello")).message.content == "You said: hello"
    parts = list(model.stream_chat(say("hello")))
    assert len(parts) > 1 and "".join(part.delta for part in parts) == "You said: hello", parts


def check_complete():
    """complete() and stream_complete() of a model of texts"""
    whole = plain.complete("Hello").text
    assert whole != "" and "".join(part.delta for part in plain.stream_complete("Hello")) == whole, whole


def check_responses():
    """the same over /v1/responses"""
    each = OpenAILikeResponses(model="agent", is_chat_model=True, context_window=8000, **SERVER)
    assert each.chat(say("hello")).message.content == "You said: hello"
    assert list(each.stream_chat(say("hello")))[-1].message.content == "You said: hello"


def check_tools():
    """chat_with_tools() and predict_and_call()"""
    tool = FunctionTool.from_defaults(get_weather)
    answer = model.chat_with_tools([tool], user_msg="weather in Oslo and Rome", allow_parallel_tool_calls=True)
    calls = model.get_tool_calls_from_response(answer)
    assert [call.tool_kwargs for call in calls] == [{"town": "Oslo"}, {"town": "Rome"}], answer
    assert model.predict_and_call([tool], user_msg="weather in Oslo").response == "rain in Oslo"


def check_structured():
    """as_structured_llm() gives an object"""
    assert model.as_structured_llm(Person).chat(say("Who?")).raw == Person(name="text", age=1)


def check_image():
    """an image block reaches the model"""
    message = ChatMessage(role="user", blocks=[TextBlock(text="this?"), ImageBlock(image=PNG, image_mimetype="image/png")])
    assert model.chat([message]).message.content == "I see 1."


def check_embeddings():
    """embeddings of a query and of texts"""
    embedding = OpenAILikeEmbedding(model_name="vectors", **SERVER)
    assert embedding.get_text_embedding_batch(["abc", "a"]) == [[3, 4, 0], [1, 4, 0]]
    assert embedding.get_query_embedding("ab") == [2, 4, 0]


async def check_async():
    """achat() and astream_chat()"""
    assert (await model.achat(say("hi"))).message.content == "You said: hi"
    assert "".join([part.delta async for part in await model.astream_chat(say("hi"))]) == "You said: hi"


run_all(globals())
