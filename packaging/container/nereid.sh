#!/bin/sh
exec /usr/local/bin/node /opt/nereid/node_modules/@nereid/server/bin/nereid.cjs "$@"
