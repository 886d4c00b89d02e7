//! R1, R2, R3, R13: which machine is taken, and what is written down before it is touched.

use anyhow::{Context, Result, ensure};
use maas_sim::{CallFault, FaultAction};
use scenarios::{Machine, eventually};

use crate::support::{params, stage, story};

/// R1: allocate, then deploy, and what has to happen in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_b079_a_machine_is_allocated_and_then_deployed() -> Result<()> {
    let stage = stage("r1-two-phases").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    ensure!(host.status_name == "Deployed" && host.power_state == "on", "{host:?}");
    let machines: Vec<String> = stage
        .writes()
        .iter()
        .filter(|c| !c.path.starts_with("/dnsresources"))
        .map(crate::support::word)
        .collect();
    let expected = ["allocate", "set_workload_annotations", "PUT machines", "deploy"];
    ensure!(machines == expected, "nothing else, least of all its network: {machines:?}");
    stage.strike().await
}

/// R3: `maas:///<zone>/<id>` stands in Kubernetes before anything but allocate reaches the machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r3_the_provider_id_is_written_before_the_machine_is_touched() -> Result<()> {
    let stage = stage("r3-provider-id").await?;
    let slow = FaultAction::Delay { ms: 4000 };
    stage.maas.add_fault(CallFault::on_op("set_workload_annotations", slow).times(1));
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w").with("failureDomain: az2"))?;
    // The first thing that happens to the machine is under way and has not been carried out.
    eventually("the machine is about to be touched", 40, async || {
        Ok(stage.calls("set_workload_annotations").pop())
    })
    .await?;
    let object = stage.machines().get("w").await?;
    let host = stage.held().pop().context("a machine is held")?;
    ensure!(host.status_name == "Allocated" && host.workload_annotations.is_empty(), "{host:?}");
    let id = format!("maas:///az2/{}", host.system_id);
    ensure!(object.spec.provider_id.as_deref() == Some(id.as_str()), "{:?}", object.spec);
    stage.provisioned("w").await?;
    ensure!(stage.machines().get("w").await?.spec.provider_id == Some(id), "it never changes");
    stage.strike().await
}

/// R2, R13: cores and memory always; zone, pool and every single tag when the user asks for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_r13_every_constraint_reaches_maas() -> Result<()> {
    let stage = stage("r2-constraints").await?;
    stage.cluster("c", "", "")?;
    let choosy = Machine::worker("choosy")
        .with("failureDomain: az2")
        .with("resourcePool: workers")
        .with("tags: [gpu, nvme]");
    stage.machine("c", &choosy)?;
    let host = stage.provisioned("choosy").await?;
    ensure!(host.hostname == "az2-large-1", "the only one with all of that: {host:?}");
    let call = stage.calls("allocate").pop().context("allocate was called")?;
    ensure!(params(&call, "cpu_count") == ["2"] && params(&call, "mem") == ["4096"], "{call:?}");
    ensure!(params(&call, "zone") == ["az2"] && params(&call, "pool") == ["workers"], "{call:?}");
    ensure!(params(&call, "tags") == ["gpu", "nvme"], "{call:?}");
    // MAAS must not compose a virtual machine unasked.
    ensure!(params(&call, "not_pod_type") == ["lxd", "virsh"], "{call:?}");
    let mark = stage.machines().get("choosy").await?;
    let mark = mark.metadata.annotations.context("annotations")?["capmaas.io/mark"].clone();
    ensure!(params(&call, "agent_name") == [mark], "{call:?}");
    stage.strike().await
}

/// R2: what is blank or null asks for nothing; the Machine's failure domain counts if the
/// MaasMachine names none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_b039_blank_and_null_are_no_constraint() -> Result<()> {
    let stage = stage("r2-blank").await?;
    stage.cluster("c", "", "")?;
    let forms = [
        ("nothing", vec!["resourcePool: null", "tags: []"]),
        ("blank", vec!["resourcePool: ''", "tags: ['']", "failureDomain: ''"]),
        ("spaces", vec!["resourcePool: ' '", "tags: [' ']", "failureDomain: ' '"]),
    ];
    for (name, fields) in &forms {
        let machine = fields.iter().fold(Machine::worker(name), |m, f| m.with(f));
        stage.machine("c", &machine)?;
        stage.provisioned(name).await?;
    }
    for call in stage.calls("allocate") {
        for name in ["zone", "pool", "tags"] {
            ensure!(params(&call, name).is_empty(), "{call:?}");
        }
    }
    stage.maas.clear_calls();
    let placed = Machine { failure_domain: Some("az2".into()), ..Machine::worker("placed") };
    stage.machine("c", &placed)?;
    ensure!(stage.provisioned("placed").await?.zone == "az2");
    ensure!(params(&stage.calls("allocate")[0], "zone") == ["az2"], "{:?}", story(&stage));
    stage.strike().await
}
