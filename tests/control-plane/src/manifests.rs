//! Cluster API's manifests, made fit for managers that are plain processes, and applied.

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};

/// Kinds that only make sense with pods or with cert-manager.
const LEFT_OUT: [&str; 4] = ["Deployment", "Certificate", "Issuer", "Service"];

/// The documents of a manifest, without what needs pods, webhooks turned towards a port on loopback.
pub(crate) fn adapt(yaml: &str, port: u16, ca_pem: &str) -> Result<Vec<Value>> {
    let ca = STANDARD.encode(ca_pem);
    let mut adapted = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(yaml) {
        let mut object = Value::deserialize(document).context("read a manifest")?;
        let Some(kind) = object["kind"].as_str().map(str::to_owned) else {
            continue;
        };
        if LEFT_OUT.contains(&kind.as_str()) {
            continue;
        }
        if let Some(client) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
            turn(client, port, &ca);
        }
        if kind.ends_with("WebhookConfiguration")
            && let Some(webhooks) = object["webhooks"].as_array_mut()
        {
            for webhook in webhooks {
                turn(&mut webhook["clientConfig"], port, &ca);
            }
        }
        adapted.push(object);
    }
    Ok(adapted)
}

fn turn(client: &mut Value, port: u16, ca: &str) {
    let path = client["service"]["path"].as_str().unwrap_or("/").to_owned();
    *client = json!({
        "url": format!("https://127.0.0.1:{port}{path}"),
        "caBundle": ca,
    });
}

/// Applies objects in the order in which they depend on one another.
pub(crate) async fn apply(client: &Client, objects: Vec<Value>) -> Result<()> {
    let (first, rest): (Vec<_>, Vec<_>) = objects
        .into_iter()
        .partition(|object| matches!(object["kind"].as_str(), Some("Namespace")));
    for wave in [first, rest] {
        let applied = wave.into_iter().map(|object| apply_one(client, object));
        futures::future::try_join_all(applied).await?;
    }
    Ok(())
}

async fn apply_one(client: &Client, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().context("an object without a kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object.name_any();
    let parameters = PatchParams::apply("control-plane-test").force();
    api.patch(&name, &parameters, &Patch::Apply(&object))
        .await
        .with_context(|| format!("apply {} {name}", types.kind))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::adapt;

    #[test]
    fn webhooks_turn_to_loopback_and_pods_are_left_out() {
        let yaml = "
kind: Deployment
---
kind: CustomResourceDefinition
spec: {conversion: {webhook: {clientConfig: {service: {path: /convert}}}}}
---
kind: ValidatingWebhookConfiguration
webhooks: [{clientConfig: {service: {path: /validate}}}]
";
        let objects = adapt(yaml, 1234, "pem").expect("adapts");
        assert_eq!(objects.len(), 2);
        let conversion = &objects[0]["spec"]["conversion"]["webhook"]["clientConfig"];
        assert_eq!(conversion["url"], "https://127.0.0.1:1234/convert");
        assert_eq!(conversion.get("service"), None);
        let webhook = &objects[1]["webhooks"][0]["clientConfig"];
        assert_eq!(webhook["url"], "https://127.0.0.1:1234/validate");
        assert_eq!(webhook["caBundle"], "cGVt");
    }
}
