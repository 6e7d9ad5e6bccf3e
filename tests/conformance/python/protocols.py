"""The blocking clients of both protocols, and the codes that each gives its refusals."""

import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from checks import GRPC, HTTP

PROTOCOLS = {
    "HTTP": (http_client, HTTP, {"missing": "404", "invalid": "400", "taken": "400", "internal": "500"}),
    "gRPC": (
        grpc_client,
        GRPC,
        {
            "missing": "StatusCode.NOT_FOUND",
            "invalid": "StatusCode.INVALID_ARGUMENT",
            "taken": "StatusCode.ALREADY_EXISTS",
            "internal": "StatusCode.INTERNAL",
        },
    ),
}


def on_both(check):
    """Runs a check with each protocol."""

    def run():
        for client, url, codes in PROTOCOLS.values():
            with client.InferenceServerClient(url=url) as triton:
                check(client, triton, codes)

    run.__doc__ = check.__doc__
    return run
