#!/usr/bin/env bash
# Builds @NAME@.wasm with componentize-py, in the pinned version, from a virtual environment in the cache.
set -euo pipefail
cd "$(dirname "$0")"
key=$( (cat requirements.txt; command -v python3; python3 -VV; uname -sm) | sha256sum | cut -c1-16)
tools="${CAPMAAS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/capmaas}/componentize/python-$key"
if [ ! -e "$tools/complete" ]; then
  echo "fetching componentize-py (46 MB)"
  python3 -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    --require-hashes --requirement requirements.txt
  touch "$tools/complete"
fi
# --stub-wasi: a policy gets no files, no sockets, no clock.
"$tools/bin/componentize-py" --quiet --wit-path wit --world @WORLD@ componentize \
  --stub-wasi --output @NAME@.wasm app
echo "next: capmaas policy check @NAME@.wasm"
