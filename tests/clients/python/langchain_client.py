"""LangChain's ChatOpenAI and OpenAIEmbeddings: answers, streams, batches, tools, structured output, images, both APIs."""

from checks import HTTP, run_all
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SERVER = {"base_url": f"http://{HTTP}/v1", "api_key": "none", "max_retries": 0}
model = ChatOpenAI(model="agent", **SERVER)
responses = ChatOpenAI(model="agent", use_responses_api=True, **SERVER)
language_model = ChatOpenAI(model="tensorrt_llm", temperature=0, max_tokens=8, **SERVER)


@tool
def get_weather(town: str) -> str:
    """Weather of a town"""
    return f"rain in {town}"


class Person(BaseModel):
    name: str
    age: int


def check_invoke():
    """invoke() with a system message, over both APIs"""
    messages = [SystemMessage("Be brief."), HumanMessage("hello")]
    for each in [model, responses]:
        assert each.invoke(messages).text == "You said: hello"


def check_stream():
    """stream() adds up to the whole, with usage"""
    for each in [model, responses]:
        chunks = list(each.stream("hello"))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        assert len(chunks) > 2 and whole.text == "You said: hello", whole
    chunks = list(language_model.stream("Hello", stream_usage=True))
    counts = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
    assert counts[-1]["output_tokens"] == 8, counts


def check_batch():
    """batch() answers each in its place"""
    answers = model.batch([f"number {i}" for i in range(8)])
    assert [answer.text for answer in answers] == [f"You said: number {i}" for i in range(8)]


def check_tools():
    """bound tools are called, at once too, and their results answered"""
    for each in [model, responses]:
        bound = each.bind_tools([get_weather])
        messages = [HumanMessage("weather in Oslo and Rome")]
        first = bound.invoke(messages)
        assert [call["args"] for call in first.tool_calls] == [{"town": "Oslo"}, {"town": "Rome"}], first
        results = [get_weather.invoke(call) for call in first.tool_calls]
        assert all(isinstance(result, ToolMessage) for result in results)
        final = bound.invoke([*messages, first, *results])
        assert final.text == "The result is rain in Oslo and rain in Rome.", final


def check_streamed_tools():
    """the pieces of a streamed call add up"""
    whole = None
    for chunk in model.bind_tools([get_weather]).stream("weather in Oslo"):
        whole = chunk if whole is None else whole + chunk
    assert [call["args"] for call in whole.tool_calls] == [{"town": "Oslo"}], whole


def check_tool_choice():
    """tool_choice any and by name"""
    for choice in ["any", "get_weather"]:
        answer = model.bind_tools([get_weather], tool_choice=choice).invoke("hello")
        assert [call["args"] for call in answer.tool_calls] == [{"town": "text"}], answer


def check_structured():
    """with_structured_output() by every method"""
    for method in ["json_schema", "function_calling"]:
        for each in [model, responses]:
            person = each.with_structured_output(Person, method=method).invoke("Who?")
            assert person == Person(name="text", age=1), (method, person)
    assert model.with_structured_output(None, method="json_mode").invoke("Who? JSON") == {"ok": True}


def check_log_probs():
    """log-probabilities reach the metadata"""
    answer = language_model.bind(logprobs=True, top_logprobs=2).invoke("Hello")
    assert len(answer.response_metadata["logprobs"]["content"]) == 8, answer


def check_image():
    """an image reaches the model, over both APIs"""
    image = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    message = HumanMessage([{"type": "text", "text": "this?"}, image])
    for each in [model, responses]:
        assert each.invoke([message]).text == "I see 1."


def check_completions():
    """the class of completions"""
    text = OpenAI(model="tensorrt_llm", temperature=0, max_tokens=4, **SERVER).invoke("Hello")
    assert text != "", text


def check_embeddings():
    """embed_documents() and embed_query()"""
    embeddings = OpenAIEmbeddings(model="vectors", check_embedding_ctx_length=False, **SERVER)
    assert embeddings.embed_documents(["abc", "a"]) == [[3, 4, 0], [1, 4, 0]]
    assert embeddings.embed_query("ab") == [2, 4, 0]


async def check_async():
    """astream() and ainvoke()"""
    assert (await model.ainvoke("hello")).text == "You said: hello"
    assert "".join([chunk.text async for chunk in model.astream("hi")]) == "You said: hi"


run_all(globals())
