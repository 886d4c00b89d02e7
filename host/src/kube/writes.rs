use capmaas_api::{MaasCluster, MaasMachine};
use capmaas_core::{CallError, Category, ObjectPatch, ObjectRef, Reply};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Patch, PatchParams, Request};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::call_error;

/// Our name among the writers of an object. Not `manager`, whose entries Cluster API strips.
pub(super) const FIELD_MANAGER: &str = "capmaas-controller";

/// Writes what is ours of an object outside its status, under its resource version.
pub async fn patch_object(client: &Client, object: &ObjectRef, patch: &ObjectPatch) -> Reply {
    let body = merge_patch(patch);
    let written = match object.kind.as_str() {
        "MaasMachine" => send::<MaasMachine>(client, object, &body).await,
        "MaasCluster" => send::<MaasCluster>(client, object, &body).await,
        _ => return unknown_kind(object),
    };
    match written {
        Ok(Version { resource_version, generation }) => {
            Reply::Written { resource_version: resource_version.unwrap_or_default(), generation }
        }
        Err(error) => Reply::Failed(call_error(&error)),
    }
}

/// Reads an object straight from the API server.
pub async fn read_object(client: &Client, object: &ObjectRef) -> Reply {
    match object.kind.as_str() {
        "MaasMachine" => get::<MaasMachine>(client, object).await,
        "MaasCluster" => get::<MaasCluster>(client, object).await,
        _ => unknown_kind(object),
    }
}

fn merge_patch(patch: &ObjectPatch) -> Value {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".into(), json!(patch.resource_version));
    if !patch.annotations.is_empty() {
        metadata.insert("annotations".into(), json!(patch.annotations));
    }
    if let Some(finalizers) = &patch.finalizers {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
    let mut body = json!({ "metadata": metadata });
    if !patch.spec.is_empty() {
        body["spec"] = json!(patch.spec);
    }
    body
}

async fn send<K: Resource<DynamicType = ()>>(
    client: &Client,
    object: &ObjectRef,
    body: &Value,
) -> Result<Version, kube::Error> {
    let at = Request::new(K::url_path(&(), Some(&object.namespace)));
    let request = at.patch_metadata(&object.name, &params(), &Patch::Merge(body));
    let written: Written = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(written.metadata)
}

/// How we patch.
pub(super) fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() }
}

/// All that is read of the answer to a write: the object itself comes by the watch, and reading the whole of it, managed
/// fields and all, costs more than the call.
#[derive(Deserialize)]
pub(super) struct Written {
    pub(super) metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Version {
    pub(super) resource_version: Option<String>,
    generation: Option<i64>,
}

async fn get<K>(client: &Client, object: &ObjectRef) -> Reply
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace);
    match api.get_opt(&object.name).await {
        Ok(Some(found)) => serde_json::to_value(found).map_or_else(
            |_| Reply::Failed(CallError::new(Category::Malformed, "the object cannot be read")),
            Reply::Object,
        ),
        Ok(None) => Reply::Absent,
        Err(error) => Reply::Failed(call_error(&error)),
    }
}

fn unknown_kind(object: &ObjectRef) -> Reply {
    Reply::Failed(CallError::new(
        Category::Malformed,
        format!("{} is no kind of ours", object.kind),
    ))
}
