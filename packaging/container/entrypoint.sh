#!/bin/sh
# Runs the scripts that an image built on this one puts into entrypoint.d, then the command: as NVIDIA's entry point.
set -eu
for script in /opt/nvidia/entrypoint.d/*.sh; do
  if [ -r "$script" ]; then . "$script"; fi
done
if [ "$#" -eq 0 ]; then set -- /bin/bash; fi
exec "$@"
