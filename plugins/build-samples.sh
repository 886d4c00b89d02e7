#!/usr/bin/env bash
# Builds the policies in python/ and javascript/ into plugins/dist.
#
# The two compilers come from PyPI and the npm registry, in the versions and with the hashes that are
# committed, and live in the cache beside what they have built: nothing is fetched or built twice.
# With names of policies as arguments, only those are built.
set -euo pipefail
cd "$(dirname "$0")"
cache="${CAPMAAS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/capmaas}/componentize"
say() { echo "plugins: $*" >&2; }
key() { sha256sum | cut -c1-16; }

too_old() {
  say "$1 is needed to build the policies in $2"
  exit 1
}
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2> /dev/null ||
  too_old "Python 3.9 or newer with its venv module (Debian: python3 python3-venv)" plugins/python
node -e 'process.exit(process.versions.node.split(".")[0] < 18 ? 1 : 0)' 2> /dev/null ||
  too_old "Node.js 18 or newer (Debian: nodejs)" plugins/javascript
command -v npm > /dev/null || too_old "npm (Debian: npm)" plugins/javascript

# A virtual environment is bound to its place and its Python; either is a reason for another one.
python_key=$( (cat python/requirements.txt; command -v python3; python3 -VV; uname -sm) | key)
node_key=$( (cat javascript/package-lock.json; uname -sm) | key)
python_tools="$cache/python-$python_key"
node_tools="$cache/javascript-$node_key"
mkdir -p "$cache/built" dist
# Two builds at once must not install into one folder. The lock goes with this shell.
exec 9> "$cache/lock"
flock 9
if [ ! -e "$python_tools/complete" ]; then
  say "fetching the compiler for Python policies (46 MB)"
  rm -rf "$python_tools"
  python3 -m venv "$python_tools"
  "$python_tools/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    --require-hashes --requirement python/requirements.txt
  touch "$python_tools/complete"
fi
if [ ! -e "$node_tools/complete" ]; then
  say "fetching the compiler for JavaScript policies (38 MB)"
  rm -rf "$node_tools"
  mkdir -p "$node_tools"
  cp javascript/package.json javascript/package-lock.json "$node_tools/"
  npm ci --prefix "$node_tools" --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null
  touch "$node_tools/complete"
fi

# The kind of a policy is the beginning of its name.
world() {
  case "$1" in
    allocation-*) echo allocation-policy ;;
    dns-naming-*) echo dns-naming-policy ;;
    failure-*) echo failure-handling-policy ;;
    *) say "$1: a policy's name begins with allocation-, dns-naming- or failure-" && return 1 ;;
  esac
}

build() { # language, name
  local folder="$1/$2" world tools out built
  world=$(world "$2")
  tools=$([ "$1" = python ] && echo "$python_key" || echo "$node_key")
  # Everything that goes into the component, and this script for its options.
  built="$cache/built/$2-$( (
    echo "$tools"
    find ../wit "$folder" "$1" -maxdepth 1 -type f ! -name '*.md' | LC_ALL=C sort | xargs sha256sum
    sha256sum build-samples.sh
  ) | key).wasm"
  if [ ! -e "$built" ]; then
    say "building $2"
    out=$(mktemp "$cache/built/.XXXXXX")
    case "$1" in
      # --stub-wasi: a policy imports nothing but the host's log.
      python)
        "$python_tools/bin/componentize-py" --quiet --wit-path ../wit --world "$world" componentize \
          --stub-wasi --python-path "$folder" --python-path python --output "$out" app
        ;;
      javascript)
        "$node_tools/node_modules/.bin/componentize-qjs" --wit ../wit --world "$world" --js "$folder/app.js" \
          --module-root javascript --stub-wasi --sync --output "$out" > /dev/null
        ;;
    esac
    mv "$out" "$built"
  fi
  touch "$built"
  if ! cmp -s "$built" "dist/$2.wasm"; then cp "$built" "dist/$2.wasm"; fi
}

jobs=()
for app in python/*/app.py javascript/*/app.js; do
  name=$(basename "$(dirname "$app")")
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  # One after another takes twice as long; each is one thread for ten seconds.
  build "${app%%/*}" "$name" &
  jobs+=($!)
  if [ ${#jobs[@]} -ge 4 ]; then wait "${jobs[0]}"; jobs=("${jobs[@]:1}"); fi
done
for job in ${jobs[@]+"${jobs[@]}"}; do wait "$job"; done

# What nobody has asked for in a month is no longer needed.
find "$cache/built" -name '*.wasm' -mtime +30 -delete
find "$cache/built" -name '.??????' -mmin +60 -delete
