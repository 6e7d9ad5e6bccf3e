"""The text that tests expect for a body that is too large; the middleware itself is no behaviour of a server."""

import pytest


class RequestSizeLimitMiddleware:
    def __init__(self, **_settings):
        pytest.skip("calls a Python class of NVIDIA's front end")

    @staticmethod
    def _oversized_request_message(size, limit):
        return (
            f"Request size of {size} bytes exceeds the maximum allowed input size of {limit} bytes. "
            "Use --http-max-input-size to increase the limit."
        )
