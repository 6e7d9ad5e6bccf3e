#!/bin/sh
# Builds pgvector from its sources into a copy of Debian's PostgreSQL, without installing anything:
#
#   git clone https://github.com/pgvector/pgvector
#   tests/vision/build-pgvector.sh pgvector /tmp/postgres-with-pgvector
#   NEREID_POSTGRES_BIN=/tmp/postgres-with-pgvector/usr/lib/postgresql/15/bin npm test
#
# Needs the packages postgresql-15, gcc, and apt-get for the headers, which are only unpacked.
set -eu
sources=$(cd "$1" && pwd)
root=$2
version=${3:-15}
mkdir -p "$root/headers" "$root/usr/lib/postgresql" "$root/usr/share/postgresql"
root=$(cd "$root" && pwd)
(cd "$root/headers" && apt-get download "postgresql-server-dev-$version" && dpkg -x postgresql-server-dev-*.deb .)
cp -a "/usr/lib/postgresql/$version" "$root/usr/lib/postgresql/"
cp -a "/usr/share/postgresql/$version" "$root/usr/share/postgresql/"
include=$root/headers/usr/include/postgresql
gcc -O2 -fPIC -shared -fno-strict-aliasing -fwrapv -I"$include/$version/server" -I"$include/internal" \
  -o "$root/usr/lib/postgresql/$version/lib/vector.so" "$sources"/src/*.c
release=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$sources/vector.control")
extension=$root/usr/share/postgresql/$version/extension
cp "$sources/vector.control" "$extension/"
cp "$sources/sql/vector.sql" "$extension/vector--$release.sql"
echo "pgvector $release: NEREID_POSTGRES_BIN=$root/usr/lib/postgresql/$version/bin"
