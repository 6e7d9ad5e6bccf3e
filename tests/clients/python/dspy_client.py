"""DSPy: predictions, chains of thought, tools and typed output over a model that follows a script, and vectors."""

import dspy
from checks import HTTP, run_all
from pydantic import BaseModel

BASE = f"http://{HTTP}/v1"
LM = {"api_base": BASE, "api_key": "none", "cache": False, "num_retries": 0}
language_model = dspy.LM("openai/agent", **LM)


def check_call():
    """the model itself, by prompt and by messages"""
    assert language_model("hello") == ["You said: hello"]
    assert language_model(messages=[{"role": "user", "content": "hello"}]) == ["You said: hello"]


def check_responses():
    """the model by responses"""
    (answer,) = dspy.LM("openai/agent", model_type="responses", **LM)("hello")
    assert (answer["text"] if isinstance(answer, dict) else answer) == "You said: hello", answer


def check_predict():
    """Predict and ChainOfThought with a schema of the output"""

    class Person(BaseModel):
        reasoning: str
        name: str
        age: int

    person_model = dspy.LM("openai/agent", response_format=Person, **LM)
    with dspy.context(lm=person_model, adapter=dspy.JSONAdapter()):
        answer = dspy.Predict("question -> name: str, age: int")(question="Who?")
        thought = dspy.ChainOfThought("question -> name: str, age: int")(question="Who?")
    assert (answer.name, answer.age) == ("text", 1), answer
    assert (thought.reasoning, thought.age) == ("text", 1), thought


def check_react():
    """ReAct-like tools: a call of the model's own form comes back as a call"""
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}}}]
    (answer,) = language_model("weather in Oslo", tools=tools)
    assert answer["tool_calls"][0]["function"]["name"] == "get_weather", answer


def check_embedder():
    """Embedder gives vectors"""
    vectors = dspy.Embedder("openai/vectors", api_base=BASE, api_key="none", caching=False)(["abc", "abcd"])
    assert vectors[:, 0].tolist() == [3, 4], vectors


run_all(globals())
