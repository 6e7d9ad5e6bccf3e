"""A client of a server that runs as long as the client is open, in place of FastAPI's in-process client."""

import httpx
from nereid_server import Process

TIMEOUT_S = 120


class TestClient(httpx.Client):
    __test__ = False  # no test class for pytest

    def __init__(self, app):
        super().__init__(timeout=TIMEOUT_S)
        self._app = app
        self._process = None

    def __enter__(self):
        self._process = Process(self._app)
        self.base_url = self._process.url
        return super().__enter__()

    def __exit__(self, *details):
        super().__exit__(*details)
        self._process.stop()
