//! Scenarios: the real controller, the real control plane, a simulated MAAS.
//!
//! One binary, so that all of them share one control plane. Each has a namespace, a MAAS and a
//! controller process of its own, and fails if the controller was ever refused a right that the
//! chart should have granted.

// First in the alphabet, so that the longest story begins first.
mod a_whole_cluster;
mod bad_input;
mod contract;
mod crashes;
mod failures;
mod field_cases;
mod kubernetes_at_its_worst;
mod maas_at_its_worst;
mod policies;
mod policy_objects;
mod requirements;
mod support;
mod takeover;
mod two_actors;

use control_plane::ManagementPlane;

/// The control plane that all scenarios share.
fn plane() -> &'static ManagementPlane {
    ManagementPlane::shared().expect("the control plane starts")
}
