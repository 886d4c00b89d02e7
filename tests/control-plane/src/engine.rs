//! A tokio runtime of our own, so that nothing here depends on the runtime of any one test.

use std::future::Future;
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Handle, Runtime};

/// Owns the runtime.
pub(crate) struct Engine {
    /// Taken only while dropping.
    runtime: Option<Runtime>,
    gear: Gear,
}

impl Engine {
    pub(crate) fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("control-plane")
            .enable_all()
            .build()
            .context("start a tokio runtime")?;
        Ok(Self { gear: Gear(runtime.handle().clone()), runtime: Some(runtime) })
    }

    /// A way in, for those who do not own the runtime.
    pub(crate) fn gear(&self) -> Gear {
        self.gear.clone()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // waiting for tasks is forbidden where a test drops us inside its own runtime
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A handle to the runtime of an [`Engine`].
#[derive(Clone)]
pub(crate) struct Gear(Handle);

impl Gear {
    /// Runs a future over there and waits for it here; unlike `block_on` this is allowed inside another runtime.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (done, result) = channel();
        self.0.spawn(async move {
            let _ = done.send(future.await);
        });
        result.recv().context("the control plane was shut down")?
    }

    /// Starts a task that nobody waits for.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future);
    }
}
