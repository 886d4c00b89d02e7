//! Machines that MAAS cannot give.

use anyhow::{Result, ensure};
use maas_sim::{Image, MachineSpec};
use scenarios::{Machine, Stage, StageOptions, eventually};

use crate::support::{impatient, rack, stage, stage_with};

const RACK: &[&str] = &[
    "{hostname: one, cores: 4, memory: 8192, zone: az1, tags: [ssd]}",
    "{hostname: two, cores: 4, memory: 8192, zone: az2, pool: workers}",
];

/// A stage on which refused allocations are tried again every second.
async fn hurried(namespace: &str) -> Result<Stage<'static>> {
    let folder = impatient()?;
    let (inventory, args) = (rack(RACK), folder.flags());
    let stage =
        stage_with(namespace, StageOptions { inventory, args, ..Default::default() }).await?;
    stage.cluster("c", "", "")?;
    Ok(stage)
}

fn machine(line: &str) -> MachineSpec {
    rack(&[line]).machines.remove(0)
}

/// The message, once MAAS has refused; no machine may have been taken.
async fn refused(stage: &Stage<'_>, wanted: &Machine, reason: &str) -> Result<String> {
    stage.machine("c", wanted)?;
    let message = stage.reason(&wanted.name, "MachineDeployed", reason).await?;
    ensure!(stage.held().is_empty(), "a machine was taken: {:?}", stage.held());
    let object = stage.machines().get(&wanted.name).await?;
    ensure!(object.spec.provider_id.is_none(), "{:?}", object.spec);
    let events = stage.events(&wanted.name).await?;
    ensure!(events.iter().any(|(_, note)| *note == message), "no event says so: {events:?}");
    Ok(message)
}

fn correct(stage: &Stage<'_>, machine: &str, spec: &str) -> Result<()> {
    let patch = format!("{{\"spec\": {spec}}}");
    let args = ["patch", "maasmachine", machine, "--type=merge", "-p", &patch];
    stage.plane.kubectl(&[&["-n", &stage.namespace][..], &args].concat()).map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_zone_is_named_with_those_that_exist() -> Result<()> {
    let stage = hurried("bad-zone").await?;
    let wanted = Machine::worker("w").with("failureDomain: az9");
    let message = refused(&stage, &wanted, "AllocationInvalid").await?;
    ensure!(message.contains("az9") && message.contains("az1, az2"), "{message}");
    correct(&stage, "w", r#"{"failureDomain": "az2"}"#)?;
    ensure!(stage.provisioned("w").await?.hostname == "two");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_pool_is_named_with_those_that_exist() -> Result<()> {
    let stage = hurried("bad-pool").await?;
    let wanted = Machine::worker("w").with("resourcePool: gold");
    let message = refused(&stage, &wanted, "AllocationInvalid").await?;
    ensure!(message.contains("gold") && message.contains("default, workers"), "{message}");
    correct(&stage, "w", r#"{"resourcePool": "workers"}"#)?;
    ensure!(stage.provisioned("w").await?.hostname == "two");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b045_an_unknown_tag_is_named_with_those_that_exist() -> Result<()> {
    let stage = hurried("bad-tag").await?;
    let wanted = Machine::worker("w").with("tags: [ssd, quantum]");
    let message = refused(&stage, &wanted, "AllocationInvalid").await?;
    ensure!(message.contains("quantum") && message.contains("MAAS has tags ssd"), "{message}");
    let line = "{hostname: three, cores: 4, memory: 8192, zone: az1, tags: [ssd, quantum]}";
    stage.maas.add_machine(machine(line));
    ensure!(stage.provisioned("w").await?.hostname == "three");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_does_not_exist_is_waited_for() -> Result<()> {
    let stage = hurried("bad-size").await?;
    let wanted = Machine::worker("w").with("minCPU: 64");
    let message = refused(&stage, &wanted, "NoMachineFound").await?;
    ensure!(message.contains("add one, free one, or ask for less"), "{message}");
    let line = "{hostname: big, cores: 64, memory: 65536, zone: az1}";
    stage.maas.add_machine(machine(line));
    ensure!(stage.provisioned("w").await?.hostname == "big");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b015_when_all_machines_are_taken_the_next_one_waits_for_a_free_one() -> Result<()> {
    let stage = hurried("bad-capacity").await?;
    for name in ["first", "second"] {
        stage.machine("c", &Machine::worker(name))?;
        stage.provisioned(name).await?;
    }
    stage.machine("c", &Machine::worker("third"))?;
    let message = stage.reason("third", "MachineDeployed", "NoMachineFound").await?;
    ensure!(message.contains("no free machine"), "{message}");
    ensure!(stage.held().len() == 2, "{:?}", stage.held());
    let freed = stage.provisioned("first").await?;
    stage.delete("machines.cluster.x-k8s.io", "first")?;
    stage.gone("first").await?;
    ensure!(stage.provisioned("third").await?.system_id == freed.system_id);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_maas_does_not_have_is_named_with_those_it_has() -> Result<()> {
    let stage = stage("bad-image").await?;
    stage.cluster("c", "", "")?;
    let wanted = Machine::worker("w").with("image: custom/u-9999");
    let message = refused(&stage, &wanted, "ImageNotFound").await?;
    ensure!(message.contains("custom/u-9999") && message.contains("ubuntu/noble"), "{message}");
    ensure!(message.contains("import it or correct spec.image"), "{message}");
    ensure!(stage.calls("allocate").is_empty(), "no call is needed to know that");
    let (name, architectures) = ("custom/u-9999".to_owned(), vec!["amd64".to_owned()]);
    stage.maas.add_image(Image { name, architectures, filetype: "root-tgz".into() });
    // The list of images is read again within a minute.
    eventually("the machine is taken", 100, async || Ok(stage.calls("allocate").pop())).await?;
    stage.provisioned("w").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_bootstrap_data_no_machine_is_taken() -> Result<()> {
    let stage = stage("bad-bootstrap").await?;
    stage.cluster("c", "", "")?;
    let missing = Machine { bootstrap: None, ..Machine::worker("missing") };
    let message = refused(&stage, &missing, "WaitingForBootstrapData").await?;
    ensure!(message.contains("\"missing-bootstrap\" does not exist"), "{message}");
    let empty = Machine { bootstrap: Some(String::new()), ..Machine::worker("empty") };
    let message = refused(&stage, &empty, "WaitingForBootstrapData").await?;
    ensure!(message.contains("\"empty-bootstrap\" has no data under key \"value\""), "{message}");
    ensure!(stage.calls("allocate").is_empty());
    for name in ["missing", "empty"] {
        stage.bootstrap_secret("c", name, "#cloud-config\n")?;
        stage.provisioned(name).await?;
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b063_a_bootstrap_format_that_no_image_understands_is_refused() -> Result<()> {
    let stage = stage("bad-format").await?;
    stage.cluster("c", "", "")?;
    let wanted = Machine { bootstrap: None, ..Machine::worker("w") };
    let secret = |format: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\ntype: cluster.x-k8s.io/secret\n\
             metadata: {{name: w-bootstrap, labels: {{cluster.x-k8s.io/cluster-name: c}}}}\n\
             stringData: {{value: '{{}}', format: {format}}}\n"
        )
    };
    stage.apply(&secret("ignition"))?;
    let message = refused(&stage, &wanted, "BootstrapFormatUnsupported").await?;
    ensure!(message.contains("\"ignition\"") && message.contains("cloud-config"), "{message}");
    stage.apply(&secret("cloud-config"))?;
    stage.provisioned("w").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_dns_domain_is_named_with_those_that_exist() -> Result<()> {
    let stage = stage("bad-domain").await?;
    stage.apply(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n\
         kind: MaasCluster\n\
         metadata: {name: c}\n\
         spec: {dnsDomain: nowhere}\n\
         ---\n\
         apiVersion: cluster.x-k8s.io/v1beta2\n\
         kind: Cluster\n\
         metadata: {name: c}\n\
         spec:\n\
         \x20 infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasCluster, name: c}\n",
    )?;
    let message = stage.cluster_reason("c", "LoadBalancerReady", "WaitForDNSName").await?;
    ensure!(message.contains("\"nowhere\"") && message.contains("it has maas"), "{message}");
    let status = stage.clusters().get("c").await?.status.unwrap_or_default();
    ensure!(!status.ready && stage.maas.dns_records().is_empty(), "{status:?}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_domain_that_maas_does_not_have_is_named() -> Result<()> {
    let stage = stage("bad-failure-domain").await?;
    stage.cluster("c", "", ", failureDomains: [az1, az9]")?;
    let message = stage.cluster_reason("c", "FailureDomainsValid", "ZoneNotFound").await?;
    ensure!(message.contains("no zone az9") && message.contains("az1, az2"), "{message}");
    let patch = r#"{"spec": {"failureDomains": ["az1", "az2"]}}"#;
    let args = ["patch", "maascluster", "c", "--type=merge", "-p", patch];
    stage.plane.kubectl(&[&["-n", &stage.namespace][..], &args].concat())?;
    stage.cluster_reason("c", "FailureDomainsValid", "FailureDomainsValid").await?;
    stage.strike().await
}
