//! The one constructor of stores. It cannot make one without limits.

use std::time::Duration;

use anyhow::{Result, bail};
use capmaas_api::PolicyLimits;
use capmaas_core::bounded;
use capmaas_core::policy::Refused;
use wasmtime::{PoolConcurrencyLimitError, ResourceLimiter, Store, Trap};

use super::bindings::allocation::capmaas::policy::host::{Host, Level};
use super::bindings::allocation::capmaas::policy::types;
use super::engine::{Engine, LARGEST_MEMORY, TICK};
use super::refused;

/// What one call may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock from instantiation to the answer.
    pub timeout: Duration,
    /// All memories of the instance together, bytes.
    pub memory: usize,
    /// Elements of all tables together.
    pub table_elements: usize,
    /// Bytes that the guest may hand to the host, in the answer and in each log line.
    pub answer: usize,
    /// Log lines.
    pub log_lines: usize,
    /// Bytes of all log lines together.
    pub log_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_millis(250),
            memory: 64 << 20,
            table_elements: 20_000,
            answer: 4 << 20,
            log_lines: 1_000,
            log_bytes: 64 << 10,
        }
    }
}

impl Limits {
    /// What an object says of them, and the usual where it says nothing.
    ///
    /// # Errors
    /// When a limit is malformed or out of range; the text names the field.
    pub fn of(wanted: Option<&PolicyLimits>) -> Result<Self> {
        let usual = Self::default();
        let Some(PolicyLimits { timeout, memory }) = wanted else { return Ok(usual) };
        let timeout = timeout.as_deref().map(duration).transpose()?.unwrap_or(usual.timeout);
        let memory = memory.as_deref().map(mebibytes).transpose()?.unwrap_or(usual.memory);
        Ok(Self { timeout, memory, ..usual })
    }
}

fn duration(text: &str) -> Result<Duration> {
    let millis = number(text, "ms").or_else(|| number(text, "s").and_then(|s| s.checked_mul(1000)));
    match millis {
        Some(millis @ 10..=10_000) => Ok(Duration::from_millis(millis)),
        _ => bail!(
            "spec.limits.timeout {:?} is not between 10ms and 10s (250ms, 2s)",
            bounded(text, 40)
        ),
    }
}

fn mebibytes(text: &str) -> Result<usize> {
    let most = LARGEST_MEMORY >> 20;
    match number(text, "Mi").and_then(|n| usize::try_from(n).ok()) {
        Some(mebibytes) if (1..=most).contains(&mebibytes) => Ok(mebibytes << 20),
        _ => bail!(
            "spec.limits.memory {:?} is not between 1Mi and {most}Mi (64Mi)",
            bounded(text, 40)
        ),
    }
}

/// A number as the CustomResourceDefinition has it: neither a sign nor zeros in front.
fn number(text: &str, unit: &str) -> Option<u64> {
    let digits = text.strip_suffix(unit)?;
    digits.starts_with(|c| matches!(c, '1'..='9')).then(|| digits.parse().ok())?
}

/// What a call has used, and what it wrote.
pub(super) struct CallState {
    limits: Limits,
    memory: usize,
    table_elements: usize,
    over: Option<&'static str>,
    log_lines: usize,
    log_bytes: usize,
    policy: String,
}

impl CallState {
    /// All memories of the instance together, bytes.
    pub(super) fn memory_used(&self) -> usize {
        self.memory
    }
}

/// A store for one call.
pub(super) fn store(engine: &Engine, limits: &Limits, policy: &str) -> Store<CallState> {
    // Exhaustive on purpose: a limit that nobody applies must not compile.
    let Limits { timeout, memory, table_elements: _, answer, log_lines: _, log_bytes: _ } = limits;
    debug_assert!(*memory <= LARGEST_MEMORY);
    let state = CallState {
        limits: limits.clone(),
        memory: 0,
        table_elements: 0,
        over: None,
        log_lines: 0,
        log_bytes: 0,
        policy: policy.to_owned(),
    };
    let mut store = Store::new(&engine.wasm, state);
    store.limiter(|state| state);
    // One more for the tick that is under way.
    let ticks =
        u64::try_from(timeout.as_millis() / TICK.as_millis().max(1)).unwrap_or(u64::MAX / 2);
    store.set_epoch_deadline(ticks.saturating_add(1).min(u64::MAX / 2));
    store.epoch_deadline_trap();
    store.set_hostcall_fuel(*answer);
    store
}

impl ResourceLimiter for CallState {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // Beyond its own maximum a guest gets nothing, and nothing is counted.
        if maximum.is_some_and(|most| desired > most) {
            return Ok(false);
        }
        let total = self.memory.saturating_sub(current).saturating_add(desired);
        if total > self.limits.memory {
            self.over = Some("memory");
            wasmtime::bail!("more than {} MiB of memory", self.limits.memory >> 20);
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|most| desired > most) {
            return Ok(false);
        }
        let total = self.table_elements.saturating_sub(current).saturating_add(desired);
        if total > self.limits.table_elements {
            self.over = Some("memory");
            wasmtime::bail!("more than {} table elements", self.limits.table_elements);
        }
        self.table_elements = total;
        Ok(true)
    }
}

impl types::Host for CallState {}

impl Host for CallState {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.log_lines += 1;
        self.log_bytes += message.len();
        if self.log_lines > self.limits.log_lines || self.log_bytes > self.limits.log_bytes {
            self.over = Some("log");
            wasmtime::bail!("too much logging");
        }
        let text = bounded(&message, 2000);
        let policy = self.policy.as_str();
        match level {
            Level::Debug => tracing::debug!(policy, "{text}"),
            Level::Info => tracing::info!(policy, "{text}"),
            Level::Warn => tracing::warn!(policy, "{text}"),
            Level::Error => tracing::error!(policy, "{text}"),
        }
        Ok(())
    }
}

/// Why a call ended without an answer. Categories come from types, never from texts.
pub(super) fn broken(store: &Store<CallState>, error: &wasmtime::Error) -> Refused {
    let state = store.data();
    if let Some(limit) = state.over {
        return refused(limit, &format!("it went over its limit: {error:#}"));
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return refused("unavailable", "no place for it was free");
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => {
            let millis = state.limits.timeout.as_millis();
            refused("timeout", &format!("it did not answer within {millis} ms"))
        }
        Some(Trap::StackOverflow) => refused("memory", "its stack overflowed"),
        Some(trap) => refused("trap", &trap.to_string()),
        None => refused("bad-answer", &format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_an_object_reaches_the_store() {
        let wanted = PolicyLimits { timeout: Some("2s".into()), memory: Some("8Mi".into()) };
        // Exhaustive on purpose: a field that nobody looks at must not compile.
        let PolicyLimits { timeout: _, memory: _ } = &wanted;
        let limits = Limits::of(Some(&wanted)).unwrap();
        let usual = Limits::default();
        let expected = Limits { timeout: Duration::from_secs(2), memory: 8 << 20, ..usual.clone() };
        assert_eq!(limits, expected);
        assert_eq!(Limits::of(Some(&PolicyLimits::default())).unwrap(), usual);
        let engine = Engine::new().unwrap();
        let mut store = store(&engine, &limits, "p");
        assert_eq!(store.data().limits, expected);
        // And the store holds to it.
        let state = store.data_mut();
        assert!(state.memory_growing(0, 8 << 20, None).unwrap());
        assert!(state.memory_growing(8 << 20, (8 << 20) + 1, None).is_err());
    }

    #[test]
    fn a_limit_out_of_range_is_refused_by_name() {
        let refused = |timeout: Option<&str>, memory: Option<&str>| {
            let text = |t: &str| t.to_owned();
            let limits = PolicyLimits { timeout: timeout.map(text), memory: memory.map(text) };
            Limits::of(Some(&limits)).unwrap_err().to_string()
        };
        for timeout in ["9ms", "11s", "1m", "", "-1s", "+1s", "01s", "999999999999999999s"] {
            assert!(refused(Some(timeout), None).contains("spec.limits.timeout"), "{timeout}");
        }
        for memory in ["0Mi", "257Mi", "64M", "64", "", "+64Mi", "064Mi"] {
            assert!(refused(None, Some(memory)).contains("spec.limits.memory"), "{memory}");
        }
        let long = "9".repeat(10_000);
        assert!(refused(Some(&format!("{long}s")), None).len() < 200);
        assert!(refused(None, Some(&format!("{long}Mi"))).len() < 200);
    }
}
