//! Applies and deletes without kubectl, for whoever does it a thousand times.

use anyhow::{Context, Result};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams,
};
use kube::{Client, ResourceExt};
use serde::Deserialize;
use tokio::runtime::Handle;

/// Waits for something in the midst of what does not wait.
fn now<T>(what: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| Handle::current().block_on(what))
}

fn api(client: &Client, namespace: &str, kind: &GroupVersionKind) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(kind);
    if kind.kind == "ClusterRoleBinding" {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

/// Applies YAML documents.
pub(crate) fn apply(client: &Client, namespace: &str, yaml: &str) -> Result<()> {
    for document in serde_yaml_ng::Deserializer::from_str(yaml) {
        let object = DynamicObject::deserialize(document)?;
        let types = object.types.clone().context("a kind")?;
        let kind = GroupVersionKind::try_from(&types)?;
        let params = PatchParams::apply("scenarios").force();
        let (name, patch) = (object.name_any(), Patch::Apply(&object));
        let api = api(client, namespace, &kind);
        now(api.patch(&name, &params, &patch)).with_context(|| format!("{} {name}", kind.kind))?;
    }
    Ok(())
}

/// Deletes an object of Cluster API; one that is gone already is no error.
pub(crate) fn delete(client: &Client, namespace: &str, kind: &str, name: &str) -> Result<()> {
    let kind = match kind {
        "machines.cluster.x-k8s.io" => "Machine",
        "clusters.cluster.x-k8s.io" => "Cluster",
        other => anyhow::bail!("it is not known what {other} are"),
    };
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind);
    let deleted = now(api(client, namespace, &kind).delete(name, &DeleteParams::background()));
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).map_err(Into::into),
    }
}
