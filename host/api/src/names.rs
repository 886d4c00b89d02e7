//! Names that outlive a process: finalizers, annotations, labels.
//!
//! Finalizers and Cluster API's names are those of the Go provider and of Cluster API, so that
//! objects of either are understood. Everything under `capmaas.io/` is ours.

/// The API group of our kinds.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// The API group of `MaasPolicy`.
pub const POLICY_GROUP: &str = "policy.capmaas.io";
/// The API group of `Cluster` and `Machine`.
pub const CLUSTER_GROUP: &str = "cluster.x-k8s.io";

/// Finalizer of a `MaasCluster`; the Go provider's name.
pub const CLUSTER_FINALIZER: &str = "maascluster.infrastructure.cluster.x-k8s.io";
/// Finalizer of a `MaasMachine`; the Go provider's name.
pub const MACHINE_FINALIZER: &str = "maasmachine.infrastructure.cluster.x-k8s.io";

/// Present on an object: leave it alone (value ignored).
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Present on an infrastructure cluster: somebody else manages it.
pub const MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";
/// Present while `clusterctl move` deletes the source object.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Label: name of the `Cluster` an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Label: present on control-plane machines.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// Label by which several controllers share one API server.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";

/// The random mark under which a `MaasMachine` allocates; minted once, never changed.
pub const MARK_ANNOTATION: &str = "capmaas.io/mark";
/// System id of a host that the Go provider had allocated and that is being taken over.
pub const INHERITED_ANNOTATION: &str = "capmaas.io/inherited";
/// Unix seconds of an allocate call whose outcome is not known yet.
pub const ALLOCATING_SINCE_ANNOTATION: &str = "capmaas.io/allocating-since";
/// JSON list of hosts that failed for this `MaasMachine`.
pub const FAILED_HOSTS_ANNOTATION: &str = "capmaas.io/failed-hosts";
/// The DNS name generated for the cluster; written before the record exists.
pub const DNS_NAME_ANNOTATION: &str = "capmaas.io/dns-name";
/// The id of the MAAS DNS resource that we created; only such a record is ever deleted.
pub const DNS_RESOURCE_ANNOTATION: &str = "capmaas.io/dns-resource-id";
/// Addresses that our record reserved in MAAS and that are to be given back (space-separated).
pub const DNS_RESERVED_ANNOTATION: &str = "capmaas.io/dns-reserved";
/// JSON list of the hosts that served the cluster and left it, newest first.
pub const FORMER_HOSTS_ANNOTATION: &str = "capmaas.io/former-hosts";
