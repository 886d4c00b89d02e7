//! A MAAS and a provider of a few lines each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use control_plane::{Fleet, Host};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "play";
pub(crate) const ENDPOINT: &str = "play.maas";

/// A MAAS by hand.
#[derive(Default)]
pub(crate) struct Maas {
    pub(crate) hosts: Mutex<BTreeMap<String, Host>>,
    pub(crate) dns: Mutex<Vec<String>>,
}

impl Fleet for Maas {
    fn hosts(&self) -> Vec<Host> {
        self.hosts.lock().expect("no panic").values().cloned().collect()
    }

    fn addresses(&self, fqdn: &str) -> Vec<String> {
        let dns = self.dns.lock().expect("no panic").clone();
        if fqdn == ENDPOINT { dns } else { Vec::new() }
    }
}

impl Maas {
    pub(crate) fn change(&self, system_id: &str, change: impl FnOnce(&mut Host)) {
        let mut hosts = self.hosts.lock().expect("no panic");
        change(hosts.get_mut(system_id).expect("a known host"));
    }
}

/// A provider by hand.
pub(crate) struct Provider {
    pub(crate) maas: Arc<Maas>,
    pub(crate) management: Client,
    pub(crate) nodes: Api<Node>,
    /// Given to the next host in the place of its own data.
    pub(crate) wrong_data: Option<String>,
}

impl Provider {
    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.management.clone(), NAMESPACE, &resource)
    }

    fn infrastructure(&self, kind: &str) -> Api<DynamicObject> {
        self.api("infrastructure.cluster.x-k8s.io", "v1beta1", kind)
    }

    fn machines(&self) -> Api<DynamicObject> {
        self.api("cluster.x-k8s.io", "v1beta2", "Machine")
    }

    async fn write(&self, kind: &str, name: &str, spec: Value) -> Result<()> {
        let parameters = PatchParams::default();
        let api = self.infrastructure(kind);
        api.patch(name, &parameters, &Patch::Merge(json!({ "spec": spec }))).await?;
        let status = json!({"status": {"ready": true, "initialization": {"provisioned": true}}});
        api.patch_status(name, &parameters, &Patch::Merge(status)).await?;
        Ok(())
    }

    pub(crate) async fn round(&mut self) -> Result<()> {
        for cluster in self.infrastructure("MaasCluster").list(&ListParams::default()).await? {
            if !cluster.owner_references().is_empty() && cluster.data.get("status").is_none() {
                let endpoint = json!({"controlPlaneEndpoint": {"host": ENDPOINT, "port": 6443}});
                self.write("MaasCluster", &cluster.name_any(), endpoint).await?;
            }
        }
        let machines = self.infrastructure("MaasMachine").list(&ListParams::default()).await?;
        let mut present = Vec::new();
        let before = self.maas.hosts();
        for machine in machines {
            match machine.data.pointer("/spec/providerID").and_then(Value::as_str) {
                Some(id) => present.push(id.rsplit('/').next().unwrap_or_default().to_owned()),
                None => self.deploy(&machine).await?,
            }
        }
        for host in before {
            if present.contains(&host.system_id) {
                self.set_provider_id(&host).await?;
            } else {
                self.maas.change(&host.system_id, |host| host.status = "Ready".to_owned());
            }
        }
        Ok(())
    }

    /// Sets the provider id of a Node, which is the provider's to do.
    async fn set_provider_id(&self, host: &Host) -> Result<()> {
        if self.nodes.get_opt(&host.hostname).await?.is_some() {
            let id = json!({"spec": {"providerID": format!("maas:///z/{}", host.system_id)}});
            self.nodes.patch(&host.hostname, &PatchParams::default(), &Patch::Merge(id)).await?;
        }
        Ok(())
    }

    async fn deploy(&mut self, machine: &DynamicObject) -> Result<()> {
        let owner = machine.owner_references().iter().find(|owner| owner.kind == "Machine");
        let Some(owner) = owner else { return Ok(()) };
        let owner = self.machines().get(&owner.name).await?;
        let Some(secret) = owner.data.pointer("/spec/bootstrap/dataSecretName") else {
            return Ok(());
        };
        let secrets: Api<Secret> = Api::namespaced(self.management.clone(), NAMESPACE);
        let secret = secrets.get(secret.as_str().context("a name")?).await?;
        let data =
            secret.data.and_then(|mut data| data.remove("value")).context("bootstrap data")?;
        let number = self.maas.hosts().len() + 1;
        let system_id = format!("host{number:02}");
        let address = format!("10.9.0.{number}");
        let host = Host {
            system_id: system_id.clone(),
            hostname: format!("node-{number:02}"),
            status: "Deployed".to_owned(),
            power: "on".to_owned(),
            ip_addresses: vec![address.clone()],
            user_data: Some(self.wrong_data.take().unwrap_or_else(|| STANDARD.encode(data.0))),
            deploys: 1,
        };
        self.maas.hosts.lock().expect("no panic").insert(system_id.clone(), host);
        let id = json!({"providerID": format!("maas:///z/{system_id}")});
        self.write("MaasMachine", &machine.name_any(), id).await
    }

    pub(crate) async fn running(&self) -> Result<usize> {
        let machines = self.machines().list(&ListParams::default()).await?;
        let phase = |machine: &DynamicObject| {
            machine.data.pointer("/status/phase").and_then(Value::as_str) == Some("Running")
        };
        Ok(machines.iter().filter(|machine| phase(machine)).count())
    }
}

/// Plays rounds until something holds.
pub(crate) async fn until(
    provider: &mut Provider,
    what: &str,
    seconds: u64,
    holds: impl AsyncFn(&Provider) -> Result<bool>,
) -> Result<()> {
    let started = Instant::now();
    while !holds(provider).await? {
        let waited = started.elapsed();
        anyhow::ensure!(waited < Duration::from_secs(seconds), "not within {seconds} s: {what}");
        provider.round().await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    println!("{what}: after {:.1} s", started.elapsed().as_secs_f32());
    Ok(())
}
