"""The compiled part of Triton's Python backend under its own name, for models that import it beside `triton_python_backend_utils`.

Source: triton-inference-server/python_backend, pb_stub.cc, `PYBIND11_EMBEDDED_MODULE(c_python_backend_utils)`.
"""

from nereid_stub.control import is_model_ready, load_model, unload_model
from nereid_stub.errors import TritonError, TritonModelException
from nereid_stub.log import Logger, LogLevel
from nereid_stub.metrics import Metric, MetricFamily, MetricKind
from nereid_stub.request import InferenceRequest, InferenceTrace, MemoryType, PreferredMemory, ResponseIterator
from nereid_stub.response import InferenceResponse, InferenceResponseSender
from nereid_stub.tensor import Tensor

TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU
TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU


class SharedMemory:
    """Triton's pool in /dev/shm, which this server does without: nothing of it is ever in use."""

    def free_memory(self) -> int:
        return 1 << 20


shared_memory = SharedMemory()
