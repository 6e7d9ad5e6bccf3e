"""Sequences with numbers and texts as ids, over both protocols and on a stream. `accumulate` adds what a sequence was given."""

import queue

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from checks import GRPC, HTTP, make_input, run_all

CLIENTS = ((httpclient, HTTP), (grpcclient, GRPC))
VALUES = (11, 7, 5, 3)


def inputs_of(module, value):
    return [make_input(module, "INPUT", "INT32", np.array([value], dtype=np.int32).reshape(1, 1))]


def run_sequence(module, triton, model, sequence_id, values=VALUES):
    sums = []
    for k, value in enumerate(values):
        result = triton.infer(
            model, inputs_of(module, value), sequence_id=sequence_id,
            sequence_start=k == 0, sequence_end=k == len(values) - 1,
        )
        sums.append(int(result.as_numpy("OUTPUT").flatten()[0]))
    return sums


def check_numbers():
    """numeric ids: sums grow within a sequence and begin anew with the next"""
    for module, url in CLIENTS:
        with module.InferenceServerClient(url=url) as triton:
            for sequence_id in (1001, 2**62 + 7):
                assert run_sequence(module, triton, "accumulate", sequence_id) == [11, 18, 23, 26]


def check_texts():
    """text ids"""
    for module, url in CLIENTS:
        with module.InferenceServerClient(url=url) as triton:
            sums = run_sequence(module, triton, "accumulate_text", "user-\u00fc-1")
            assert sums[:3] == [11, 18, 23], sums


def check_interleaved():
    """two sequences at a time do not mix"""
    for module, url in CLIENTS:
        with module.InferenceServerClient(url=url) as triton:
            seen = {}
            for k, value in enumerate(VALUES):
                for sequence_id, factor in ((31, 1), (32, 10)):
                    result = triton.infer(
                        "accumulate", inputs_of(module, value * factor), sequence_id=sequence_id,
                        sequence_start=k == 0, sequence_end=k == len(VALUES) - 1,
                    )
                    seen.setdefault(sequence_id, []).append(int(result.as_numpy("OUTPUT").flatten()[0]))
            assert seen == {31: [11, 18, 23, 26], 32: [110, 180, 230, 260]}, seen


def check_stream():
    """sequences on a stream"""
    answers = queue.Queue()
    with grpcclient.InferenceServerClient(url=GRPC) as triton:
        triton.start_stream(callback=lambda result, error: answers.put((result, error)))
        for k, value in enumerate(VALUES):
            triton.async_stream_infer(
                "accumulate", inputs_of(grpcclient, value), sequence_id=77, request_id=str(k),
                sequence_start=k == 0, sequence_end=k == len(VALUES) - 1,
            )
        sums = []
        for _ in VALUES:
            result, error = answers.get(timeout=20)
            assert error is None, error
            sums.append(int(result.as_numpy("OUTPUT").flatten()[0]))
        triton.stop_stream()
    assert sums == [11, 18, 23, 26], sums


def check_rules():
    """a sequence has to begin with its start"""
    for module, url in CLIENTS:
        with module.InferenceServerClient(url=url) as triton:
            try:
                triton.infer("accumulate", inputs_of(module, 1), sequence_id=555)
                raise AssertionError("a sequence without a start was accepted")
            except InferenceServerException as error:
                assert "must specify the START flag on the first request of the sequence" in error.message(), error
            try:
                triton.infer("accumulate", inputs_of(module, 1))
                raise AssertionError("a request without a sequence was accepted")
            except InferenceServerException as error:
                assert "must specify a non-zero or non-empty correlation ID" in error.message(), error


run_all(globals())
