"""Entry point of the process that runs one instance of a Python model; the server starts it with a socket as fd 3."""

import sys

from nereid_stub.runner import main

if __name__ == "__main__":
    # As in an interpreter that is embedded: models that parse a command line find none.
    sys.argv = [""]
    main()
