//! The Kubernetes API: the management cluster, and the workload clusters.
//!
//! Nothing that Cluster API owns is written here: annotations, finalizers and three spec fields of
//! our own kinds, their status, events, and the provider id of a workload Node.

mod cluster_api;
mod connect;
mod errors;
mod events;
mod load;
mod mirror;
mod status;
mod workload;
mod writes;

pub use cluster_api::ClusterApi;
pub use connect::{Clients, connect};
pub use errors::call_error;
pub use events::Events;
pub use load::{Loader, Seen, now};
pub use mirror::{Key, Mirror, Writers};
pub use status::write_status;
pub use workload::Workloads;
pub use writes::{patch_object, read_object};
