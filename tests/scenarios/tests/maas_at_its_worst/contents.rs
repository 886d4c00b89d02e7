//! MAAS shows of a machine what nobody has seen before.

use anyhow::{Context, Result, ensure};
use gate::{Act, Rule, Side};
use scenarios::{Colleague, Machine, eventually};
use serde_json::{Value, json};

use crate::support::{stage, story};

/// Fields of later versions do not matter; a status of later versions is waited out; `null` where a value was is
/// either of no importance or an answer that nothing is made of. The machine is left alone in every case.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_looks_strange_is_left_alone() -> Result<()> {
    let stage = stage("worst-contents").await?;
    stage.cluster("c", "", "")?;
    stage.machine("c", &Machine::worker("w"))?;
    let host = stage.provisioned("w").await?;
    let path = format!("/machines/{}/", host.system_id);
    let other = Colleague::of(&stage.maas);
    let plain = other.call("GET", &path, &[]).await?;
    let changes = [
        (json!({ "status": 99, "status_name": "Entangled" }), Some("MachineStateUndefined")),
        (json!({ "quantum": { "spin": [1, null] }, "power_state": "maybe" }), None),
        (json!({ "hostname": null, "fqdn": null, "zone": null, "pool": null }), None),
        (json!({ "status": null, "status_name": null }), None),
        (json!({ "workload_annotations": null, "owner_data": null }), None),
        (json!({ "ip_addresses": null, "power_state": null, "tag_names": null }), None),
    ];
    stage.maas.clear_calls();
    for (change, reason) in changes {
        let mut shown = plain.clone();
        let fields = change.as_object().context("fields")?;
        for (field, value) in fields {
            shown[field] = value.clone();
        }
        let looks = stage.gate.count();
        let headers = vec![("content-type", "application/json".to_owned())];
        let body = shown.to_string();
        let strange = Act::Answer { status: 200, headers, body };
        stage.gate.add(Rule::on(Side::Maas, "GET", &path, strange));
        eventually("it is looked at twice", 60, async || {
            let calls = stage.gate.calls();
            let seen = calls[looks..].iter().filter(|c| c.act == Some("answer")).count();
            Ok((seen >= 2).then_some(()))
        })
        .await
        .with_context(|| change.to_string())?;
        if let Some(reason) = reason {
            let message = stage.reason("w", "MachineDeployed", reason).await?;
            ensure!(message.contains("Entangled"), "{message}");
        }
        let status = stage.machines().get("w").await?.status.context("a status")?;
        ensure!(status.failure_reason.is_none(), "{change}: {status:?}");
        stage.gate.clear_rules();
        stage.provisioned("w").await?;
    }
    // Annotations that somebody cleared are set again, as the mark still proves whose the machine is.
    let done = story(&stage);
    ensure!(done.iter().all(|word| word == "set_workload_annotations"), "{done:?}");
    ensure!(plain["hostname"] == Value::from(host.hostname));
    stage.strike().await
}
