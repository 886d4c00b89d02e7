//! The same rule in a component that takes and gives JSON text.

use anyhow::{Context, Result};
use capmaas_core::policy::{AllocationRequest, Candidate};
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

use crate::webhook::Asked;

mod bindings {
    wasmtime::component::bindgen!({ path: "../guests/rank-json/wit", world: "rank-json" });
}

/// A loaded component; each question gets a fresh instance, as a policy does.
pub(crate) struct Guest {
    engine: Engine,
    ready: bindings::RankJsonPre<()>,
}

impl Guest {
    pub(crate) fn load(component: &[u8]) -> Result<Self> {
        let mut config = Config::new();
        let pool = PoolingAllocationConfig::new();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        config.epoch_interruption(true);
        let engine = Engine::new(&config).map_err(anyhow::Error::from)?;
        let component = Component::from_binary(&engine, component).map_err(anyhow::Error::from)?;
        let ready =
            Linker::new(&engine).instantiate_pre(&component).map_err(anyhow::Error::from)?;
        let ready = bindings::RankJsonPre::new(ready).map_err(anyhow::Error::from)?;
        Ok(Self { engine, ready })
    }

    pub(crate) fn rank(
        &self,
        request: &AllocationRequest,
        candidates: &[Candidate],
    ) -> Result<Vec<u32>> {
        let question = serde_json::to_string(&Asked { request, candidates })?;
        let mut store = Store::new(&self.engine, ());
        store.set_epoch_deadline(1);
        let guest = self.ready.instantiate(&mut store).map_err(anyhow::Error::from)?;
        let answer = guest.call_rank(&mut store, &question).map_err(anyhow::Error::from)?;
        serde_json::from_str(&answer).context("its answer is no list of indices")
    }
}
