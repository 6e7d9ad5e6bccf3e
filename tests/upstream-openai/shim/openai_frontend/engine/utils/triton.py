"""Functions of NVIDIA's front end that its tests call directly. They are no behaviour of a server."""

import pytest


def _parse_lora_configs(*_arguments):
    pytest.skip("calls a Python function of NVIDIA's front end")


def _validate_lora_path_trtllm(*_arguments):
    pytest.skip("calls a Python function of NVIDIA's front end")
