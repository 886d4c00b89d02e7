#!/usr/bin/env bash
# Builds @NAME@.wasm: with rustup's target wasm32-unknown-unknown if it is there, else with Debian's
# rustc-web and rust-web-src. rustup's own wasm-component-ld links, so cargo's output already is a component.
set -euo pipefail
cd "$(dirname "$0")"
unset RUSTC RUSTC_WRAPPER RUSTFLAGS CARGO_BUILD_TARGET CARGO_ENCODED_RUSTFLAGS RUSTC_BOOTSTRAP
target=wasm32-unknown-unknown
sysroot=$(rustc --print sysroot)
host=$(rustc -vV | sed -n 's/^host: //p')
tools="$sysroot/lib/rustlib/$host/bin"
export PATH="$tools:$tools/gcc-ld:$PATH"
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-component-ld
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-C link-arg=-zstack-size=131072 -C link-arg=--initial-memory=1048576"
if [ -d "$sysroot/lib/rustlib/$target" ]; then
  cargo build --release --target "$target"
elif [ -x /usr/bin/rustc ] && compgen -G '/usr/src/rustc-*' > /dev/null; then
  RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 cargo build --release --target "$target" -Zbuild-std=std,panic_abort
else
  echo "No way to compile to $target here. Either: rustup target add $target" >&2
  echo "or, on Debian: apt-get install rustc-web rust-web-src" >&2
  exit 1
fi
file=@NAME@
cp "${CARGO_TARGET_DIR:-target}/$target/release/${file//-/_}.wasm" "$file.wasm"
echo "next: capmaas policy check @NAME@.wasm"
