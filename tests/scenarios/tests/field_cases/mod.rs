//! Field cases: what people who run Cluster API providers reported, where no other folder tells of it.

mod chart;
mod cluster_class;
