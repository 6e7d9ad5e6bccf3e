"""Python packages that a backend needs and that do not come with the server."""

import importlib
import sys

from .errors import TritonModelException


def import_package(name: str, backend: str):
    """The package, or an error that says how to install it; the one that is missing may be one that it needs itself."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise TritonModelException(
            "models of backend '%s' need the Python package '%s', which %s does not have: install it with "
            "`%s -m pip install %s`, or name another interpreter with --backend-config=%s,interpreter=<path>"
            % (backend, error.name, sys.executable, sys.executable, name, backend)
        ) from error
