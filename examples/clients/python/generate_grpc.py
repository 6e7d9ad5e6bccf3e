#!/usr/bin/env python3
"""Sends one prompt to a text model over a gRPC stream and prints the text as it comes.

    pip install 'tritonclient[grpc]'
    python3 generate_grpc.py -p "Once upon a time" -o 64 -S

Works with any model that takes text_input and max_tokens: the ensemble, tensorrt_llm_bls or a Python model. The type of
max_tokens is asked from the server, because repositories made before 2024 declare it as UINT32 and later ones as INT32.
"""

import argparse
import queue
import sys

import numpy as np
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, triton_to_np_dtype


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-u", "--url", default="localhost:8001", help="host:port of the gRPC service")
    parser.add_argument("-m", "--model-name", default="ensemble")
    parser.add_argument("-p", "--prompt", required=True)
    parser.add_argument("-o", "--max-tokens", type=int, default=100)
    parser.add_argument("-t", "--temperature", type=float)
    parser.add_argument("-S", "--streaming", action="store_true", help="one response per token")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds to wait for the next response")
    return parser.parse_args()


def make_input(name, values):
    tensor = grpcclient.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
    tensor.set_data_from_numpy(values)
    return tensor


def make_inputs(flags, declared):
    """Only what the model declares is sent: a request with an unknown input is refused."""
    wanted = {
        "text_input": flags.prompt.encode(),
        "max_tokens": flags.max_tokens,
        "bad_words": b"",
        "stop_words": b"",
        "stream": flags.streaming,
        "temperature": flags.temperature,
    }
    return [
        make_input(name, np.full([1] * len(declared[name].shape), value, triton_to_np_dtype(declared[name].datatype)))
        for name, value in wanted.items()
        if value is not None and name in declared
    ]


def main():
    flags = parse_flags()
    client = grpcclient.InferenceServerClient(url=flags.url)
    metadata = client.get_model_metadata(flags.model_name)
    declared = {tensor.name: tensor for tensor in metadata.inputs}
    answers = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put((result, error)))
    client.async_stream_infer(flags.model_name, make_inputs(flags, declared), enable_empty_final_response=True)
    try:
        while True:
            result, error = answers.get(timeout=flags.timeout)
            if error is not None:
                print(f"error: {error}", file=sys.stderr)
                return 1
            text = result.as_numpy("text_output")
            if text is not None:
                print(text.flatten()[0].decode(), end="", flush=True)
            if result.get_response().parameters["triton_final_response"].bool_param:
                print()
                return 0
    except queue.Empty:
        print(f"no response within {flags.timeout} s", file=sys.stderr)
        return 1
    finally:
        client.stop_stream()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InferenceServerException as error:
        sys.exit(f"error: {error}")
