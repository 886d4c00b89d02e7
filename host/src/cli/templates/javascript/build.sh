#!/usr/bin/env bash
# Builds @NAME@.wasm with componentize-qjs, in the pinned version, from node_modules in the cache.
set -euo pipefail
cd "$(dirname "$0")"
key=$( (cat package-lock.json; uname -sm) | sha256sum | cut -c1-16)
tools="${CAPMAAS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/capmaas}/componentize/javascript-$key"
if [ ! -e "$tools/complete" ]; then
  echo "fetching componentize-qjs (38 MB)"
  mkdir -p "$tools"
  cp package.json package-lock.json "$tools/"
  npm ci --prefix "$tools" --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null
  touch "$tools/complete"
fi
# --stub-wasi: a policy gets no files, no sockets, no clock.
"$tools/node_modules/.bin/componentize-qjs" --wit wit --world @WORLD@ --js app.js --module-root . \
  --stub-wasi --sync --output @NAME@.wasm > /dev/null
echo "next: capmaas policy check @NAME@.wasm"
