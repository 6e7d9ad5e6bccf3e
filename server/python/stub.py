"""Entry point of the process that runs one instance of a Python model; the server starts it with a socket as fd 3."""

from nereid_stub.runner import main

if __name__ == "__main__":
    main()
