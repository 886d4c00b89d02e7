//! Somebody works on the DNS record.

use anyhow::{Context, Result, ensure};
use maas_sim::DnsView;
use scenarios::{Colleague, Machine, Stage, eventually};

use crate::support::{stage, stage_on};

const GIVEN: &str = "  controlPlaneEndpoint: {host: api.maas, port: 6443}";
/// A machine of nobody we know.
const THEIRS: &str = "10.99.0.7";

fn record(stage: &Stage<'_>) -> Result<DnsView> {
    let records = stage.maas.dns_records();
    ensure!(records.len() == 1, "{records:?}");
    records.into_iter().next().context("a record")
}

fn addresses(record: &DnsView) -> Vec<String> {
    record.addresses.iter().flatten().cloned().collect()
}

/// What somebody adds to our record, or takes out of it, is put right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_was_edited_by_hand_is_put_right() -> Result<()> {
    let stage = stage("two-edited").await?;
    let other = Colleague::of(&stage.maas);
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let before = record(&stage)?;
    let ours = addresses(&before);
    let edits = [THEIRS.to_owned(), format!("{} {THEIRS}", ours.join(" "))];
    for edit in edits {
        other.edits_record(before.id, &edit).await?;
        eventually("the record is as it was", 40, async || {
            Ok((addresses(&record(&stage)?) == ours).then_some(()))
        })
        .await
        .with_context(|| edit)?;
    }
    ensure!(record(&stage)? == before);
    let told = stage.events("c").await?;
    let told = told.iter().any(|(reason, _)| reason == "DNSRecordChanged");
    ensure!(told, "whoever wonders finds it in the events");
    other.frees_address(THEIRS).await?;
    stage.strike().await
}

/// A record that somebody deletes comes back, by the same name and with the same addresses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_was_deleted_by_hand_comes_back() -> Result<()> {
    let stage = stage("two-deleted").await?;
    let other = Colleague::of(&stage.maas);
    stage.cluster("made", "", "")?;
    stage.machine("made", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let before = record(&stage)?;
    other.deletes_record(before.id).await?;
    let after = eventually("it is there again", 40, async || {
        let found = stage.maas.dns_records().pop();
        Ok(found.filter(|r| r.addresses == before.addresses))
    })
    .await?;
    ensure!(after.fqdn == before.fqdn && after.id != before.id, "{after:?}");
    stage.strike().await
}

/// The wanted name leads to somebody's machines: that is said, their record stays as it is, and the cluster goes on
/// once the name is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wanted_name_that_serves_somebody_is_not_taken_from_them() -> Result<()> {
    let stage = stage("two-name").await?;
    let other = Colleague::of(&stage.maas);
    let id = other.makes_record("api.maas", THEIRS).await?;
    let theirs = record(&stage)?;
    stage.cluster("c", GIVEN, "")?;
    let message = stage.cluster_reason("c", "LoadBalancerReady", "EndpointNameTaken").await?;
    for word in ["api.maas", THEIRS, "remove it there"] {
        ensure!(message.contains(word), "{message}");
    }
    let events = stage.events("c").await?;
    ensure!(events.iter().any(|(reason, _)| reason == "EndpointNameTaken"), "{events:?}");
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "MachineDeployed", "WaitingForClusterInfrastructure").await?;
    ensure!(record(&stage)? == theirs && stage.held().is_empty());

    other.deletes_record(id).await?;
    stage.cluster_reason("c", "LoadBalancerReady", "LoadBalancerReady").await?;
    let host = stage.provisioned("cp").await?;
    ensure!(addresses(&record(&stage)?) == host.ip_addresses);
    stage.strike_leaving(&["api.maas"]).await
}

/// A cluster that never got its name goes without a trace in somebody's record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_goes_leaves_somebodys_record_as_it_is() -> Result<()> {
    let stage = stage("two-name-gone").await?;
    let other = Colleague::of(&stage.maas);
    let id = other.makes_record("api.maas", THEIRS).await?;
    let theirs = record(&stage)?;
    stage.cluster("c", GIVEN, "")?;
    stage.cluster_reason("c", "LoadBalancerReady", "EndpointNameTaken").await?;
    stage.delete("clusters.cluster.x-k8s.io", "c")?;
    eventually("the MaasCluster is gone", 60, async || {
        Ok(stage.clusters().get_opt("c").await?.is_none().then_some(()))
    })
    .await?;
    ensure!(record(&stage)? == theirs, "{:?}", stage.maas.dns_records());
    other.deletes_record(id).await?;
    stage.strike().await
}

/// A record that was made by hand and is empty, or that the user emptied, is for us to fill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_without_addresses_may_be_filled() -> Result<()> {
    let stage = stage("two-name-empty").await?;
    let other = Colleague::of(&stage.maas);
    let id = other.makes_record("api.maas", "").await?;
    stage.cluster("c", GIVEN, "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let host = stage.provisioned("cp").await?;
    let filled = record(&stage)?;
    ensure!(filled.id == id && addresses(&filled) == host.ip_addresses, "{filled:?}");
    // Once it is ours, what somebody adds does not make it theirs.
    other.edits_record(id, &format!("{THEIRS} {}", host.ip_addresses.join(" "))).await?;
    eventually("the record is ours alone", 40, async || {
        Ok((addresses(&record(&stage)?) == host.ip_addresses).then_some(()))
    })
    .await?;
    other.frees_address(THEIRS).await?;
    stage.strike_leaving(&["api.maas"]).await
}

/// The record of a cluster of the Go provider leads to the cluster's own machines: it is taken over, and what is left
/// in it of a machine that is gone is taken out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_of_the_go_provider_is_taken_over() -> Result<()> {
    let old = "{hostname: old, cores: 4, memory: 8192, zone: az1, status: Deployed, owner: admin, power: 'on'}";
    let stage = stage_on("two-go", &[old]).await?;
    let host = stage.maas.machine_named("old").context("in the rack")?;
    let ours = host.ip_addresses.join(" ");
    let other = Colleague::of(&stage.maas);
    let id = other.makes_record("old-a1b2c3.maas", &format!("{ours} {THEIRS}")).await?;
    // The machine first, as both objects are there when the Go provider is replaced.
    let named = format!("providerID: 'maas:///{}/{}'", host.zone, host.system_id);
    let machine = Machine::control_plane("cp").with(&named);
    stage.machine("c", &machine)?;
    stage.cluster("c", "", ", controlPlaneEndpoint: {host: old-a1b2c3.maas, port: 6443}")?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    eventually("the address of nobody is out", 40, async || {
        Ok((addresses(&record(&stage)?) == host.ip_addresses).then_some(()))
    })
    .await?;
    ensure!(record(&stage)?.id == id && stage.provisioned("cp").await?.deploys == host.deploys);
    other.frees_address(THEIRS).await?;
    stage.strike_leaving(&["old-a1b2c3.maas"]).await
}
