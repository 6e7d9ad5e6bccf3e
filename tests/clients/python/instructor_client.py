"""Instructor over OpenAI's and Anthropic's clients: every mode, lists, unions, partial objects and iterables."""

from typing import List, Literal, Optional

import anthropic
import instructor
import openai
from checks import HTTP, run_all
from pydantic import BaseModel, Field

QUESTION = [{"role": "user", "content": "Who is there?"}]
ASK = {"model": "agent", "messages": QUESTION, "max_retries": 0}
plain = openai.OpenAI(base_url=f"http://{HTTP}/v1", api_key="none", max_retries=0)


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    age: int = Field(ge=3)


class Person(BaseModel):
    name: str
    rank: Literal["high", "low"]
    pets: List[Pet]
    nick: Optional[str] = None


def expected(person):
    assert (person.name, person.rank, person.pets) == ("text", "high", [Pet(kind="cat", age=3)]), person


def check_modes():
    """tools, strict tools and JSON schema give the object"""
    for mode in [instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA]:
        expected(instructor.from_openai(plain, mode=mode).chat.completions.create(response_model=Person, **ASK))


def check_completion():
    """create_with_completion() gives the raw answer too"""
    client = instructor.from_openai(plain)
    person, raw = client.chat.completions.create_with_completion(response_model=Person, **ASK)
    expected(person)
    assert raw.choices[0].message.tool_calls[0].function.name == "Person", raw


def check_partial():
    """create_partial() fills the object while it streams"""
    client = instructor.from_openai(plain)
    steps = list(client.chat.completions.create_partial(response_model=Person, **ASK))
    assert len(steps) > 1, steps
    expected(steps[-1])


def check_iterable():
    """create_iterable() gives objects from a list"""
    client = instructor.from_openai(plain)
    people = list(client.chat.completions.create_iterable(response_model=Person, **ASK))
    assert len(people) == 1, people
    expected(people[0])


def check_anthropic():
    """the same over Anthropic's client"""
    client = instructor.from_anthropic(anthropic.Anthropic(base_url=f"http://{HTTP}", api_key="none", max_retries=0))
    expected(client.messages.create(response_model=Person, max_tokens=500, **ASK))


async def check_async():
    """the asynchronous client"""
    client = instructor.from_openai(openai.AsyncOpenAI(base_url=f"http://{HTTP}/v1", api_key="none", max_retries=0))
    expected(await client.chat.completions.create(response_model=Person, **ASK))


def check_language_model():
    """a model that knows nothing gives an object of the schema, by its grammar"""
    client = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)
    pet = client.chat.completions.create(response_model=Pet, **{**ASK, "model": "tensorrt_llm"}, temperature=0, max_tokens=100)
    assert pet.kind in ("cat", "dog") and pet.age >= 3, pet


run_all(globals())
