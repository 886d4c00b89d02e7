//! Objects and machines of the Go provider are taken over as they are.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use maas_sim::MachineView;
use scenarios::{Machine, Pod, Stage};

use crate::support::{stage, stage_on, story};

const RACK: &[&str] = &[
    "{hostname: old-1, cores: 4, memory: 8192, zone: az1, status: Deployed, owner: admin, power: 'on'}",
    "{hostname: old-2, cores: 4, memory: 8192, zone: az2, status: Deployed, owner: admin, power: 'on'}",
    "{hostname: free, cores: 2, memory: 4096, zone: az1}",
];

/// A machine as the Go provider leaves it: named by the object, without a mark or an annotation.
fn inherited(stage: &Stage<'_>, name: &str, hostname: &str) -> Result<(Machine, MachineView)> {
    let host = stage.maas.machine_named(hostname).context("in the rack")?;
    let id = format!("providerID: 'maas:///{}/{}'", host.zone, host.system_id);
    let system_id = format!("systemID: {}", host.system_id);
    Ok((Machine::control_plane(name).with(&id).with(&system_id), host))
}

/// It is recognised, marked as ours and otherwise left as it is; another one is never taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_of_the_go_provider_is_taken_over_untouched() -> Result<()> {
    let stage = stage_on("takeover", RACK).await?;
    stage.cluster("c", "", ", controlPlaneEndpoint: {host: old-a1b2c3.maas, port: 6443}")?;
    let (machine, before) = inherited(&stage, "cp", "old-1")?;
    stage.machine("c", &machine)?;
    let host = stage.provisioned("cp").await?;
    stage.reason("cp", "DNSAttached", "DNSAttached").await?;
    ensure!(host.system_id == before.system_id && host.deploys == before.deploys, "{host:?}");
    ensure!(host.power_state == "on" && host.status_name == "Deployed", "{host:?}");
    ensure!(host.workload_annotations["capmaas-machine"] == "cp", "{host:?}");
    let machines = |w: &String| !w.contains("dnsresources");
    let touched: Vec<String> = story(&stage).into_iter().filter(machines).collect();
    ensure!(touched == ["set_workload_annotations"], "{touched:?}");

    let other = stage.maas.machine_named("old-2").context("in the rack")?;
    ensure!(other.workload_annotations.is_empty(), "nobody named this one: {other:?}");
    stage.delete("machines.cluster.x-k8s.io", "cp")?;
    stage.gone("cp").await?;
    let released = stage.calls("release");
    ensure!(released.len() == 1 && released[0].path.contains(&before.system_id), "{released:?}");
    // The other one belongs to nobody's object and stays: it is not ours to release.
    stage.maas.operator(&other.system_id, maas_sim::OperatorAct::Owner(None))?;
    stage.strike_leaving(&["old-a1b2c3.maas"]).await
}

/// The flags that are not the stage's own matter.
fn about_maas(args: Vec<String>) -> Vec<String> {
    args.into_iter().filter(|arg| arg.starts_with("--maas")).collect()
}

/// The chart takes the Go provider's Secret as it is, under the newer names and under the older ones; and a key that is
/// replaced in it is found without a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_of_the_go_provider_leads_to_maas() -> Result<()> {
    let stage = stage("takeover-secret").await?;
    stage.cluster("c", "", "")?;
    let url = format!("{}/MAAS", stage.gate.maas_url());
    let names = [("MAAS_ENDPOINT", "MAAS_API_KEY"), ("MAAS_API_URL", "MAAS_API_TOKEN")];
    let mut before = vec![];
    for (endpoint, key) in names {
        let folder = stage.folder().join(key);
        let secret = BTreeMap::from([(endpoint, url.clone()), (key, stage.maas.api_key())]);
        let pod = Pod::with_credentials(stage.plane, &secret, &folder)?;
        stage.controller.kill();
        stage.controller.use_environment(pod.environment);
        let flags = about_maas(pod.args);
        stage.controller.replace_flags(&before, &flags);
        before = flags;
        stage.controller.start()?;
        stage.controller.watching().await?;
        let machine = key.to_lowercase().replace('_', "-");
        stage.machine("c", &Machine::worker(&machine))?;
        stage.provisioned(&machine).await?;

        let new = stage.maas.replace_key("admin")?;
        stage.cluster_reason("c", "MaasAvailable", "MaasUnauthorized").await?;
        std::fs::write(folder.join("maas").join(key), new)?;
        stage.cluster_reason("c", "MaasAvailable", "MaasAvailable").await?;
    }
    stage.strike().await
}

/// A Secret without any of the names ends the controller, with the names in its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_under_other_names_is_told_which_are_understood() -> Result<()> {
    let stage = stage("takeover-names").await?;
    let secret = BTreeMap::from([("endpoint", "http://maas".into()), ("key", "a:b:c".into())]);
    let pod = Pod::with_credentials(stage.plane, &secret, &stage.folder().join("pod"))?;
    let flags = about_maas(pod.args);
    stage.controller.kill();
    stage.controller.replace_flags(&[], &flags);
    let at = |name: &str| [(name.to_owned(), format!("{}/MAAS", stage.gate.maas_url()))];
    for (environment, missing) in
        [(vec![], "MAAS_ENDPOINT"), (at("MAAS_ENDPOINT").to_vec(), "MAAS_API_KEY")]
    {
        stage.controller.use_environment(environment);
        stage.controller.start()?;
        let end = stage.controller.watching().await.err().context("it cannot run")?;
        ensure!(format!("{end:#}").contains(missing), "{end:#}");
    }
    stage.use_key(&stage.maas.api_key());
    stage.controller.replace_flags(&flags, &[]);
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.strike().await
}
