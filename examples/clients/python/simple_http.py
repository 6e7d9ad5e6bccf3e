#!/usr/bin/env python3
"""Adds and subtracts two vectors on the server and checks the answer.

    pip install 'tritonclient[http]'
    python3 simple_http.py [-u localhost:8000]
"""

import argparse

import numpy as np
import tritonclient.http as httpclient


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-u", "--url", default="localhost:8000", help="host:port of the HTTP service")
    flags = parser.parse_args()
    left = np.arange(16, dtype=np.int32).reshape(1, 16)
    right = np.full((1, 16), 3, dtype=np.int32)
    inputs = [httpclient.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    inputs[0].set_data_from_numpy(left)
    inputs[1].set_data_from_numpy(right)
    result = httpclient.InferenceServerClient(url=flags.url).infer("simple", inputs)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), left + right)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), left - right)
    print("sum", result.as_numpy("OUTPUT0")[0].tolist())
    print("difference", result.as_numpy("OUTPUT1")[0].tolist())


if __name__ == "__main__":
    main()
