//! What the process serves: `/healthz` and `/readyz`.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::sync::watch::Receiver;

/// Serves health on an address until the process ends.
///
/// # Errors
/// When the address cannot be bound.
pub async fn health(address: SocketAddr, ready: Receiver<bool>) -> Result<()> {
    let readiness = move || async move {
        match *ready.borrow() {
            true => (StatusCode::OK, "ok"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
        }
    };
    let routes =
        Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(readiness));
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("--health-addr {address} cannot be bound"))?;
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(())
}
