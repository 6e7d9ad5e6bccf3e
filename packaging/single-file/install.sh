#!/bin/sh
# Installs the single file of Nereid for this machine, once its hash is checked:
#   install.sh --from FOLDER|URL [--to DIR]     FOLDER or URL holds nereid-VERSION-linux-ARCH and SHA256SUMS
set -eu
from=
to=${HOME:-}/.local/bin
fail() {
  echo "install.sh: $1" >&2
  exit 1
}
while [ $# -gt 0 ]; do
  case $1 in
    --from) from=${2:-} ;;
    --to) to=${2:-} ;;
    *) fail "expected --from FOLDER|URL or --to DIR, got $1" ;;
  esac
  [ $# -ge 2 ] || fail "$1 needs a value"
  shift 2
done
[ -n "$from" ] || fail "--from is missing: the folder or URL with SHA256SUMS"
[ "$(uname -s)" = Linux ] || fail "there is a file for Linux only, and this is $(uname -s)"
case $(uname -m) in
  x86_64) arch=x64 ;;
  aarch64) arch=arm64 ;;
  *) fail "there are files for x86_64 and aarch64, and this is $(uname -m)" ;;
esac
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
trap 'exit 130' INT TERM HUP
get() {
  case $from in
    http://* | https://*) curl -fsSL --retry 3 -o "$temp/$1" "$from/$1" || fail "cannot download $from/$1" ;;
    *) cp "$from/$1" "$temp/$1" || fail "cannot read $from/$1" ;;
  esac
}
get SHA256SUMS
name=$(awk -v end="-linux-$arch" 'substr($2, length($2) - length(end) + 1) == end { print $2; exit }' "$temp/SHA256SUMS")
[ -n "$name" ] || fail "SHA256SUMS of $from names no file for linux-$arch"
get "$name"
(cd "$temp" && grep " $name\$" SHA256SUMS | sha256sum -c --quiet -) || fail "$from/$name has not the hash of SHA256SUMS; nothing was installed"
mkdir -p "$to"
install -m 755 "$temp/$name" "$to/nereid"
ln -sf nereid "$to/tritonserver"
echo "$to/nereid: $("$to/nereid" version)"
case :$PATH: in
  *:"$to":*) ;;
  *) echo "Next: export PATH=\"$to:\$PATH\"" ;;
esac
