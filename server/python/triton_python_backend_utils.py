"""The module that Python models import to talk to the server, under the name that they expect."""

from nereid_stub.control import is_model_ready, load_model, unload_model
from nereid_stub.datatypes import (
    numpy_to_triton_type,
    string_types as _string_types,
    triton_string_to_numpy,
    triton_to_numpy_type,
)
from nereid_stub.errors import TritonError, TritonModelException
from nereid_stub.log import Logger
from nereid_stub.metrics import Metric, MetricFamily
from nereid_stub.model_config import ModelConfig
from nereid_stub.request import (
    RELEASE_ALL as TRITONSERVER_REQUEST_RELEASE_ALL,
    RELEASE_RESCHEDULE as TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
    InferenceRequest,
    InferenceTrace,
    MemoryType,
    PreferredMemory,
    ResponseIterator,
)
from nereid_stub.response import (
    COMPLETE_FINAL as TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    InferenceResponse,
    InferenceResponseSender,
)
from nereid_stub import runtime as _runtime
from nereid_stub.tensor import Tensor, deserialize_bytes_tensor, serialize_byte_tensor

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU
TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU


def _by_name(tensors, name):
    return next((tensor for tensor in tensors if tensor.name() == name), None)


def get_input_tensor_by_name(inference_request, name):
    """The input of that name, or None."""
    return _by_name(inference_request.inputs(), name)


def get_output_tensor_by_name(inference_response, name):
    """The output of that name, or None."""
    return _by_name(inference_response.output_tensors(), name)


def get_input_config_by_name(model_config, name):
    """The properties of an input in a configuration given as dict, or None."""
    return next((entry for entry in model_config.get("input", ()) if entry["name"] == name), None)


def get_output_config_by_name(model_config, name):
    """The properties of an output in a configuration given as dict, or None."""
    return next((entry for entry in model_config.get("output", ()) if entry["name"] == name), None)


def using_decoupled_model_transaction_policy(model_config):
    """Whether a configuration given as dict says that requests get any number of responses."""
    return model_config.get("model_transaction_policy", {}).get("decoupled", False)


def get_model_dir():
    """The folder of this version of the model."""
    return _runtime.stub().version_folder


def __getattr__(name):
    # A table of numpy types: made when asked for, because this module must load without numpy.
    if name == "TRITON_STRING_TO_NUMPY":
        return _string_types()
    raise AttributeError("module 'triton_python_backend_utils' has no attribute '%s'" % name)
