"""Streams of the blocking gRPC client: decoupled models, many responses, errors inside of a stream, cancellation."""

import queue

import numpy as np
import tritonclient.grpc as client

from checks import GRPC, add_sub_inputs, expect_add_sub, make_input, run_all

WAIT_S = 20


class Stream:
    """start_stream with a queue in place of a callback."""

    def __init__(self, **options):
        self.client = client.InferenceServerClient(url=GRPC)
        self.answers = queue.Queue()
        self.client.start_stream(callback=lambda result, error: self.answers.put((result, error)), **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()

    def send(self, model, inputs, **options):
        self.client.async_stream_infer(model, inputs, **options)

    def next(self):
        result, error = self.answers.get(timeout=WAIT_S)
        assert error is None, error
        return result

    def next_error(self):
        result, error = self.answers.get(timeout=WAIT_S)
        assert error is not None, result.get_response()
        return error


def repeat_inputs(values, delays=None):
    inputs = [make_input(client, "IN", "INT32", np.array(values, dtype=np.int32))]
    if delays is not None:
        inputs.append(make_input(client, "DELAY", "UINT32", np.array(delays, dtype=np.uint32)))
    return inputs


def is_final(result):
    return result.get_response().parameters["triton_final_response"].bool_param


def check_plain_model():
    """one response a request on a stream, in order"""
    with Stream() as stream:
        for k in range(20):
            values = np.full((1, 16), k, dtype=np.int32)
            stream.send("simple", [make_input(client, name, "INT32", values) for name in ("INPUT0", "INPUT1")], request_id=str(k))
        for k in range(20):
            result = stream.next()
            assert result.get_response().id == str(k), (result.get_response().id, k)
            assert int(result.as_numpy("OUTPUT0")[0][0]) == 2 * k


def check_repeat():
    """a decoupled model sends a response per element, in order"""
    with Stream() as stream:
        stream.send("repeat", repeat_inputs([4, 2, 0, 1], [5, 0, 5, 0]), request_id="a")
        for index, value in enumerate([4, 2, 0, 1]):
            result = stream.next()
            assert int(result.as_numpy("OUT")[0]) == value
            assert int(result.as_numpy("IDX")[0]) == index
            assert result.get_response().id == "a"


def check_final():
    """the empty final response comes only when asked for"""
    with Stream() as stream:
        stream.send("repeat", repeat_inputs([7, 8]), enable_empty_final_response=True)
        first, second, last = stream.next(), stream.next(), stream.next()
        assert [is_final(result) for result in (first, second, last)] == [False, False, True]
        assert last.as_numpy("OUT") is None
        stream.send("repeat", repeat_inputs([]), enable_empty_final_response=True)
        assert is_final(stream.next())
        stream.send("repeat", repeat_inputs([9]))
        stream.send("simple", add_sub_inputs(client)[0], enable_empty_final_response=True)
        answers = [stream.next(), stream.next()]
        assert answers[0].as_numpy("OUT") is not None or answers[1].as_numpy("OUT") is not None
        plain = next(result for result in answers if result.as_numpy("OUTPUT0") is not None)
        assert is_final(plain)


def check_square():
    """many responses, none lost"""
    with Stream() as stream:
        stream.send("square", [make_input(client, "IN", "INT32", np.array([500], dtype=np.int32))], enable_empty_final_response=True)
        for _ in range(500):
            assert int(stream.next().as_numpy("OUT")[0]) == 500
        assert is_final(stream.next())


def check_interleaved():
    """requests of one stream overlap and keep their own order"""
    with Stream() as stream:
        for name in ("a", "b", "c"):
            stream.send("repeat", repeat_inputs(list(range(10)), [3] * 10), request_id=name, enable_empty_final_response=True)
        seen = {"a": [], "b": [], "c": []}
        ended = 0
        while ended < len(seen):
            result = stream.next()
            name = result.get_response().id
            if is_final(result):
                ended += 1
            else:
                seen[name].append(int(result.as_numpy("OUT")[0]))
        assert all(values == list(range(10)) for values in seen.values()), seen


def check_errors():
    """an error answers its request and the stream goes on"""
    with Stream() as stream:
        stream.send("nope", repeat_inputs([1]), request_id="bad")
        error = stream.next_error()
        assert "unknown model: 'nope'" in error.message(), error
        inputs, left, right = add_sub_inputs(client)
        stream.send("simple", inputs[:1])
        assert "expected 2 inputs but got 1 inputs" in stream.next_error().message()
        stream.send("simple", inputs)
        expect_add_sub(stream.next(), left, right)


def check_stream_timeout():
    """a stream past its deadline ends with an error, and another stream works"""
    with Stream(stream_timeout=0.3) as stream:
        stream.send("repeat", repeat_inputs(list(range(50)), [100] * 50))
        while True:
            result, error = stream.answers.get(timeout=WAIT_S)
            if error is not None:
                break
        assert "Deadline Exceeded" in error.message(), error
    with Stream() as stream:
        stream.send("repeat", repeat_inputs([1]))
        assert int(stream.next().as_numpy("OUT")[0]) == 1


def check_cancel():
    """cancelling a stream ends its requests"""
    stream = Stream()
    stream.send("repeat", repeat_inputs(list(range(200)), [50] * 200))
    stream.next()
    stream.client.stop_stream(cancel_requests=True)
    seen = []
    while not stream.answers.empty():
        seen.append(stream.answers.get())
    assert len(seen) < 50, "the stream went on"
    assert any(error is not None and "cancelled" in error.message().lower() for _, error in seen), seen
    stream.client.close()


def check_compression():
    """a compressed stream"""
    with Stream(compression_algorithm="gzip") as stream:
        inputs, left, right = add_sub_inputs(client, rows=8)
        stream.send("simple", inputs)
        expect_add_sub(stream.next(), left, right)


def check_large():
    """a response of 8 MiB on a stream"""
    values = np.arange(2 * 1024 * 1024, dtype=np.float32)
    with Stream() as stream:
        stream.send("id_fp32", [make_input(client, "IN", "FP32", values)])
        np.testing.assert_array_equal(stream.next().as_numpy("OUT"), values)


run_all(globals())
