//! The user: wants so many machines in so many clusters, and replaces those that are lost.

use anyhow::{Result, ensure};
use capmaas_api::MaasMachine;
use kube::ResourceExt;
use kube::api::ListParams;
use scenarios::{Machine, Stage};

use crate::policies;

/// What the user wants, and what was done for it.
pub(crate) struct User<'a> {
    stage: &'a Stage<'a>,
    clusters: usize,
    machines: usize,
    made: usize,
    /// Machines that were deleted because they were lost.
    pub(crate) replaced: usize,
}

/// Control planes of each cluster; the rest are workers.
const CONTROL_PLANES: usize = 3;

impl<'a> User<'a> {
    pub(crate) fn new(stage: &'a Stage<'a>, clusters: usize, machines: usize) -> Self {
        Self { stage, clusters, machines, made: 0, replaced: 0 }
    }

    /// Creates the clusters, every other with policies of its own. The machines follow when the user looks.
    pub(crate) fn begin(&self) -> Result<()> {
        policies::put_right(self.stage)?;
        (0..self.clusters).try_for_each(|n| {
            let named = if n % 2 == 0 { policies::NAMED } else { "" };
            self.stage.cluster(&cluster_name(n), "", named)
        })
    }

    pub(crate) async fn objects(&self) -> Result<Vec<MaasMachine>> {
        Ok(self.stage.machines().list(&ListParams::default()).await?.items)
    }

    /// Deletes what is lost, and creates what is missing.
    pub(crate) async fn look(&mut self) -> Result<()> {
        let objects = self.objects().await?;
        for lost in objects.iter().filter(|m| !leaving(m) && is_lost(m)) {
            self.delete(&lost.name_any())?;
            self.replaced += 1;
        }
        let staying: Vec<&MaasMachine> =
            objects.iter().filter(|m| !leaving(m) && !is_lost(m)).collect();
        for n in 0..self.clusters {
            let share =
                self.machines / self.clusters + usize::from(n < self.machines % self.clusters);
            let cluster = cluster_name(n);
            let of_it = |control_plane: bool| {
                let fits = |m: &&&MaasMachine| {
                    m.name_any().starts_with(&format!("{cluster}-"))
                        && is_control_plane(m) == control_plane
                };
                staying.iter().filter(fits).count()
            };
            for _ in of_it(true)..CONTROL_PLANES {
                self.create(&cluster, true)?;
            }
            for _ in of_it(false)..share - CONTROL_PLANES {
                self.create(&cluster, false)?;
            }
        }
        Ok(())
    }

    fn create(&mut self, cluster: &str, control_plane: bool) -> Result<()> {
        let name = format!("{cluster}-{}", self.made);
        self.made += 1;
        let machine =
            if control_plane { Machine::control_plane(&name) } else { Machine::worker(&name) };
        self.stage.machine(cluster, &machine)
    }

    /// Deletes a Machine, as scaling down does.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        self.stage.delete("machines.cluster.x-k8s.io", name)
    }

    /// None when everything is as wanted, else what is missing yet.
    pub(crate) async fn missing(&self) -> Result<Option<String>> {
        let objects = self.objects().await?;
        let unready: Vec<String> = objects.iter().filter(|m| !is_up(m)).map(told).collect();
        let held = self.stage.held().len();
        if objects.len() != self.machines || !unready.is_empty() || held != self.machines {
            let shown = unready.iter().take(4).cloned().collect::<Vec<_>>().join("; ");
            return Ok(Some(format!(
                "{} objects, {held} held, {} not ready: {shown}",
                objects.len(),
                unready.len()
            )));
        }
        for n in 0..self.clusters {
            let front = format!("{}-", cluster_name(n));
            let mut wanted = Vec::new();
            for object in
                objects.iter().filter(|m| is_control_plane(m) && m.name_any().starts_with(&front))
            {
                let host = self.stage.host(&object.name_any()).await?;
                wanted.extend(host.map(|h| h.ip_addresses).unwrap_or_default());
            }
            let records = self.stage.maas.dns_records();
            let ours = records.into_iter().find(|r| r.fqdn.starts_with(&front));
            let mut served: Vec<String> =
                ours.into_iter().flat_map(|r| r.addresses).flatten().collect();
            wanted.sort();
            served.sort();
            if wanted != served {
                return Ok(Some(format!("{front} is served by {served:?}, wanted {wanted:?}")));
            }
        }
        Ok(None)
    }

    /// Each held machine belongs to one object, by name.
    pub(crate) async fn ensure_one_to_one(&self) -> Result<()> {
        let mut named = Vec::new();
        for object in self.objects().await? {
            named.extend(
                object
                    .spec
                    .provider_id
                    .as_deref()
                    .and_then(|p| p.rsplit('/').next())
                    .map(str::to_owned),
            );
        }
        let mut held: Vec<String> = self.stage.held().into_iter().map(|m| m.system_id).collect();
        named.sort();
        held.sort();
        ensure!(named == held, "objects name {named:?}, held are {held:?}");
        Ok(())
    }
}

pub(crate) fn cluster_name(n: usize) -> String {
    format!("soak{n}")
}

pub(crate) fn leaving(object: &MaasMachine) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

pub(crate) fn is_control_plane(object: &MaasMachine) -> bool {
    object.labels().contains_key("cluster.x-k8s.io/control-plane")
}

fn is_lost(object: &MaasMachine) -> bool {
    object.status.as_ref().is_some_and(|s| s.failure_reason.is_some())
}

fn is_up(object: &MaasMachine) -> bool {
    !leaving(object) && !is_lost(object) && object.status.as_ref().is_some_and(|s| s.ready)
}

fn told(object: &MaasMachine) -> String {
    let conditions = object.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let deployed = conditions.into_iter().find(|c| c.kind == "MachineDeployed");
    let (reason, message) = deployed
        .map(|c| (c.reason.unwrap_or_default(), c.message.unwrap_or_default()))
        .unwrap_or_default();
    format!("{} {reason} ({message})", object.name_any())
}
