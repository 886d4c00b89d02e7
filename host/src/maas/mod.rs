//! The MAAS REST API 2.0, as far as a reconcile needs it.
//!
//! One door: [`Client::read`] and [`Client::perform`] carry out what `core` asks for, and nothing
//! else in the program talks to MAAS. Facts about MAAS's odd codes stand where they matter.

mod answer;
mod answers;
mod client;
mod credentials;
mod effects;
mod endpoint;
mod gathering;
mod health;
mod reads;
mod trust;
mod wire;

pub use answer::Answer;
pub use client::Client;
pub use credentials::ApiKey;
pub use endpoint::Endpoint;
pub use reads::reply;
pub use wire::Options;
