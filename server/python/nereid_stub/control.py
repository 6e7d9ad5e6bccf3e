"""`pb_utils.load_model` and its companions: what a model may ask of the server's repository."""

from __future__ import annotations

from . import arguments, asking, runtime
from .errors import TritonModelException


def load_model(model_name: str, config: str = "", files=None) -> None:
    """Loads or reloads a model. `files`: contents by name, e.g. {"file:1/model.onnx": b"..."}. Only in explicit mode."""
    model_name = arguments.text("model_name", model_name)
    config = arguments.text("config", config)
    contents = {} if files is None else dict(files)
    for name, data in contents.items():
        if not isinstance(name, str) or not isinstance(data, (bytes, bytearray, memoryview)):
            raise TritonModelException(
                "Expect files to map str to bytes, found %s to %s" % (type(name).__name__, type(data).__name__)
            )

    def write(writer) -> None:
        writer.string(model_name)
        writer.string(config)
        writer.u32(len(contents))
        for name, data in contents.items():
            writer.string(name[5:] if name.startswith("file:") else name)
            writer.data(data)

    runtime.stub().questions.ask(asking.LOAD_MODEL, write)


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    """Asks for a model's unload. Only in explicit mode."""
    model_name = arguments.text("model_name", model_name)

    def write(writer) -> None:
        writer.string(model_name)
        writer.u8(1 if unload_dependents else 0)

    runtime.stub().questions.ask(asking.UNLOAD_MODEL, write)


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether a version of a model takes requests; "" for any."""
    model_name = arguments.text("model_name", model_name)
    model_version = arguments.text("model_version", model_version)

    def write(writer) -> None:
        writer.string(model_name)
        writer.string(model_version)

    return runtime.stub().questions.ask(asking.MODEL_READY, write) != 0
