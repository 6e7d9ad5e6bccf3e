"""
Makes a model named libtorch_X and one named plan_X of each model onnx_X: the same ONNX model under the names by which suites
call models of PyTorch and TensorRT. Tensors of libtorch_X have free dimensions, as a TorchScript file declares none.
Arguments: folders of models.
"""

import pathlib
import shutil
import sys

import onnx


def free_dimensions(path):
    model = onnx.load(path)
    for tensor in [*model.graph.input, *model.graph.output]:
        for i, dim in enumerate(tensor.type.tensor_type.shape.dim):
            dim.dim_param = f"{tensor.name}_{i}"
    onnx.save(model, path)


def alias(folder, prefix):
    target = folder.with_name(folder.name.replace("onnx", prefix, 1))
    if target.exists():
        return
    shutil.copytree(folder, target)
    if prefix == "libtorch":
        for path in target.glob("*/model.onnx"):
            free_dimensions(path)
    config = target / "config.pbtxt"
    config.write_text(config.read_text().replace(folder.name, target.name))


for repository in sys.argv[1:]:
    for folder in sorted(pathlib.Path(repository).glob("onnx_*")):
        if (folder / "config.pbtxt").exists():
            alias(folder, "libtorch")
            alias(folder, "plan")
