use anyhow::{Context, Result};
use capmaas_api::Condition;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use maas_sim::{Call, MachineView};

use crate::stage::{Stage, eventually};

/// Looking: at objects, at MAAS, at its book of calls.
impl Stage<'_> {
    /// A condition of a MaasMachine.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn condition(&self, machine: &str, kind: &str) -> Result<Option<Condition>> {
        let object = self.machines().get_opt(machine).await?;
        let conditions = object.and_then(|m| m.status).and_then(|s| s.conditions);
        Ok(conditions.unwrap_or_default().into_iter().find(|c| c.kind == kind))
    }

    /// Waits until a condition has a reason, and returns its message.
    ///
    /// # Errors
    /// When it does not come; the text shows what there was.
    pub async fn reason(&self, machine: &str, kind: &str, reason: &str) -> Result<String> {
        let mut last = String::new();
        let found = eventually(&format!("{machine}: {kind} {reason}"), 40, async || {
            let condition = self.condition(machine, kind).await?;
            last = format!("{condition:?}");
            Ok(condition.filter(|c| c.reason.as_deref() == Some(reason)))
        })
        .await;
        let condition = found.with_context(|| format!("last seen: {last}{}", self.story()))?;
        Ok(condition.message.unwrap_or_default())
    }

    /// Waits until a MaasMachine is provisioned and returns its host as MAAS shows it.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn provisioned(&self, machine: &str) -> Result<MachineView> {
        self.reason(machine, "MachineDeployed", "MachineDeployed").await?;
        self.host(machine).await?.context("a provisioned machine has a host")
    }

    /// The host that a MaasMachine names, as MAAS shows it.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn host(&self, machine: &str) -> Result<Option<MachineView>> {
        let object = self.machines().get_opt(machine).await?;
        let id = object.and_then(|m| m.spec.provider_id);
        Ok(id.and_then(|id| self.maas.machine(id.rsplit('/').next().unwrap_or_default())))
    }

    /// Machines in MAAS that our user owns.
    pub fn held(&self) -> Vec<MachineView> {
        let ours = |m: &MachineView| m.owner.as_deref() == Some("admin");
        self.maas.machines().into_iter().filter(ours).collect()
    }

    /// Reasons and notes of the events of an object, in order.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn events(&self, object: &str) -> Result<Vec<(String, String)>> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut list = api.list(&ListParams::default()).await?.items;
        list.retain(|e| e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(object));
        list.sort_by_key(|e| e.event_time.as_ref().map(|t| t.0));
        Ok(list
            .into_iter()
            .map(|e| (e.reason.unwrap_or_default(), e.note.unwrap_or_default()))
            .collect())
    }

    /// Waits until an object of ours is gone.
    ///
    /// # Errors
    /// When it stays.
    pub async fn gone(&self, machine: &str) -> Result<()> {
        eventually(&format!("{machine} is gone"), 60, async || {
            Ok(self.machines().get_opt(machine).await?.is_none().then_some(()))
        })
        .await
        .with_context(|| self.story())
    }

    pub(crate) fn story(&self) -> String {
        let log = self.controller.log();
        let tail: Vec<&str> = log.lines().rev().take(12).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        format!("\ncontroller:\n{}", tail.join("\n"))
    }

    /// Names of the MaasMachines.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn machine_names(&self) -> Result<Vec<String>> {
        let list = self.machines().list(&ListParams::default()).await?;
        Ok(list.items.iter().map(ResourceExt::name_any).collect())
    }

    /// A condition of a MaasCluster.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn cluster_condition(&self, cluster: &str, kind: &str) -> Result<Option<Condition>> {
        let object = self.clusters().get_opt(cluster).await?;
        let conditions = object.and_then(|c| c.status).and_then(|s| s.conditions);
        Ok(conditions.unwrap_or_default().into_iter().find(|c| c.kind == kind))
    }

    /// Waits until a condition of a MaasCluster has a reason, and returns its message.
    ///
    /// # Errors
    /// When it does not come; the text shows what there was.
    pub async fn cluster_reason(&self, cluster: &str, kind: &str, reason: &str) -> Result<String> {
        let mut last = String::new();
        let found = eventually(&format!("{cluster}: {kind} {reason}"), 60, async || {
            let condition = self.cluster_condition(cluster, kind).await?;
            last = format!("{condition:?}");
            Ok(condition.filter(|c| c.reason.as_deref() == Some(reason)))
        })
        .await;
        let condition = found.with_context(|| format!("last seen: {last}{}", self.story()))?;
        Ok(condition.message.unwrap_or_default())
    }

    /// Calls of one operation (`allocate`, `deploy`…) that reached MAAS, in order.
    pub fn calls(&self, op: &str) -> Vec<Call> {
        self.maas.calls().into_iter().filter(|c| c.op.as_deref() == Some(op)).collect()
    }

    /// Calls that would change something in MAAS, in order.
    pub fn writes(&self) -> Vec<Call> {
        self.maas.calls().into_iter().filter(|c| c.method != "GET").collect()
    }

    /// Calls about DNS records, reads included.
    pub fn dns_calls(&self) -> Vec<Call> {
        self.maas.calls().into_iter().filter(|c| c.path.contains("dnsresources")).collect()
    }
}
