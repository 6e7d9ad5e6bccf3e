"""The process side of the Python backend. Model code sees it only through `triton_python_backend_utils`."""
