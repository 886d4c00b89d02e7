//! What the process serves: `/healthz` and `/readyz`.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::sync::watch::Receiver;

/// Serves health on an address until the process ends. Ready is who waits for nothing.
///
/// # Errors
/// When the address cannot be bound.
pub async fn health(address: SocketAddr, waits_for: Receiver<String>) -> Result<()> {
    let readiness = move || async move {
        let waits_for = waits_for.borrow().clone();
        match waits_for.is_empty() {
            true => (StatusCode::OK, "ok".to_owned()),
            false => (StatusCode::SERVICE_UNAVAILABLE, waits_for),
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
