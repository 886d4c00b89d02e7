//! capmaas: a Cluster API infrastructure provider for Canonical MAAS.
//!
//! [`reconcile`] is the heart: a loop that performs, one call at a time, what the pure crate
//! `capmaas-core` asks for. [`watch`] says when it runs, [`maas`], [`kube`] and [`policy`] are the
//! three things it calls, [`config`] is what the operator said.

pub mod cli;
pub mod config;
pub mod decisions;
pub mod kube;
pub mod maas;
pub mod policy;
pub mod reconcile;
pub mod serve;
pub mod watch;
