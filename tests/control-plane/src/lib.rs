//! A real Kubernetes control plane on one machine, without containers, for tests.
//!
//! [`Binaries`] finds or builds the programs, [`ManagementPlane`] starts etcd, kube-apiserver, kube-controller-manager and
//! Cluster API as plain processes, and [`Workload`] plays the cluster that Cluster API creates. [`Registry`] is a real OCI
//! registry, which needs none of them.

mod api_server;
mod audit;
mod binaries;
mod cluster_api;
mod engine;
mod kubeconfig;
mod manifests;
mod pki;
mod plane;
mod ports;
mod process;
mod registry;
mod tools;
mod workload;

pub use audit::AuditedCall;
pub use binaries::{Binaries, CLUSTER_API_VERSION, KUBERNETES_VERSION, Progress};
pub use plane::{ManagementPlane, PlaneOptions};
pub use registry::{Registry, RegistryOptions};
pub use workload::{Boot, Fleet, Host, Workload, WorkloadFollower};
