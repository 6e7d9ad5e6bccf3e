"""The limit that the tests send bodies at and beyond."""

HTTP_DEFAULT_MAX_INPUT_SIZE = 1 << 26
