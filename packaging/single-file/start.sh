#!/bin/sh
# Nereid @VERSION@ for @PLATFORM@ in one file: this text, then an archive with Node.js and all packages. The first start unpacks
# it into a private folder, once its hash is checked; later starts run what is there. NEREID_APP_CACHE names another folder.
set -eu
hash=@HASH@
cache=${NEREID_APP_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/nereid/app}
app=$cache/$hash
fail() {
  echo "nereid: $1" >&2
  exit 1
}
if [ ! -e "$app/complete" ]; then
  umask 077
  mkdir -p "$cache" || fail "cannot write $cache; NEREID_APP_CACHE names another folder"
  new=$(mktemp -d "$cache/.unpack-XXXXXX")
  trap 'rm -rf "$new"' EXIT
  trap 'exit 130' INT TERM HUP
  got=$(tail -c +@OFFSET@ "$0" | sha256sum | cut -d ' ' -f 1)
  [ "$got" = "$hash" ] || fail "$0 is damaged: its archive has the SHA-256 $got, expected $hash"
  tail -c +@OFFSET@ "$0" | tar -xzf - -C "$new" || fail "cannot unpack into $cache"
  : > "$new/complete"
  # Another start may have been faster: its folder holds the same.
  mv -T "$new" "$app" 2>/dev/null || [ -e "$app/complete" ] || fail "cannot rename $new to $app"
  trap - EXIT INT TERM HUP
  rm -rf "$new"
fi
[ -O "$app" ] || fail "$app belongs to another user; NEREID_APP_CACHE names another folder"
case ${0##*/} in
  tritonserver*) program=tritonserver ;;
  *) program=nereid ;;
esac
exec "$app/node" "$app/node_modules/nereid/bin/$program.cjs" "$@"
