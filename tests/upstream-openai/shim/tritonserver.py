"""Stands for Triton's in-process Python API: keeps the settings; the test client starts the server."""

import enum


class ModelControlMode(enum.Enum):
    NONE = "none"
    EXPLICIT = "explicit"


class Server:
    def __init__(self, *, model_repository, model_control_mode=ModelControlMode.NONE, startup_models=(), **_log):
        self.model_repository = model_repository
        self.model_control_mode = model_control_mode
        self.startup_models = list(startup_models)

    def start(self, wait_until_ready=True):
        return self

    def stop(self):
        pass
