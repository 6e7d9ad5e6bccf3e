#!/bin/bash
# Runs a command in a root file system as the image would: read-only, unprivileged, /tmp in memory, a folder at /models.
#   MODELS=<folder> unshare -m tools/container/enter.sh <rootfs> <command> ...
set -euo pipefail
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
mkdir -m 1777 "$root/dev/shm"
for device in null zero random urandom; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount --bind "$MODELS" "$root/models"
variables=()
while IFS= read -r line; do variables+=("$line"); done <<< "${IMAGE_ENV:-PATH=/opt/tritonserver/bin:/opt/nereid/shims:/usr/local/bin:/usr/sbin:/usr/bin}"
exec env -i "${variables[@]}" chroot --userspec=1000:1000 --groups= "$root" "$@"
