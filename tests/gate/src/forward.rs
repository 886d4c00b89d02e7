//! One call on its way.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::body::{Boxed, Cut, Stream, whole};
use crate::gate::{Door, Shared};
use crate::rule::Act;

/// Lets a call pass, or what the rules make of it. An error closes the connection.
pub(crate) async fn call(
    shared: Arc<Shared>,
    door: Arc<Door>,
    request: Request<Incoming>,
) -> Result<Response<Boxed>, Cut> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    let target = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let (number, act) = shared.enter(door.side, &head.method, target.clone(), body.clone());
    match &act {
        Some(Act::Delay(time)) => tokio::time::sleep(*time).await,
        Some(Act::Answer { status, headers, body }) => {
            let mut reply = Response::builder().status(*status);
            for (name, value) in headers {
                reply = reply.header(*name, value);
            }
            return reply.body(whole(body.clone())).map_err(|_| Cut);
        }
        Some(Act::CloseBefore) => return Err(Cut),
        Some(Act::Hold) => std::future::pending().await,
        Some(Act::KillBefore) => {
            shared.kill().await;
            return Err(Cut);
        }
        _ => {}
    }
    let url = format!("{}{target}", door.upstream);
    let sent = door
        .client
        .request(head.method, url)
        .headers(end_to_end(&head.headers))
        .body(body)
        .send()
        .await;
    // What the server does not take, the controller finds closed.
    let reply = sent.map_err(|_| Cut)?;
    shared.answered(number, reply.status().as_u16());
    match act {
        Some(Act::DelayReply(time)) => tokio::time::sleep(time).await,
        Some(Act::DropReply) => {
            let _ = reply.bytes().await;
            return Err(Cut);
        }
        Some(Act::KillAfter) => {
            let _ = reply.bytes().await;
            shared.kill().await;
            return Err(Cut);
        }
        _ => {}
    }
    let left = if let Some(Act::Truncate(bytes)) = act { bytes } else { usize::MAX };
    let mute = act == Some(Act::Silence);
    Ok(pass(shared, number, reply, mute, left))
}

fn pass(
    shared: Arc<Shared>,
    number: usize,
    reply: reqwest::Response,
    mute: bool,
    left: usize,
) -> Response<Boxed> {
    let reply: Response<reqwest::Body> = reply.into();
    let (head, body) = reply.into_parts();
    let stream = Stream::new(body, number, shared.orders.clone(), mute, left);
    let mut out = Response::new(stream.boxed());
    *out.status_mut() = head.status;
    *out.headers_mut() = end_to_end(&head.headers);
    out
}

/// The header fields that are not about the connection (RFC 9110, section 7.6.1).
fn end_to_end(all: &HeaderMap) -> HeaderMap {
    const OF_THE_CONNECTION: [HeaderName; 5] = [
        http::header::CONNECTION,
        http::header::HOST,
        http::header::TRANSFER_ENCODING,
        http::header::TE,
        http::header::UPGRADE,
    ];
    let mut kept = all.clone();
    for name in OF_THE_CONNECTION {
        kept.remove(name);
    }
    kept
}

/// The client towards a server: what it answers is passed on as it is.
pub(crate) fn client(ca_pem: Option<&str>) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .http1_only()
        .no_proxy();
    if let Some(pem) = ca_pem {
        builder = builder.tls_certs_only([reqwest::Certificate::from_pem(
            &Bytes::copy_from_slice(pem.as_bytes()),
        )?]);
    }
    Ok(builder.build()?)
}
