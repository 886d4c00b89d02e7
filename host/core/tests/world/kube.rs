use std::collections::BTreeMap;

use capmaas_api::{ApiEndpoint, MaasCluster, MaasMachine, cluster_api, names};
use capmaas_core::machine::Sibling;
use capmaas_core::{CallError, Category, ObjectPatch, ObjectRef, Reply, SecretState};
use serde_json::{Map, Value, json};

pub(crate) const NAMESPACE: &str = "team";
pub(crate) const CLUSTER: &str = "blue";

/// The management cluster: our objects as JSON, and the few of Cluster API that are read.
#[derive(Clone, Default)]
pub(crate) struct Kube {
    objects: BTreeMap<(String, String), Value>,
    pub(crate) cluster: Option<cluster_api::Cluster>,
    pub(crate) machines: BTreeMap<String, cluster_api::Machine>,
    pub(crate) secrets: BTreeMap<String, SecretState>,
    version: u64,
}

impl Kube {
    pub(super) fn with_cluster() -> Self {
        let mut kube = Self { version: 100, ..Self::default() };
        kube.cluster = Some(cluster_api::Cluster { name: CLUSTER.into(), ..Default::default() });
        kube.insert(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "MaasCluster",
            "metadata": {
                "name": CLUSTER, "namespace": NAMESPACE, "uid": "uid-cluster",
                "labels": { names::CLUSTER_NAME_LABEL: CLUSTER },
            },
            "spec": { "dnsDomain": "maas" },
        }));
        kube
    }

    pub(crate) fn add_machine(&mut self, name: &str, control_plane: bool) {
        let mut labels = json!({ names::CLUSTER_NAME_LABEL: CLUSTER });
        if control_plane {
            labels[names::CONTROL_PLANE_LABEL] = json!("");
        }
        self.insert(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "MaasMachine",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"),
                "labels": labels,
            },
            "spec": { "minCPU": 4, "minMemory": 8192, "image": "ubuntu/noble" },
        }));
        let secret = format!("{name}-bootstrap");
        let mut machine =
            cluster_api::Machine { name: name.into(), control_plane, ..Default::default() };
        machine.spec.cluster_name = CLUSTER.into();
        machine.spec.bootstrap.data_secret_name = Some(secret.clone());
        self.machines.insert(name.into(), machine);
        let present =
            SecretState::Present { digest: "5ec2e7".into(), format: "cloud-config".into() };
        self.secrets.insert(secret, present);
    }

    fn insert(&mut self, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let key = (text(&object["kind"]), text(&object["metadata"]["name"]));
        self.objects.insert(key, object);
    }

    pub(crate) fn maas_machine(&self, name: &str) -> Option<MaasMachine> {
        let value = self.objects.get(&("MaasMachine".into(), name.into()))?;
        Some(serde_json::from_value(value.clone()).expect("a MaasMachine"))
    }

    pub(crate) fn maas_cluster(&self) -> Option<MaasCluster> {
        let value = self.objects.get(&("MaasCluster".into(), CLUSTER.into()))?;
        Some(serde_json::from_value(value.clone()).expect("a MaasCluster"))
    }

    /// Names of the `MaasMachine`s.
    pub(crate) fn names(&self) -> Vec<String> {
        let of_kind = self.objects.keys().filter(|(k, _)| k == "MaasMachine");
        of_kind.map(|(_, name)| name.clone()).collect()
    }

    pub(super) fn maas_machines(&self) -> Vec<Value> {
        let of_kind = self.objects.iter().filter(|((k, _), _)| k == "MaasMachine");
        of_kind.map(|(_, v)| v.clone()).collect()
    }

    pub(super) fn siblings(&self) -> Vec<Sibling> {
        self.names().iter().filter_map(|n| self.maas_machine(n)).map(|m| Sibling::of(&m)).collect()
    }

    pub(super) fn read(&self, object: &ObjectRef) -> Reply {
        let found = self.objects.get(&(object.kind.clone(), object.name.clone()));
        found.map_or(Reply::Absent, |v| Reply::Object(v.clone()))
    }

    pub(super) fn secret(&self, name: &str) -> SecretState {
        self.secrets.get(name).cloned().unwrap_or(SecretState::Missing)
    }

    /// Somebody else changes an object: a merge patch without a version.
    pub(crate) fn edit(&mut self, kind: &str, name: &str, change: &Value) {
        let key = (kind.to_owned(), name.to_owned());
        let Some(mut object) = self.objects.remove(&key) else {
            return;
        };
        merge(&mut object, change);
        let meta = &object["metadata"];
        let held = meta["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        if held || meta["deletionTimestamp"].is_null() {
            self.insert(object);
        }
    }

    /// `kubectl delete`.
    pub(crate) fn delete(&mut self, kind: &str, name: &str) {
        let change = json!({ "metadata": { "deletionTimestamp": "2026-11-30T00:00:00Z" } });
        self.edit(kind, name, &change);
    }

    pub(super) fn patch(&mut self, object: &ObjectRef, patch: &ObjectPatch) -> Reply {
        let key = (object.kind.clone(), object.name.clone());
        let Some(current) = self.objects.get(&key) else {
            return refused(Category::NotFound, "not found");
        };
        let meta = &current["metadata"];
        if meta["resourceVersion"] != json!(patch.resource_version) {
            return refused(Category::Conflict, "the object has been modified");
        }
        let count = |v: &Value| v.as_array().map_or(0, Vec::len);
        let more = patch.finalizers.as_ref().is_some_and(|f| f.len() > count(&meta["finalizers"]));
        if more && !meta["deletionTimestamp"].is_null() {
            return refused(Category::BadRequest, "no new finalizers while being deleted");
        }
        let mut change = json!({ "metadata": { "annotations": patch.annotations } });
        if let Some(finalizers) = &patch.finalizers {
            change["metadata"]["finalizers"] = json!(finalizers);
        }
        change["spec"] = json!(patch.spec);
        // Only where a test is about generations.
        let generation = meta["generation"].as_i64().map(|g| g + i64::from(!patch.spec.is_empty()));
        if generation.is_some() {
            change["metadata"]["generation"] = json!(generation);
        }
        self.edit(&object.kind, &object.name, &change);
        let resource_version = self.version.to_string();
        Reply::Written { resource_version, generation }
    }

    /// Writes a status if it differs, under the version it was computed for.
    pub(super) fn write_status(&mut self, kind: &str, name: &str, version: &str, status: Value) {
        let key = (kind.to_owned(), name.to_owned());
        let Some(object) = self.objects.get_mut(&key) else {
            return;
        };
        let fresh = object["metadata"]["resourceVersion"] == json!(version);
        if fresh && object["status"] != status {
            object["status"] = status;
            let object = object.clone();
            self.insert(object);
        }
    }

    pub(crate) fn infrastructure_is_ready(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.status.infrastructure_ready = Some(true);
        }
    }

    /// What Cluster API copies out of our objects.
    pub(crate) fn cluster_api_follows(&mut self) {
        if let (Some(ours), Some(cluster)) = (self.maas_cluster(), &mut self.cluster)
            && ours.status.as_ref().is_some_and(|s| s.ready)
        {
            cluster.status.infrastructure_ready = Some(true);
            let set = cluster.spec.control_plane_endpoint.as_ref().is_some_and(ApiEndpoint::is_set);
            if !set {
                cluster.spec.control_plane_endpoint = ours.spec.control_plane_endpoint.clone();
            }
        }
        let names: Vec<String> = self.machines.keys().cloned().collect();
        for name in names {
            let Some(ours) = self.maas_machine(&name) else {
                continue;
            };
            let provisioned = ours.status.as_ref().is_some_and(|s| s.ready);
            if let Some(machine) = self.machines.get_mut(&name).filter(|_| provisioned) {
                machine.spec.provider_id = ours.spec.provider_id.clone();
            }
        }
    }
}

/// A JSON merge patch (RFC 7386).
fn merge(target: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *target = change.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in change {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

fn refused(category: Category, message: &str) -> Reply {
    Reply::Failed(CallError { category, status: None, message: message.into(), retry_after: None })
}
