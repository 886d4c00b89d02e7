//! What the process serves: `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::sync::watch::Receiver;

use crate::policy::Metrics;

/// Serves health and metrics on an address until the process ends. Ready is who waits for nothing.
///
/// # Errors
/// When the address cannot be bound.
pub async fn health(
    address: SocketAddr,
    waits_for: Receiver<String>,
    metrics: &Metrics,
) -> Result<()> {
    let readiness = move || async move {
        let waits_for = waits_for.borrow().clone();
        match waits_for.is_empty() {
            true => (StatusCode::OK, "ok".to_owned()),
            false => (StatusCode::SERVICE_UNAVAILABLE, waits_for),
        }
    };
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let registry = Arc::new(registry);
    let metrics = move || async move {
        /// What `prometheus-client` writes.
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &registry) {
            Ok(()) => (StatusCode::OK, [("content-type", OPEN_METRICS)], text),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, [("content-type", "text/plain")], text),
        }
    };
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics));
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("--health-addr {address} cannot be bound"))?;
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!(%address, "health and metrics are served");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(())
}
