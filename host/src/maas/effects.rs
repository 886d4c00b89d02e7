use capmaas_core::{CallError, Category, Effect, Reply};
use reqwest::Method;
use serde_json::value::RawValue;

use super::answers;

use super::reads::{constraint_parameters, machine_path};
use super::wire::{Call, Wire};

/// Carries out one effect. `user_data` is the bootstrap data that a deploy or a power-on sends.
pub(super) async fn perform(
    maas: &Wire,
    effect: &Effect,
    user_data: Option<&str>,
) -> Result<Reply, CallError> {
    match effect {
        Effect::Allocate { constraints, mark, comment } => {
            let mut form = constraint_parameters(constraints);
            if let Some(id) = &constraints.system_id {
                form.push(("system_id", id.clone()));
            }
            form.push(("agent_name", mark.clone()));
            form.push(("comment", comment.clone()));
            // Otherwise MAAS may make a virtual machine where nothing fits, in another zone.
            form.push(("not_pod_type", "lxd".into()));
            form.push(("not_pod_type", "virsh".into()));
            let call = Call::send(Method::POST, "machines/", Some("allocate"), form);
            shown(maas.call(call).await?)
        }
        Effect::Annotate { machine, annotations } => {
            let form = annotations.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
            operation(maas, machine.system_id(), "set_workload_annotations", form).await
        }
        Effect::SwapOff { machine } => {
            let path = machine_path(machine.system_id())?;
            let form = vec![("swap_size", "0".to_owned())];
            shown(maas.call(Call::send(Method::PUT, &path, None, form)).await?)
        }
        Effect::Deploy { machine, distro_series, in_memory, mark, .. } => {
            let Some(data) = user_data else {
                return Err(CallError::new(
                    Category::BadRequest,
                    "the bootstrap data is not at hand",
                ));
            };
            let mut form =
                vec![("distro_series", distro_series.clone()), ("user_data", data.to_owned())];
            if *in_memory {
                form.push(("ephemeral_deploy", "true".into()));
            }
            form.extend(mark.iter().map(|mark| ("agent_name", mark.clone())));
            operation(maas, machine.system_id(), "deploy", form).await
        }
        Effect::Release { machine, comment } => {
            // No erase parameter at all: MAAS takes any text, "0" included, for true.
            let form = vec![("comment", comment.clone())];
            operation(maas, machine.system_id(), "release", form).await
        }
        Effect::MarkBroken { machine, comment } => {
            let form = vec![("comment", comment.clone())];
            operation(maas, machine.system_id(), "mark_broken", form).await
        }
        Effect::PowerOn { machine, .. } => {
            let form = user_data.map(|d| ("user_data", d.to_owned())).into_iter().collect();
            operation(maas, machine.system_id(), "power_on", form).await
        }
        Effect::PowerOff { machine } => {
            operation(maas, machine.system_id(), "power_off", vec![]).await
        }
        Effect::CreateDns { fqdn, ttl } => {
            let form = vec![
                ("fqdn", fqdn.clone()),
                ("address_ttl", ttl.to_string()),
                ("ip_addresses", String::new()),
            ];
            record(maas.call(Call::send(Method::POST, "dnsresources/", None, form)).await?)
        }
        Effect::SetDnsAddresses { id, addresses, ttl } => {
            let path = format!("dnsresources/{id}/");
            // One value, parted by spaces: commas are an error 500, and of a repeated key MAAS
            // takes the last without a word.
            let form =
                vec![("ip_addresses", addresses.join(" ")), ("address_ttl", ttl.to_string())];
            record(maas.call(Call::send(Method::PUT, &path, None, form)).await?)
        }
        Effect::DeleteDns { id } => {
            let path = format!("dnsresources/{id}/");
            match maas.call(Call::send(Method::DELETE, &path, None, vec![])).await {
                Ok(_) => Ok(Reply::Completed),
                Err(error) if error.category == Category::NotFound => Ok(Reply::Completed),
                Err(error) => Err(error),
            }
        }
        Effect::ReleaseAddress { ip } => {
            let form = vec![("ip", ip.clone())];
            maas.call(Call::send(Method::POST, "ipaddresses/", Some("release"), form)).await?;
            Ok(Reply::Completed)
        }
        Effect::Patch { .. } | Effect::SetNodeProviderId { .. } => {
            Err(CallError::new(Category::Malformed, "not an effect in MAAS"))
        }
    }
}

async fn operation(
    maas: &Wire,
    system_id: &str,
    op: &str,
    form: Vec<(&str, String)>,
) -> Result<Reply, CallError> {
    let path = machine_path(system_id)?;
    let answer = maas.call(Call::send(Method::POST, &path, Some(op), form)).await?;
    // Power-off of a machine with manual power answers `null`.
    if answer.get() == "null" { Ok(Reply::Completed) } else { shown(answer) }
}

fn shown(answer: Box<RawValue>) -> Result<Reply, CallError> {
    // It was carried out: an answer that cannot be read leaves open what it said.
    let machine =
        answers::machine(&answer).map_err(|e| CallError { category: Category::Unknown, ..e })?;
    Ok(Reply::Machine(Box::new(machine)))
}

fn record(answer: Box<RawValue>) -> Result<Reply, CallError> {
    let record = answers::dns_resource(&answer)
        .map_err(|e| CallError { category: Category::Unknown, ..e })?;
    Ok(Reply::Dns(vec![record]))
}
