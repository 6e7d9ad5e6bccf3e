"""The settings of a server, in place of an application of FastAPI."""

import pytest
from nereid_server import Settings, free_port


class FastApiFrontend:
    def __init__(self, engine, restricted_apis=()):
        if engine is None:
            pytest.skip("reads what NVIDIA's front end prints")
        server = engine.server
        self.app = Settings(
            model_repository=server.model_repository,
            port=free_port(),
            model_control_mode=server.model_control_mode.value,
            load_models=server.startup_models,
        )
