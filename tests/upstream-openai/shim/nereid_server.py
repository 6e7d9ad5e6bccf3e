"""Starts Nereid with the settings that NVIDIA's OpenAI front end takes. The environment variable NEREID_SERVER names the program."""

import os
import shlex
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

START_TIMEOUT_S = 120


@dataclass
class Settings:
    """Unset: the server's default."""

    model_repository: str
    port: int
    model_control_mode: str = "none"
    load_models: list = field(default_factory=list)
    restricted_apis: list = field(default_factory=list)


def command(settings: Settings) -> list:
    http, grpc, metrics = (free_port() for _ in range(3))
    flags = [
        f"--model-repository={settings.model_repository}",
        f"--model-control-mode={settings.model_control_mode}",
        f"--openai-port={settings.port}",
        "--openai-frontend=triton",
        f"--http-port={http}",
        f"--grpc-port={grpc}",
        f"--metrics-port={metrics}",
        "--http-address=127.0.0.1",
        "--grpc-address=127.0.0.1",
        "--metrics-address=127.0.0.1",
        *[f"--load-model={name}" for name in settings.load_models],
        *[part for each in settings.restricted_apis for part in ["--openai-restricted-api", *each]],
    ]
    return [*shlex.split(os.environ["NEREID_SERVER"]), *flags]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A server of its own on a free port, ready when this returns."""

    def __init__(self, settings: Settings):
        self.url = f"http://127.0.0.1:{settings.port}"
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(command(settings), stdout=self._log, stderr=subprocess.STDOUT)
        deadline = time.time() + START_TIMEOUT_S
        while not self._is_ready():
            if self._process.poll() is not None or time.time() > deadline:
                self._log.seek(0)
                raise RuntimeError(f"the server did not get ready:\n{self._log.read().decode()}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health/ready") as response:
                return response.status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def stop(self):
        self._process.terminate()
        self._process.wait(60)
        self._log.close()
