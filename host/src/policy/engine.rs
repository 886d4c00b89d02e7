use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use capmaas_core::policy::Refused;
use tokio::sync::Semaphore;
use wasmtime::{Config, Enabled, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::refused;

/// Calls that run at once; the pool has as many places.
const SLOTS: usize = 16;
/// What all guests together may use at once, MiB: with the controller itself it fits into its container.
const MEMORY_MIB: usize = 768;
/// Calls of one policy that run at once. Three policies together leave places free, so one that
/// hangs never keeps the others waiting.
const SHARE: usize = 4;
/// How often running guests are checked against their deadline.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The largest memory a policy may be given.
pub(super) const LARGEST_MEMORY: usize = 256 << 20;

/// The one engine of the process.
#[derive(Clone)]
pub struct Engine {
    pub(super) wasm: wasmtime::Engine,
    /// One for each place of the pool: whoever enters a guest holds one.
    places: Arc<Semaphore>,
    /// Memory that running guests may have together, one permit for each MiB.
    memory: Arc<Semaphore>,
    clock: Arc<Clock>,
}

/// The part of an engine's places that one policy may take.
#[derive(Clone)]
pub(super) struct Share(Arc<Semaphore>);

impl Default for Share {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SHARE)))
    }
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
            // More than compilers make today; what is too much for a call is counted by the call.
            .max_memories_per_module(4)
            .max_tables_per_module(4)
            .max_component_instance_size(4 << 20)
            .max_core_instance_size(4 << 20)
            .table_elements(20_000)
            .max_memory_size(LARGEST_MEMORY)
            .linear_memory_keep_resident(1 << 20)
            .table_keep_resident(64 << 10)
            .pagemap_scan(Enabled::Auto);
        let mut config = base();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let wasm = wasmtime::Engine::new(&config)
            .map_err(anyhow::Error::from)
            .context("cannot set up the WebAssembly engine (is address space limited?)")?;
        let clock = Clock::start(&wasm)?;
        let (places, memory) = (Semaphore::new(SLOTS), Semaphore::new(MEMORY_MIB));
        Ok(Self { wasm, places: Arc::new(places), memory: Arc::new(memory), clock })
    }

    /// Runs what enters a guest that may use so much memory: in a place of the pool, on a thread where it holds up nobody.
    pub(super) async fn enter<T: Send + 'static>(
        &self,
        share: &Share,
        memory: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::result::Result<T, Refused> {
        let stopping = |_| refused("unavailable", "the controller is shutting down");
        // One's own share first: who waits for it must not hold a place.
        let own = share.0.clone().acquire_owned().await.map_err(stopping)?;
        let mib = memory.div_ceil(1 << 20).clamp(1, MEMORY_MIB);
        let mib = u32::try_from(mib).unwrap_or(u32::MAX);
        let memory = self.memory.clone().acquire_many_owned(mib).await.map_err(stopping)?;
        let place = self.places.clone().acquire_owned().await.map_err(stopping)?;
        let clock = self.clock.clone();
        let answer = tokio::task::spawn_blocking(move || {
            let _held = (own, memory, place, Inside::of(&clock));
            work()
        });
        answer.await.map_err(|_| refused("unavailable", "the call broke off"))
    }

    /// The same on this thread, which it may hold up: for benchmarks.
    pub(super) fn enter_here<T>(&self, work: impl FnOnce() -> T) -> T {
        let _inside = Inside::of(&self.clock);
        work()
    }

    /// An engine that only compiles: without the pool, whose address space an rlimit would refuse.
    ///
    /// # Errors
    /// When the settings are not supported on this machine.
    pub(super) fn for_compiling() -> Result<wasmtime::Engine> {
        wasmtime::Engine::new(&base()).map_err(anyhow::Error::from)
    }
}

/// Ticks while anybody is inside a guest, and rests otherwise: a controller with nothing to do must not wake a thousand
/// times a second.
struct Clock {
    inside: Mutex<Insiders>,
    news: Condvar,
}

#[derive(Default)]
struct Insiders {
    count: usize,
    /// The thread waits to be woken.
    clock_rests: bool,
}

/// Somebody is inside a guest, and the clock ticks.
struct Inside(Arc<Clock>);

impl Clock {
    fn start(engine: &wasmtime::Engine) -> Result<Arc<Self>> {
        let clock = Arc::new(Self { inside: Mutex::default(), news: Condvar::new() });
        let (engine, weak) = (engine.weak(), Arc::downgrade(&clock));
        // A thread of its own: a starved runtime must not stop the clock of the guests.
        std::thread::Builder::new()
            .name("policy-clock".into())
            .spawn(move || {
                while let Some(clock) = weak.upgrade() {
                    let ticks = clock.rest();
                    drop(clock);
                    if ticks {
                        tick(&engine, &weak);
                    }
                }
            })
            .context("cannot start the policies' clock")?;
        Ok(clock)
    }

    /// Waits for somebody to be inside, but not for ever: everybody else may have dropped the clock.
    fn rest(&self) -> bool {
        /// How long the thread may outlive its engine.
        const LONGEST: Duration = Duration::from_secs(60);
        let mut inside = self.inside();
        inside.clock_rests = true;
        let waited = self.news.wait_timeout_while(inside, LONGEST, |inside| inside.count == 0);
        let (mut inside, _) = waited.unwrap_or_else(|e| e.into_inner());
        inside.clock_rests = false;
        inside.count > 0
    }

    /// Who is inside.
    fn inside(&self) -> MutexGuard<'_, Insiders> {
        self.inside.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Ticks as time passes, until nobody is inside: a thread that was kept waiting makes up for it, or guests would get more
/// time the busier the machine is.
fn tick(engine: &EngineWeak, clock: &Weak<Clock>) {
    let begun = Instant::now();
    let mut ticked = 0;
    loop {
        std::thread::sleep(TICK);
        let (Some(engine), Some(clock)) = (engine.upgrade(), clock.upgrade()) else { return };
        let due = begun.elapsed().as_millis() / TICK.as_millis();
        while ticked < due {
            engine.increment_epoch();
            ticked += 1;
        }
        if clock.inside().count == 0 {
            return;
        }
    }
}

impl Inside {
    fn of(clock: &Arc<Clock>) -> Self {
        let mut inside = clock.inside();
        inside.count += 1;
        if inside.clock_rests {
            clock.news.notify_one();
        }
        drop(inside);
        Self(clock.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside().count -= 1;
    }
}
