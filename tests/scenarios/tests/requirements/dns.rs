//! R9, R10, R12: the API server's name and port.

use anyhow::{Context, Result, ensure};
use scenarios::{Machine, Stage, eventually};

use crate::support::{params, stage, word};

async fn ready_cluster(stage: &Stage<'_>, name: &str) -> Result<capmaas_api::MaasCluster> {
    eventually("the MaasCluster is provisioned", 60, async || {
        let object = stage.clusters().get(name).await?;
        let ready = object.status.as_ref().is_some_and(|s| s.ready);
        Ok(ready.then_some(object))
    })
    .await
}

/// What Cluster API made of the endpoint: `host:port` of the Cluster.
async fn endpoint_of_the_cluster(stage: &Stage<'_>, name: &str) -> Result<String> {
    eventually("the Cluster has an endpoint", 60, async || {
        let path = "jsonpath={.spec.controlPlaneEndpoint.host}:{.spec.controlPlaneEndpoint.port}";
        let kind = "clusters.cluster.x-k8s.io";
        let args = ["-n", &stage.namespace, "get", kind, name, "-o", path];
        let text = stage.plane.kubectl(&args)?;
        Ok((text.len() > 1).then_some(text))
    })
    .await
}

/// R9, R10, R12: one record with a TTL of 10 s and a generated name that stays, port 6443.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_r10_a_generated_name_is_recorded_and_stays() -> Result<()> {
    let stage = stage("r10-generated").await?;
    stage.cluster("my-cluster", "", "")?;
    let object = ready_cluster(&stage, "my-cluster").await?;
    let endpoint = object.spec.control_plane_endpoint.context("an endpoint")?;
    let suffix = endpoint.host.strip_prefix("my-cluster-").and_then(|r| r.strip_suffix(".maas"));
    let suffix = suffix.with_context(|| format!("{endpoint:?}"))?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    ensure!(suffix.len() == 6 && suffix.chars().all(plain), "{endpoint:?}");
    ensure!(endpoint.port == 6443, "{endpoint:?}");
    let of_cluster = endpoint_of_the_cluster(&stage, "my-cluster").await?;
    ensure!(of_cluster == format!("{}:6443", endpoint.host), "{of_cluster}");

    stage.machine("my-cluster", &Machine::control_plane("cp-1"))?;
    stage.machine("my-cluster", &Machine::control_plane("cp-2"))?;
    stage.machine("my-cluster", &Machine::worker("w"))?;
    let mut wanted = Vec::new();
    for name in ["cp-1", "cp-2"] {
        wanted.extend(stage.provisioned(name).await?.ip_addresses);
        stage.reason(name, "DNSAttached", "DNSAttached").await?;
    }
    stage.provisioned("w").await?;
    wanted.sort();
    let records = stage.maas.dns_records();
    ensure!(records.len() == 1 && records[0].fqdn == endpoint.host, "{records:?}");
    ensure!(records[0].ttl == Some(10), "{records:?}");
    let mut held: Vec<String> = records[0].addresses.iter().flatten().cloned().collect();
    held.sort();
    ensure!(held == wanted, "the control planes alone: {held:?}, {wanted:?}");
    let creation = stage.dns_calls().into_iter().find(|c| c.method == "POST").context("made")?;
    ensure!(params(&creation, "address_ttl") == ["10"], "{creation:?}");

    stage.controller.kill();
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.machine("my-cluster", &Machine::control_plane("cp-3"))?;
    stage.reason("cp-3", "DNSAttached", "DNSAttached").await?;
    let records = stage.maas.dns_records();
    ensure!(records.len() == 1 && records[0].fqdn == endpoint.host, "{records:?}");
    ensure!(records[0].addresses.len() == 3, "{records:?}");
    stage.strike().await
}

/// R10, R12: the user's own name and port inside the domain are used, filled, and left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r10_a_name_that_the_user_gave_is_filled_and_never_deleted() -> Result<()> {
    let stage = stage("r10-given").await?;
    let spec = "  controlPlaneEndpoint: {host: api.maas, port: 8443}";
    stage.cluster("c", spec, "")?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let records = stage.maas.dns_records();
    ensure!(records.len() == 1 && records[0].fqdn == "api.maas", "{records:?}");
    ensure!(records[0].addresses.len() == 1 && records[0].ttl == Some(10), "{records:?}");
    ensure!(endpoint_of_the_cluster(&stage, "c").await? == "api.maas:8443");
    let deleted = |stage: &Stage<'_>| stage.dns_calls().iter().any(|c| c.method == "DELETE");
    ensure!(!deleted(&stage));
    stage.strike_leaving(&["api.maas"]).await
}

/// R10: the name that a MaasCluster already records is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r10_a_recorded_name_is_kept() -> Result<()> {
    let stage = stage("r10-recorded").await?;
    let recorded = ", controlPlaneEndpoint: {host: old-a1b2c3.maas, port: 6443}";
    stage.cluster("c", "", recorded)?;
    stage.machine("c", &Machine::control_plane("cp"))?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    let records = stage.maas.dns_records();
    ensure!(records.len() == 1 && records[0].fqdn == "old-a1b2c3.maas", "{records:?}");
    ensure!(endpoint_of_the_cluster(&stage, "c").await? == "old-a1b2c3.maas:6443");
    stage.strike_leaving(&["old-a1b2c3.maas"]).await
}

/// R10: an address, or a name outside the MAAS domain, is somebody else's load balancer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r10_an_endpoint_elsewhere_means_no_dns_at_all() -> Result<()> {
    let stage = stage("r10-elsewhere").await?;
    let endpoints = [("vip", "10.20.0.10"), ("balancer", "api.example.com"), ("v6", "'fd00::10'")];
    for (name, host) in &endpoints {
        let spec = format!("  controlPlaneEndpoint: {{host: {host}, port: 6443}}");
        stage.cluster(name, &spec, "")?;
        stage.machine(name, &Machine::control_plane(&format!("{name}-cp")))?;
    }
    for (name, _) in &endpoints {
        stage.provisioned(&format!("{name}-cp")).await?;
        stage.cluster_reason(name, "LoadBalancerReady", "EndpointNotManaged").await?;
        let attached = stage.condition(&format!("{name}-cp"), "DNSAttached").await?;
        ensure!(attached.is_none(), "{attached:?}");
    }
    let calls: Vec<String> = stage.dns_calls().iter().map(word).collect();
    ensure!(calls.is_empty(), "{calls:?}");
    ensure!(stage.maas.dns_records().is_empty());
    stage.strike().await
}

/// R12: the port is the cluster's `apiServerPort` when it says one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r12_the_port_is_the_api_server_port() -> Result<()> {
    let stage = stage("r12-port").await?;
    stage.cluster("c", "  clusterNetwork: {apiServerPort: 7443}", "")?;
    let object = ready_cluster(&stage, "c").await?;
    ensure!(object.spec.control_plane_endpoint.is_some_and(|e| e.port == 7443));
    ensure!(endpoint_of_the_cluster(&stage, "c").await?.ends_with(".maas:7443"));
    stage.strike().await
}
