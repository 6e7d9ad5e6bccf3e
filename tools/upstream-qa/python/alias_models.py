"""
Makes models named libtorch_X, openvino_X and plan_X of each model onnx_X: the same ONNX model under the names by which suites
call models of PyTorch, OpenVINO and TensorRT. Arguments: the Python model add_sub, then folders of models.
"""

import pathlib
import re
import shutil
import sys

ADD_SUB = sys.argv[1]


def run_by_python(folder):
    """
    L0_decoupled changes the dimensions of this model, which an ONNX file would not follow and a TorchScript file does. Its ensembles
    go by the names of TorchScript's outputs.
    """
    config = folder / "config.pbtxt"
    config.write_text(torch_named(config.read_text().replace('platform: "onnxruntime_onnx"', 'backend: "python"')))
    for path in folder.glob("*/model.onnx"):
        path.unlink()
        path.with_name("model.py").write_text(add_sub_of(int(path.parent.name)))


def add_sub_of(version):
    """As upstream's generator has it, versions above 1 give the difference first."""
    text = pathlib.Path(ADD_SUB).read_text()
    swapped = text if version == 1 else re.sub(r"OUTPUT([01])\b", lambda m: f"OUTPUT{1 - int(m[1])}", text)
    return torch_named(swapped)


def torch_named(text):
    return re.sub(r"OUTPUT([01])\b", r"OUTPUT__\1", text)


def alias(folder, prefix):
    target = folder.with_name(folder.name.replace("onnx", prefix, 1))
    if target.exists():
        return
    shutil.copytree(folder, target)
    config = target / "config.pbtxt"
    config.write_text(config.read_text().replace(folder.name, target.name))
    if target.name == "libtorch_nobatch_int32_int32_int32":
        run_by_python(target)


for repository in sys.argv[2:]:
    for folder in sorted(pathlib.Path(repository).glob("onnx_*")):
        if (folder / "config.pbtxt").exists():
            for prefix in ["libtorch", "openvino", "plan"]:
                alias(folder, prefix)
