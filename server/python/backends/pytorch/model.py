"""Models of `backend: "pytorch"`: TorchScript in `model.pt`, or a module class in `model.py` with its weights beside it."""

import importlib.util
import json
import os
import re

import numpy as np
import triton_python_backend_utils as pb_utils
from nereid_stub.packages import import_package

#: Parameters that are read.
_USED = {"INTRA_OP_THREAD_COUNT", "INTER_OP_THREAD_COUNT", "NUM_THREADS", "INFERENCE_MODE", "EXECUTION_ENV_PATH"}
_BY_POSITION = re.compile(r"^.*__(\d+)$")


class TritonPythonModel:
    def initialize(self, args):
        self._torch = torch = import_package("torch", "pytorch")
        self._config = json.loads(args["model_config"])
        is_gpu = args["model_instance_kind"] == "GPU" and torch.cuda.is_available()
        self._device = torch.device("cuda:%s" % args["model_instance_device_id"] if is_gpu else "cpu")
        for name, apply in (
            ("INTRA_OP_THREAD_COUNT", torch.set_num_threads),
            ("INTER_OP_THREAD_COUNT", torch.set_num_interop_threads),
            ("NUM_THREADS", torch.set_num_threads),
        ):
            if int(self._parameter(name, "0")) > 0:
                apply(int(self._parameter(name, "0")))
        unused = sorted(set(self._config.get("parameters", {})) - _USED)
        if unused:
            name = self._config.get("name", "")
            pb_utils.Logger.log_info("model '%s': parameters without effect on this engine: %s" % (name, ", ".join(unused)))
        self._guard = torch.inference_mode if self._parameter("INFERENCE_MODE", "true") == "true" else torch.no_grad
        self._module = self._load(pb_utils.get_model_dir())
        self._inputs = self._input_order([entry["name"] for entry in self._config["input"]])
        self._outputs = _output_order(self._config["output"])

    def _parameter(self, name, default):
        return self._config.get("parameters", {}).get(name, {}).get("string_value", default)

    def _load(self, folder):
        torch = self._torch
        named = self._config.get("default_model_filename") or "model.pt"
        weights = os.path.join(folder, named if not named.endswith(".py") else "model.pt")
        source = os.path.join(folder, named if named.endswith(".py") else "model.py")
        if not os.path.isfile(source):
            if not os.path.isfile(weights):
                raise pb_utils.TritonModelException("'%s' does not exist" % weights)
            return torch.jit.load(weights, map_location=self._device).eval()
        module = _module_of(source, torch)
        if os.path.isfile(weights):
            module.load_state_dict(torch.load(weights, map_location=self._device, weights_only=True))
        return module.to(self._device).eval()

    def _input_order(self, names):
        """Names in the order of `forward`: by `<name>__<index>`, by its arguments, or as configured."""
        found = [_BY_POSITION.match(name) for name in names]
        if all(found):
            return sorted(names, key=lambda name: int(_BY_POSITION.match(name).group(1)))
        arguments = self._arguments()
        if all(name in arguments for name in names):
            return sorted(names, key=arguments.index)
        return names

    def _arguments(self):
        if isinstance(self._module, self._torch.jit.ScriptModule):
            return [argument.name for argument in self._module.forward.schema.arguments[1:]]
        code = self._module.forward.__func__.__code__
        return list(code.co_varnames[1 : code.co_argcount])

    def execute(self, requests):
        return [self._run(request) for request in requests]

    def _run(self, request):
        try:
            arguments = []
            for name in self._inputs:
                tensor = pb_utils.get_input_tensor_by_name(request, name)
                arguments.append(self._torch.from_dlpack(tensor).to(self._device))
            with self._guard():
                results = self._module(*arguments)
            return pb_utils.InferenceResponse(self._tensors(results))
        except Exception as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("PyTorch execute failure: %s" % error))

    def _tensors(self, results):
        if isinstance(results, dict):
            found = [(name, results[name]) for name, _position in self._outputs]
        else:
            results = results if isinstance(results, (tuple, list)) else (results,)
            found = [(name, results[position]) for name, position in self._outputs]
        return [self._tensor(name, value) for name, value in found]

    def _tensor(self, name, value):
        if isinstance(value, (list, str)):
            texts = value if isinstance(value, list) else [value]
            return pb_utils.Tensor(name, np.array([text.encode("utf-8") for text in texts], dtype=np.object_))
        return pb_utils.Tensor.from_dlpack(name, value.detach().cpu().contiguous())


def _module_of(path, torch):
    """An instance of the one module class that the file defines."""
    specification = importlib.util.spec_from_file_location("pytorch_model", path)
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    classes = [
        value
        for value in vars(loaded).values()
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == "pytorch_model"
    ]
    if len(classes) != 1:
        raise pb_utils.TritonModelException(
            "'%s' must define exactly one class derived from torch.nn.Module, it defines %d" % (path, len(classes))
        )
    return classes[0]()


def _output_order(outputs):
    """(name, position) of each: by `<name>__<index>`, or as configured."""
    found = [_BY_POSITION.match(entry["name"]) for entry in outputs]
    if all(found):
        return [(entry["name"], int(match.group(1))) for entry, match in zip(outputs, found)]
    return [(entry["name"], position) for position, entry in enumerate(outputs)]
