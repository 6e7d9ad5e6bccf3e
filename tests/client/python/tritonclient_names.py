"""Prints the public names of tritonclient as a JSON list: classes with their methods, and functions."""

import inspect
import json

import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory


def routines(owner):
    return sorted(name for name, _ in inspect.getmembers(owner, inspect.isroutine) if not name.startswith("_"))


def parameters(routine):
    return [name for name in inspect.signature(routine).parameters if name != "self"]


names = set()
for module in (tritonclient.http, tritonclient.grpc):
    for name, owner in inspect.getmembers(module, inspect.isclass):
        if not owner.__module__.startswith("tritonclient") or issubclass(owner, Exception):
            continue
        methods = routines(owner)
        names.update(f"{name}.{method}" for method in methods)
        if name == "InferenceServerClient":
            names.update(f"new({parameter})" for parameter in parameters(owner.__init__))
            names.update(f"infer({parameter})" for parameter in parameters(owner.infer))
        if not methods:
            names.add(name)
memory = tritonclient.utils.shared_memory
for name in routines(memory):
    if inspect.getmodule(getattr(memory, name)) is memory:
        names.add(f"shared_memory.{name}")
print(json.dumps(sorted(names)))
