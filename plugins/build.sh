#!/usr/bin/env bash
# Builds the policy components into plugins/dist.
#
# Two ways, the first that is there: rustup's wasm32-unknown-unknown target; or Debian's rustc-web with
# its library sources (apt-get install rustc-web rust-web-src), driven by rustup's cargo. Either way
# rustup's own wasm-component-ld links, so that cargo's output already is a component.
set -euo pipefail
cd "$(dirname "$0")"
# Nothing of the host workspace's settings may leak in here.
unset RUSTC RUSTC_WRAPPER RUSTFLAGS CARGO_BUILD_TARGET CARGO_ENCODED_RUSTFLAGS RUSTC_BOOTSTRAP
target=wasm32-unknown-unknown
export CARGO_TARGET_DIR="${CAPMAAS_PLUGINS_TARGET_DIR:-$PWD/target}"
sysroot=$(rustc --print sysroot)
host=$(rustc -vV | sed -n 's/^host: //p')
tools="$sysroot/lib/rustlib/$host/bin"
export PATH="$tools:$tools/gcc-ld:$PATH"
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-component-ld
# Panic messages hold source paths; without this the digest would depend on whose machine built it.
remap="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$PWD=/plugins"
# A stack of 128 KiB is plenty, and memory for an ordinary question is there from the start: all of it stays within what the
# host keeps ready for the next call.
link="-C link-arg=-zstack-size=131072 -C link-arg=--initial-memory=1048576"
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="$remap $link"

if [ -d "$sysroot/lib/rustlib/$target" ]; then
  cargo build --locked --release --target "$target" "$@"
elif [ -x /usr/bin/rustc ] && compgen -G '/usr/src/rustc-*' > /dev/null; then
  RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 cargo build --locked --release --target "$target" \
    -Zbuild-std=std,panic_abort "$@"
else
  echo "plugins: no way to compile to $target here." >&2
  echo "Either: rustup target add $target" >&2
  echo "or, on Debian: apt-get install rustc-web rust-web-src" >&2
  exit 1
fi

mkdir -p dist
for component in "$CARGO_TARGET_DIR/$target/release/"*.wasm; do
  name=$(basename "$component" .wasm | tr _ -)
  if ! cmp -s "$component" "dist/$name.wasm"; then cp "$component" "dist/$name.wasm"; fi
done
