use std::time::Duration;

use anyhow::{Context, Result};
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Calls that run at once; the pool has as many places.
pub(super) const SLOTS: usize = 16;
/// How often running guests are checked against their deadline.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The largest memory a policy may be given.
pub(super) const LARGEST_MEMORY: usize = 256 << 20;

/// The one engine of the process.
#[derive(Clone)]
pub struct Engine {
    pub(super) wasm: wasmtime::Engine,
}

/// Everything that shapes compiled code. The child process that compiles must agree with us here,
/// or its output is refused.
fn base() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.max_wasm_stack(512 << 10);
    config.wasm_memory64(false);
    config.wasm_relaxed_simd(false);
    config.cranelift_nan_canonicalization(true);
    config.wasm_backtrace_max_frames(None);
    config.memory_reservation(RESERVATION);
    config.memory_guard_size(GUARD);
    config
}

const RESERVATION: u64 = 4 << 30;
const GUARD: u64 = 32 << 20;

impl Engine {
    /// An engine with a pool of instances, and a thread that ticks.
    ///
    /// # Errors
    /// When the pool's address space cannot be reserved.
    pub fn new() -> Result<Self> {
        let mut pool = PoolingAllocationConfig::new();
        let slots = SLOTS as u32;
        // A Python guest is made of about a hundred core instances (componentize-py 0.25).
        pool.total_component_instances(slots)
            .total_core_instances(slots * 128)
            .total_memories(slots * 4)
            .total_tables(slots * 16)
            .max_core_instances_per_component(128)
            .max_memories_per_component(4)
            .max_tables_per_component(16)
            .max_component_instance_size(4 << 20)
            .max_core_instance_size(4 << 20)
            .table_elements(20_000)
            .max_memory_size(LARGEST_MEMORY)
            .linear_memory_keep_resident(1 << 20)
            .pagemap_scan(Enabled::Auto);
        let mut config = base();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let wasm = wasmtime::Engine::new(&config)
            .map_err(anyhow::Error::from)
            .context("cannot set up the WebAssembly engine (is address space limited?)")?;
        let ticking = wasm.weak();
        // A thread of its own: a starved runtime must not stop the clock of the guests.
        std::thread::Builder::new()
            .name("policy-clock".into())
            .spawn(move || {
                while let Some(engine) = ticking.upgrade() {
                    engine.increment_epoch();
                    drop(engine);
                    std::thread::sleep(TICK);
                }
            })
            .context("cannot start the policies' clock")?;
        Ok(Self { wasm })
    }

    /// An engine that only compiles: without the pool, whose address space an rlimit would refuse.
    ///
    /// # Errors
    /// When the settings are not supported on this machine.
    pub(super) fn for_compiling() -> Result<wasmtime::Engine> {
        wasmtime::Engine::new(&base()).map_err(anyhow::Error::from)
    }
}
