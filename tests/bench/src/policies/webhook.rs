//! The same rule behind an HTTP webhook on loopback, as JSON.

use anyhow::Result;
use axum::routing::post;
use axum::{Json, Router};
use capmaas_core::policy::{AllocationRequest, Candidate};
use serde::{Deserialize, Serialize};

use crate::rule;

#[derive(Deserialize)]
struct Question {
    request: AllocationRequest,
    candidates: Vec<Candidate>,
}

/// A question as JSON.
#[derive(Serialize)]
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a AllocationRequest,
    pub(crate) candidates: &'a [Candidate],
}

/// A server in this process, and a client of it: the cost of both ends is counted.
pub(crate) struct Webhook {
    client: reqwest::Client,
    url: String,
}

impl Webhook {
    pub(crate) async fn start() -> Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/rank", listener.local_addr()?);
        let rank =
            async |Json(asked): Json<Question>| Json(rule::rank(&asked.request, &asked.candidates));
        let limit = axum::extract::DefaultBodyLimit::max(16 << 20);
        let router = Router::new().route("/rank", post(rank)).layer(limit);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { client: reqwest::Client::new(), url })
    }

    pub(crate) async fn ask(
        &self,
        request: &AllocationRequest,
        candidates: &[Candidate],
    ) -> Result<Vec<u32>> {
        let asked = Asked { request, candidates };
        let answer = self.client.post(&self.url).json(&asked).send().await?.error_for_status()?;
        Ok(answer.json::<capmaas_core::policy::Ranking>().await?.order)
    }
}
