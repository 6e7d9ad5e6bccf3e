"""The asyncio HTTP client."""

import asyncio

import numpy as np
import tritonclient.http.aio as client
from tritonclient.utils import InferenceServerException

from checks import HTTP, add_sub_inputs, expect_add_sub, make_input, refused, run_all

CONCURRENT = 100


def connect():
    return client.InferenceServerClient(url=HTTP, conn_limit=CONCURRENT)


async def check_basics():
    """health, metadata, inference and an error"""
    async with connect() as triton:
        assert await triton.is_server_ready()
        assert await triton.is_model_ready("simple")
        assert (await triton.get_model_metadata("simple"))["name"] == "simple"
        inputs, left, right = add_sub_inputs(client)
        expect_add_sub(await triton.infer("simple", inputs), left, right)
        with refused(InferenceServerException, "404", "unknown model: 'nope'"):
            await triton.infer("nope", inputs)


async def check_concurrent():
    """100 requests at once, each with its own answer"""
    async with connect() as triton:
        async def one(k):
            values = np.full((1, 16), k, dtype=np.int32)
            inputs = [make_input(client, name, "INT32", values) for name in ("INPUT0", "INPUT1")]
            result = await triton.infer("simple", inputs, request_id=f"n{k}")
            assert result.get_response()["id"] == f"n{k}"
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), values * 2)

        await asyncio.gather(*(one(k) for k in range(CONCURRENT)))


async def check_compression():
    """compressed requests and responses"""
    async with connect() as triton:
        for algorithm in ("gzip", "deflate"):
            inputs, left, right = add_sub_inputs(client, rows=8)
            result = await triton.infer(
                "simple", inputs, request_compression_algorithm=algorithm, response_compression_algorithm=algorithm
            )
            expect_add_sub(result, left, right)


async def check_cancelled():
    """a cancelled request leaves a server that answers the next one"""
    async with connect() as triton:
        inputs = [make_input(client, "INPUT0", "INT32", np.array([5], dtype=np.int32))]
        task = asyncio.create_task(triton.infer("slow", inputs))
        await asyncio.sleep(0.1)
        task.cancel()
        try:
            await task
            raise AssertionError("the task was not cancelled")
        except asyncio.CancelledError:
            pass
        assert (await triton.infer("slow", inputs)).as_numpy("OUTPUT0")[0] == 5


run_all(globals())
