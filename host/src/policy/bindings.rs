//! Generated from `wit/`, one module a world. These types do not leave this folder.

#![allow(missing_docs, unreachable_pub)]

pub mod allocation {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "allocation-policy",
        imports: { default: trappable },
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}

pub mod dns_naming {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "dns-naming-policy",
        imports: { default: trappable },
        ownership: Borrowing { duplicate_if_necessary: true },
        with: {
            "capmaas:policy/host@0.1.0": super::allocation::capmaas::policy::host,
            "capmaas:policy/types@0.1.0": super::allocation::capmaas::policy::types,
        },
    });
}

pub mod failure_handling {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "failure-handling-policy",
        imports: { default: trappable },
        ownership: Borrowing { duplicate_if_necessary: true },
        with: {
            "capmaas:policy/host@0.1.0": super::allocation::capmaas::policy::host,
            "capmaas:policy/types@0.1.0": super::allocation::capmaas::policy::types,
        },
    });
}
