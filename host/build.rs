//! Says what to run when the built-in policies have not been built. Builds nothing itself.

use std::path::Path;

const COMPONENTS: [&str; 3] =
    ["allocation-default.wasm", "dns-naming-default.wasm", "failure-handling-default.wasm"];

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets the manifest folder");
    let dist = Path::new(&root).join("../plugins/dist");
    for component in COMPONENTS {
        let file = dist.join(component);
        println!("cargo::rerun-if-changed={}", file.display());
        if !file.exists() {
            println!(
                "cargo::error={component} is missing: run `make plugins` (or plugins/build.sh)"
            );
        }
    }
    println!("cargo::rustc-env=CAPMAAS_POLICIES={}", dist.display());
}
