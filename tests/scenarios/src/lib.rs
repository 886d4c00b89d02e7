//! What scenarios, demo and playground share: a stage on which the real controller plays with a
//! simulated MAAS, on a real control plane.

mod controller;
mod manifests;
mod stage;

pub use controller::{Controller, controller_binary};
pub use manifests::{ClusterShape, kubeadm_cluster, scalable};
pub use stage::{Machine, Stage, StageOptions, eventually, install_chart};
