#!/usr/bin/env bash
# Checks for the tools that the build and the tests need. What Debian packages have is installed (as root,
# or through sudo); anything else is named with the way to get it.
set -euo pipefail

missing=()
say() { echo "setup: $*" >&2; }

need() { # command, package
  command -v "$1" > /dev/null || missing+=("$2")
}

command -v cargo > /dev/null || {
  say "cargo is missing: install Rust 1.95 or newer, see https://rustup.rs"
  exit 1
}

need make make
need cc gcc
need setpriv util-linux
need git git
# For the policies in Python and JavaScript.
need python3 python3
need node nodejs
need npm npm
python3 -c 'import venv, ensurepip' 2> /dev/null || missing+=(python3-venv)
need docker-registry docker-registry

if ! cargo fmt --version > /dev/null 2>&1 || ! cargo clippy --version > /dev/null 2>&1; then
  say "note: rustfmt and clippy are missing, which \`make lint\` needs: rustup component add rustfmt clippy"
fi

# To compile policies: rustup's target if it is there, else Debian's compiler for the web.
sysroot=$(rustc --print sysroot)
if [ ! -d "$sysroot/lib/rustlib/wasm32-unknown-unknown" ]; then
  if [ ! -x /usr/bin/rustc ] || ! compgen -G '/usr/src/rustc-*' > /dev/null; then
    if command -v apt-get > /dev/null && { [ "$(id -u)" = 0 ] || command -v sudo > /dev/null; }; then
      missing+=(rustc-web rust-web-src)
    elif ! timeout 60 rustup target add wasm32-unknown-unknown > /dev/null 2>&1; then
      say "no compiler for policies: run \`rustup target add wasm32-unknown-unknown\`"
      exit 1
    fi
  fi
fi

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get > /dev/null; then
    say "please install: ${missing[*]}"
    exit 1
  fi
  say "installing ${missing[*]}"
  sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq > /dev/null
  # Tests start a registry themselves; Debian's package would also start one as a service, on port 5000.
  if [[ " ${missing[*]} " == *" docker-registry "* ]] && command -v systemctl > /dev/null; then
    say "masking the service docker-registry, which nobody needs here"
    "${sudo[@]}" systemctl mask --quiet docker-registry.service || true
  fi
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
fi

if [ -z "${KUBEBUILDER_ASSETS:-}" ] && ! command -v go > /dev/null; then
  say "note: Go 1.26 or newer builds the control plane for tests and demo; without it a cache that was"
  say "      filled before, or KUBEBUILDER_ASSETS for a part of it, will do"
fi
