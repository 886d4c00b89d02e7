//! The chapters.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use capmaas_api::{MaasCluster, MaasMachine, names};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use maas_sim::{CallFault, FaultAction, MachineView, OperatorAct};
use scenarios::{ClusterShape, kubeadm_cluster, scalable};

use crate::plan::{CLUSTER, CONTROL_PLANES, WORKERS};
use crate::teller::Teller;
use crate::{NAMESPACE, World, summary};

/// Tells all chapters; each is over only when what it tells was seen.
pub(crate) async fn tell(world: &World, teller: &Teller) -> Result<()> {
    let before = holdings(world);
    inventory(world, teller);
    birth(world, teller).await?;
    power(world, teller).await?;
    growth(world, teller).await?;
    end(world, teller, &before).await?;
    world.controller.check()?;
    summary::print(world)
}

fn inventory(world: &World, teller: &Teller) {
    teller.chapter("MAAS at the beginning");
    let mut by_zone: BTreeMap<String, Vec<MachineView>> = BTreeMap::new();
    for machine in world.maas.machines() {
        by_zone.entry(machine.zone.clone()).or_default().push(machine);
    }
    for (zone, machines) in by_zone {
        let free = machines.iter().filter(|m| m.status_name == "Ready").count();
        let names: Vec<String> = machines
            .iter()
            .map(|m| format!("{} ({}×, {} GiB)", m.hostname, m.cpu_count, m.memory_mib / 1024))
            .collect();
        teller.say(&format!(
            "zone {zone}: {free} of {} free: {}",
            machines.len(),
            names.join(", ")
        ));
    }
}

fn machines(world: &World) -> Api<MaasMachine> {
    Api::namespaced(world.plane.client(), NAMESPACE)
}

async fn list(world: &World) -> Result<Vec<MaasMachine>> {
    Ok(machines(world).list(&ListParams::default()).await?.items)
}

fn control_plane(machine: &MaasMachine) -> bool {
    machine.labels().contains_key(names::CONTROL_PLANE_LABEL)
}

fn ready(machine: &MaasMachine) -> bool {
    machine.status.as_ref().is_some_and(|s| s.ready)
}

fn system_id(machine: &MaasMachine) -> Option<String> {
    let id = machine.spec.provider_id.as_deref()?;
    Some(id.rsplit('/').next()?.to_owned())
}

/// Three control planes and three workers; one deployment fails on the way.
async fn birth(world: &World, teller: &Teller) -> Result<()> {
    let (cores, memory) = world.plan.size;
    let zones: Vec<&str> = world.plan.zones.iter().map(String::as_str).collect();
    teller.chapter(&format!(
        "A user applies a Cluster: {CONTROL_PLANES} control planes{}, {WORKERS} workers",
        if zones.is_empty() {
            String::new()
        } else {
            format!(" over zones {}", zones.join(" and "))
        }
    ));
    let shape = ClusterShape {
        name: CLUSTER,
        control_planes: CONTROL_PLANES,
        workers: WORKERS,
        zones: &zones,
        image: &world.plan.image,
        control_plane_size: (cores, memory),
        worker_size: (cores, memory),
    };
    let manifests = kubeadm_cluster(&shape)
        .replace("dnsDomain: maas", &format!("dnsDomain: {}", world.plan.domain));
    let follower = world.workload.follow(&world.plane, world.maas.clone(), NAMESPACE, CLUSTER)?;
    world.plane.apply(NAMESPACE, &manifests)?;
    let mut sabotaged: Option<(String, String)> = None;
    let wanted = (CONTROL_PLANES + WORKERS) as usize;
    teller
        .until("all machines are deployed and their Nodes registered", 420, async || {
            world.controller.check()?;
            let all = list(world).await?;
            if sabotaged.is_none() {
                sabotaged = sabotage(world, teller, &all)?;
            }
            Ok(sabotaged.is_some()
                && all.iter().filter(|m| ready(m)).count() == wanted
                && running(world)? == wanted)
        })
        .await?;
    replaced(world, teller, sabotaged).await?;
    placed(world, teller).await?;
    let violations = follower.violations();
    ensure!(violations.is_empty(), "hosts got wrong data: {violations:?}");
    let inits: Vec<String> = follower
        .boots()
        .into_iter()
        .filter(|(_, boot)| *boot == control_plane::Boot::Init)
        .filter_map(|(id, _)| world.maas.machine(&id).map(|m| m.hostname))
        .collect();
    teller.say(&format!("kubeadm init ran on {}, join on all others", inits.join(", ")));
    std::mem::forget(follower);
    Ok(())
}

/// The first worker that is being deployed gets a dying disk.
fn sabotage(
    world: &World,
    teller: &Teller,
    all: &[MaasMachine],
) -> Result<Option<(String, String)>> {
    for machine in all.iter().filter(|m| !control_plane(m)) {
        let Some(id) = system_id(machine) else {
            continue;
        };
        let Some(host) = world.maas.machine(&id).filter(|h| h.status_name == "Deploying") else {
            continue;
        };
        let why = "Installation failed: disk sda does not answer".to_owned();
        world.maas.operator(&id, OperatorAct::FailDeployment(why))?;
        teller.say(&format!("  (the demo breaks the disk of {} while it installs)", host.hostname));
        return Ok(Some((machine.name_any(), id)));
    }
    Ok(None)
}

async fn replaced(
    world: &World,
    teller: &Teller,
    sabotaged: Option<(String, String)>,
) -> Result<()> {
    let (name, bad) = sabotaged.context("no deployment was made to fail")?;
    let machine = machines(world).get(&name).await?;
    let good = system_id(&machine).context("the machine has a host")?;
    ensure!(good != bad, "{name} still has the host that failed");
    let remembered = machine.annotations().get(names::FAILED_HOSTS_ANNOTATION);
    ensure!(remembered.is_some_and(|r| r.contains(&bad)), "{name} does not remember {bad}");
    let host = |id: &str| world.maas.machine(id).map(|m| m.hostname).unwrap_or_default();
    let old = world.maas.machine(&bad).context("the failed host exists")?;
    ensure!(old.owner.is_none(), "{} is still held", old.hostname);
    teller.say(&format!(
        "replaced: {name} failed on {} (now {} and nobody's) and runs on {}",
        old.hostname,
        old.status_name,
        host(&good)
    ));
    Ok(())
}

async fn placed(world: &World, teller: &Teller) -> Result<()> {
    for machine in list(world).await? {
        let id = system_id(&machine).context("every machine has a host")?;
        let host = world.maas.machine(&id).context("MAAS knows every host")?;
        ensure!(host.status_name == "Deployed" && host.power_state == "on", "{host:?}");
        ensure!(host.swap_size == Some(0), "swap is on at {}", host.hostname);
        let role = if control_plane(&machine) { "control plane" } else { "worker" };
        teller.say(&format!(
            "{role} {} is {} in zone {}, {}",
            machine.name_any(),
            host.hostname,
            host.zone,
            host.ip_addresses.join(" ")
        ));
    }
    let clusters: Api<MaasCluster> = Api::namespaced(world.plane.client(), NAMESPACE);
    let endpoint = clusters.get(CLUSTER).await?.spec.control_plane_endpoint.unwrap_or_default();
    teller.say(&format!("the API server answers at {}:{}", endpoint.host, endpoint.port));
    Ok(())
}

/// Machines that Cluster API calls running: their Node carries the provider id.
fn running(world: &World) -> Result<usize> {
    let path = "jsonpath={range .items[*]}{.status.phase}{\"\\n\"}{end}";
    let args = ["-n", NAMESPACE, "get", "machines.cluster.x-k8s.io", "-o", path];
    Ok(world.plane.kubectl(&args)?.lines().filter(|p| *p == "Running").count())
}

/// A control plane loses power; its BMC fails once; then it comes back.
async fn power(world: &World, teller: &Teller) -> Result<()> {
    teller.chapter("A control plane loses power, and its BMC is busy at first");
    let all = list(world).await?;
    let machine = all.iter().find(|m| control_plane(m)).context("there is a control plane")?;
    let id = system_id(machine).context("it has a host")?;
    let host = world.maas.machine(&id).context("MAAS knows it")?;
    let address = host.ip_addresses.first().cloned().context("it has an address")?;
    ensure!(teller.record().contains(&address), "{address} is not in the record yet");
    let busy = FaultAction::Answer {
        status: 503,
        content_type: "text/plain; charset=utf-8".into(),
        body: "Failed talking to node's BMC: session timeout".into(),
        retry_after: None,
    };
    let mut fault = CallFault::on_op("power_on", busy);
    fault.path = Some(format!("/machines/{id}/"));
    fault.count = Some(1);
    world.maas.add_fault(fault);
    teller.say(&format!("  (the demo pulls the plug of {})", host.hostname));
    world.maas.operator(&id, OperatorAct::PowerOff)?;
    teller
        .until("its address leaves the record", 60, async || {
            Ok(!teller.record().contains(&address))
        })
        .await?;
    teller.say("off in two readings: its address is out, the others stay");
    teller
        .until("it is on, and its address back in the record", 120, async || {
            let on = world.maas.machine(&id).is_some_and(|m| m.power_state == "on");
            let back = machines(world).get(&machine.name_any()).await?;
            Ok(on && ready(&back) && teller.record().contains(&address))
        })
        .await?;
    teller.say(&format!("{} is on again, and {address} back in the record", host.hostname));
    Ok(())
}

/// One more worker.
async fn growth(world: &World, teller: &Teller) -> Result<()> {
    let wanted = (CONTROL_PLANES + WORKERS + 1) as usize;
    teller.chapter(&format!("The worker pool is scaled to {}", WORKERS + 1));
    let replicas = format!("--replicas={}", WORKERS + 1);
    world.plane.kubectl(&["-n", NAMESPACE, "scale", &scalable(CLUSTER), &replicas])?;
    teller
        .until("the new worker runs", 180, async || {
            let all = list(world).await?;
            Ok(all.iter().filter(|m| ready(m)).count() == wanted && running(world)? == wanted)
        })
        .await?;
    let held = holdings(world);
    ensure!(held.len() == wanted, "MAAS holds {} machines for us: {held:?}", held.len());
    teller.say(&format!("{wanted} machines run, and MAAS holds {} for us", held.len()));
    Ok(())
}

/// Host names of the machines that our user owns.
fn holdings(world: &World) -> Vec<String> {
    let ours = |m: &MachineView| m.owner.as_deref() == Some("admin");
    world.maas.machines().into_iter().filter(ours).map(|m| m.hostname).collect()
}

/// The cluster is deleted, and MAAS is as it was.
async fn end(world: &World, teller: &Teller, before: &[String]) -> Result<()> {
    teller.chapter("The cluster is deleted");
    world.plane.kubectl(&["-n", NAMESPACE, "delete", "cluster", CLUSTER, "--wait=false"])?;
    let clusters: Api<MaasCluster> = Api::namespaced(world.plane.client(), NAMESPACE);
    teller
        .until("all is gone", 300, async || {
            world.controller.check()?;
            let none = list(world).await?.is_empty() && clusters.get_opt(CLUSTER).await?.is_none();
            Ok(none)
        })
        .await?;
    let held = holdings(world);
    ensure!(held == before, "MAAS held {before:?} at the beginning and holds {held:?} now");
    let records = world.maas.dns_records();
    ensure!(records.is_empty(), "DNS records are left: {records:?}");
    let reserved = world.maas.reserved_addresses();
    ensure!(reserved.is_empty(), "addresses are left reserved: {reserved:?}");
    let stamped: Vec<String> = world
        .maas
        .machines()
        .into_iter()
        .filter(|m| m.workload_annotations.keys().any(|k| k.starts_with("capmaas-")))
        .map(|m| m.hostname)
        .collect();
    ensure!(stamped.is_empty(), "annotations are left on {stamped:?}");
    teller.say("MAAS is as it was: no machine held, no DNS record, no reservation, no annotation");
    Ok(())
}
