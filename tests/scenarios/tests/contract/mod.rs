//! What Cluster API expects of an infrastructure provider.

mod hands_off;
mod objects;
mod secrets;
mod workload;
