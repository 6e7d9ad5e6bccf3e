"""Many large requests at once over HTTP and gRPC, each with data of its own: every answer must be what was sent.

usage: large_answers.py <http port> <grpc port>; prints one JSON line a check.
"""

import concurrent.futures
import json
import queue
import sys
import traceback

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http

ELEMENTS = 262_144
NUM_THREADS = 8
# Together more than the memory for answers holds, so that places must have come back.
REQUESTS_A_THREAD = 40


def inputs_of(library, data):
    tensor = library.InferInput("IN", list(data.shape), "FP32")
    tensor.set_data_from_numpy(data)
    return [tensor]


def data_of(thread: int, number: int):
    return np.full([ELEMENTS + number], thread * 1000 + number, dtype=np.float32)


def ask(library, url: str, thread: int) -> None:
    with library.InferenceServerClient(url) as client:
        for number in range(REQUESTS_A_THREAD):
            data = data_of(thread, number)
            answer = client.infer("identity", inputs_of(library, data)).as_numpy("OUT")
            assert np.array_equal(answer, data), (thread, number, answer[:4], answer.shape)


def ask_stream(url: str, thread: int) -> None:
    answers: queue.SimpleQueue = queue.SimpleQueue()
    with grpc.InferenceServerClient(url) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for first in range(0, REQUESTS_A_THREAD, 4):
            for number in range(first, first + 4):
                client.async_stream_infer("identity", inputs_of(grpc, data_of(thread, number)), request_id=str(number))
            for _ in range(4):
                result, error = answers.get(timeout=30)
                assert error is None, error
                number = int(result.get_response().id)
                assert np.array_equal(result.as_numpy("OUT"), data_of(thread, number)), (thread, number)
        client.stop_stream()


def check(name: str, ask_one) -> None:
    error = None
    try:
        with concurrent.futures.ThreadPoolExecutor(NUM_THREADS) as pool:
            for done in [pool.submit(ask_one, thread) for thread in range(NUM_THREADS)]:
                done.result()
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps({"check": name, "error": error}), flush=True)


http_url, grpc_url = ("127.0.0.1:" + port for port in sys.argv[1:3])
check("HTTP", lambda thread: ask(http, http_url, thread))
check("gRPC", lambda thread: ask(grpc, grpc_url, thread))
check("gRPC stream", lambda thread: ask_stream(grpc_url, thread))
