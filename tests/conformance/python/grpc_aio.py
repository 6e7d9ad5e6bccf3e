"""The asyncio gRPC client."""

import asyncio

import numpy as np
import tritonclient.grpc.aio as client
from tritonclient.utils import InferenceServerException

from checks import GRPC, add_sub_inputs, expect_add_sub, make_input, refused, run_all

CONCURRENT = 100


def connect():
    return client.InferenceServerClient(url=GRPC)


async def check_basics():
    """health, metadata, inference and an error"""
    async with connect() as triton:
        assert await triton.is_server_ready()
        assert (await triton.get_model_metadata("simple")).name == "simple"
        inputs, left, right = add_sub_inputs(client)
        expect_add_sub(await triton.infer("simple", inputs), left, right)
        with refused(InferenceServerException, "StatusCode.NOT_FOUND", "unknown model: 'nope'"):
            await triton.infer("nope", inputs)


async def check_concurrent():
    """100 requests at once, each with its own answer"""
    async with connect() as triton:
        async def one(k):
            values = np.full((1, 16), k, dtype=np.int32)
            inputs = [make_input(client, name, "INT32", values) for name in ("INPUT0", "INPUT1")]
            result = await triton.infer("simple", inputs, request_id=f"n{k}")
            assert result.get_response().id == f"n{k}"
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), values * 2)

        await asyncio.gather(*(one(k) for k in range(CONCURRENT)))


async def check_stream():
    """stream_infer with a decoupled model and an error in the middle"""
    async def requests():
        values = np.array([3, 1, 2], dtype=np.int32)
        yield {"model_name": "repeat", "inputs": [make_input(client, "IN", "INT32", values)], "enable_empty_final_response": True}
        await asyncio.sleep(0.3)
        yield {"model_name": "nope", "inputs": [make_input(client, "IN", "INT32", values)]}

    async with connect() as triton:
        seen = []
        errors = []
        async for result, error in triton.stream_infer(requests()):
            if error is not None:
                errors.append(error.message())
            elif result.as_numpy("OUT") is not None:
                seen.append(int(result.as_numpy("OUT")[0]))
        assert seen == [3, 1, 2], seen
        assert len(errors) == 1 and "unknown model: 'nope'" in errors[0], errors


async def check_stream_cancel():
    """a stream that its reader cancels"""
    async def requests():
        inputs = [
            make_input(client, "IN", "INT32", np.arange(200, dtype=np.int32)),
            make_input(client, "DELAY", "UINT32", np.full(200, 50, dtype=np.uint32)),
        ]
        yield {"model_name": "repeat", "inputs": inputs}
        await asyncio.sleep(30)

    async with connect() as triton:
        stream = triton.stream_infer(requests())
        count = 0
        try:
            async for _, error in stream:
                assert error is None, error
                count += 1
                if count == 3:
                    assert stream.cancel()
        except asyncio.CancelledError:
            pass
        assert 3 <= count < 20, count
        assert await triton.is_server_ready()


async def check_deadline():
    """a deadline that passes"""
    async with connect() as triton:
        inputs = [make_input(client, "INPUT0", "INT32", np.array([5], dtype=np.int32))]
        with refused(InferenceServerException, "StatusCode.DEADLINE_EXCEEDED", "Deadline Exceeded"):
            await triton.infer("slow", inputs, client_timeout=0.1)


async def check_cancelled():
    """a cancelled call leaves a server that answers the next one"""
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
