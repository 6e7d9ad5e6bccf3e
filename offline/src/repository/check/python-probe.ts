/** The Python program that parses a model's file without running it. Prints one JSON object. */

export const PYTHON_PROBE = `
import ast, importlib.util, json, os, sys

path = sys.argv[1]
answer = {"version": sys.version.split()[0], "numpy": True, "hasClass": False, "missing": []}

def installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False

def imports(body, certain=True):
    """Imports in try may be missing. Imports in a function matter when it runs; initialize runs at once."""
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")[0], certain
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module:
                yield node.lineno, node.module.split(".")[0], certain
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from imports(node.body, certain and node.name == "initialize")
        elif isinstance(node, (ast.If, ast.For)):
            yield from imports(node.body, False)
        elif isinstance(node, (ast.ClassDef, ast.With)):
            yield from imports(node.body, certain)

answer["numpy"] = installed("numpy")
try:
    with open(path, "rb") as file:
        tree = ast.parse(file.read(), path)
    answer["hasClass"] = any(
        getattr(node, "name", "") == "TritonPythonModel"
        or any((alias.asname or alias.name) == "TritonPythonModel" for alias in getattr(node, "names", []) if hasattr(alias, "name"))
        or any(getattr(target, "id", "") == "TritonPythonModel" for target in getattr(node, "targets", []))
        for node in tree.body
    )
    sys.path.insert(0, os.path.dirname(path))
    sys.path.insert(1, os.path.dirname(os.path.dirname(path)))
    seen = {"triton_python_backend_utils", "c_python_backend_utils", "numpy"}
    for line, module, certain in imports(tree.body):
        if module not in seen and not installed(module):
            answer["missing"].append({"line": line, "module": module, "certain": certain})
        seen.add(module)
except SyntaxError as error:
    answer["error"] = {"line": error.lineno or 1, "message": "no valid Python: " + (error.msg or "")}
except (OSError, ValueError) as error:
    answer["error"] = {"line": 1, "message": str(error)}
print(json.dumps(answer))
`;
