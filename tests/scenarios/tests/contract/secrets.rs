//! Secrets stay secret.

use anyhow::{Result, ensure};
use maas_sim::OperatorAct;
use scenarios::{Machine, StageOptions};

use crate::support::{bootstrap_of, stage_with};

/// Everything that handles a secret logs all it can; compiling policies would only fill the disk.
const TALKATIVE: &str = "--log=debug,capmaas=trace,capmaas_core=trace,hyper=trace,hyper_util=trace,\
                         reqwest=trace,kube_client=trace,cranelift_codegen=off,regalloc2=off,\
                         wasmtime=off,wasmtime_cranelift=off,wasmtime_environ=off";

/// Neither the API key nor bootstrap data shows up in the log, in an event or in an object, however
/// much is logged and whatever goes wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_key_nor_bootstrap_data_is_shown_anywhere() -> Result<()> {
    let stage = stage_with("secrets", StageOptions::default()).await?;
    stage.controller.kill();
    stage.controller.replace_flag("--log=info,capmaas=debug", TALKATIVE);
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.cluster("c", "", "")?;
    let data = "#cloud-config\npassword: correct-horse-battery-staple\n".to_owned();
    stage.machine("c", &Machine { bootstrap: Some(data.clone()), ..Machine::worker("w") })?;
    stage.machine("c", &Machine::worker("failing"))?;
    let host = stage.provisioned("w").await?;
    stage.maas.operator(&host.system_id, OperatorAct::PowerOff)?;
    stage.provisioned("failing").await?;
    let key = stage.maas.api_key();
    stage.maas.replace_key("admin")?;
    stage.machine("c", &Machine::worker("late"))?;
    stage.reason("late", "MachineDeployed", "MaasUnauthorized").await?;

    let log = stage.controller.log();
    let kinds = "events.events.k8s.io,maasclusters,maasmachines,machines.cluster.x-k8s.io";
    let objects = stage.plane.kubectl(&["-n", &stage.namespace, "get", kinds, "-o", "yaml"])?;
    let secret = key.rsplit(':').next().unwrap_or_default().to_owned();
    ensure!(secret.len() > 20, "the scenario has no secret to look for");
    let forbidden =
        [secret, "correct-horse".into(), bootstrap_of("failing"), "# of failing".into()];
    for word in &forbidden {
        ensure!(!log.contains(word), "the log shows {word:?}");
        ensure!(!objects.contains(word), "an object or event shows {word:?}");
    }
    ensure!(log.contains("TRACE") && objects.contains("MachineAllocated"), "nothing was looked at");

    stage.controller.kill();
    let key = stage.maas.replace_key("admin")?;
    stage.use_key(&key);
    stage.controller.replace_flag(TALKATIVE, "--log=info");
    stage.controller.start()?;
    stage.controller.watching().await?;
    stage.strike().await
}
