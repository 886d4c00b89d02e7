//! Policies from and to OCI registries: a real one (Debian's `docker-registry`), a client that is not ours (`oras`), and
//! registries that are up to no good.

mod access;
mod cached;
mod common;
mod exchange;
mod hostile;
mod stranger;
