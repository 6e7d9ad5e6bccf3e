#!/bin/sh
# The server at the path of NVIDIA's image.
exec /usr/local/bin/node /opt/nereid/node_modules/@nereid/server/bin/tritonserver.cjs "$@"
