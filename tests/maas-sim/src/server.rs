//! The HTTP server around the region, and the faults of calls.

use crate::faults::FaultAction;
use crate::record::Call;
use crate::reply::Reply;
use crate::request::Request;
use crate::world::World;
use crate::{control, routes};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request as HttpRequest, Response};
use hyper_util::rt::TokioIo;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub(crate) type Shared = Arc<Mutex<World>>;
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The bundled nginx refuses larger bodies.
const NGINX_LIMIT: usize = 10 * 1024 * 1024;
/// Beyond this we do not even read on.
const READ_LIMIT: usize = 64 * 1024 * 1024;
/// MAAS's API description is hashed; the value only has to look like one.
const API_HASH: &str = "36763f1444f05f8c565d0292aabefcaa9ece4369";

/// The region, with everything done that is due. A panic in another handler does not make it unusable.
pub(crate) fn lock(world: &Shared) -> MutexGuard<'_, World> {
    let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
    world.tick();
    world
}

pub(crate) async fn serve(listener: TcpListener, world: Shared) {
    // Dropping the set, with this task, ends all connections.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        // Small replies must not wait for acknowledgements.
        let _ = stream.set_nodelay(true);
        let world = Arc::clone(&world);
        connections.spawn(async move {
            let service = service_fn(move |request| handle(Arc::clone(&world), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // An error here is a connection that a client or a fault cut.
            let _ = connection.await;
        });
    }
}

async fn handle(world: Shared, request: HttpRequest<Incoming>) -> Result<Response<Paced>, Failure> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, READ_LIMIT).collect().await?.to_bytes();
    let path = parts.uri.path();
    if path == "/sim" || path.starts_with("/sim/") {
        let reply = control::answer(&mut lock(&world), parts.method.as_str(), path, &body);
        return Ok(response(&reply, Pace::default(), false));
    }
    if body.len() > NGINX_LIMIT {
        let reply = Reply::nginx(413, "Request Entity Too Large");
        let request = Request::new(&parts, &[]);
        record(&world, &request);
        return Ok(response(&reply, Pace::default(), false));
    }
    let request = Request::new(&parts, &body);
    let seq = record(&world, &request);
    let actions = lock(&world).faults.strike(&request);
    perform(&world, &request, seq, &actions).await
}

/// Does the work and whatever the faults make of it.
async fn perform(
    world: &Shared,
    request: &Request,
    seq: u64,
    actions: &[FaultAction],
) -> Result<Response<Paced>, Failure> {
    let cut = || Failure::from("cut by a fault");
    let head = request.method == "HEAD";
    for action in actions {
        match action {
            FaultAction::Delay { ms } => tokio::time::sleep(Duration::from_millis(*ms)).await,
            FaultAction::CloseBefore => {
                note(world, seq, |call| call.reply_dropped = true);
                return Err(cut());
            }
            FaultAction::Answer { status, content_type, body, retry_after } => {
                note(world, seq, |call| call.status = *status);
                let mut reply = Reply::custom(*status, content_type, body);
                if let Some(seconds) = retry_after {
                    reply = reply.header("Retry-After", &seconds.to_string());
                }
                return Ok(response(&reply, Pace::default(), head));
            }
            _ => {}
        }
    }
    let mut reply = work(world, request, seq);
    let mut pace = Pace::default();
    for action in actions {
        match action {
            FaultAction::DelayReply { ms } => tokio::time::sleep(Duration::from_millis(*ms)).await,
            FaultAction::DropReply => {
                note(world, seq, |call| call.reply_dropped = true);
                return Err(cut());
            }
            FaultAction::WorkThenAnswer { status, content_type, body } => {
                note(world, seq, |call| call.status = *status);
                reply = Reply::custom(*status, content_type, body);
            }
            FaultAction::SlowBody { ms } => pace.over = Duration::from_millis(*ms),
            FaultAction::Truncate { bytes } => {
                note(world, seq, |call| call.reply_dropped = true);
                pace.cut_at = Some(*bytes);
            }
            _ => {}
        }
    }
    Ok(response(&reply, pace, head))
}

fn work(world: &Shared, request: &Request, seq: u64) -> Reply {
    let (reply, user) = routes::answer(&mut lock(world), request);
    note(world, seq, |call| {
        call.status = reply.status;
        call.user = user;
    });
    reply
}

fn record(world: &Shared, request: &Request) -> u64 {
    let mut world = lock(world);
    let seq = world.next_id("call");
    let at = world.now().as_secs_f64();
    world.calls.push(Call {
        seq,
        method: request.method.clone(),
        path: request.shown.clone(),
        op: request.op.clone(),
        params: request.recorded(),
        status: 0,
        user: String::new(),
        reply_dropped: false,
        at,
    });
    seq
}

fn note(world: &Shared, seq: u64, with: impl FnOnce(&mut Call)) {
    if let Some(call) = lock(world).calls.iter_mut().rfind(|c| c.seq == seq) {
        with(call);
    }
}

fn response(reply: &Reply, pace: Pace, head: bool) -> Response<Paced> {
    let mut builder = Response::builder()
        .status(reply.status)
        .header("Server", "nginx/1.22.1")
        .header("Content-Type", &reply.content_type)
        .header("X-Frame-Options", "DENY");
    builder = match reply.piston {
        true => builder.header("X-MAAS-API-Hash", API_HASH).header("Vary", "Authorization, Cookie"),
        false => builder.header("Vary", "Cookie"),
    };
    for (name, value) in &reply.headers {
        builder = builder.header(*name, value);
    }
    let body = if head || reply.status == 204 { vec![] } else { reply.body.clone() };
    let paced = Paced::new(body, &pace);
    match builder.body(paced) {
        Ok(response) => response,
        // Only a fault with an impossible status or content type comes here.
        Err(error) => {
            let mut response =
                Response::new(Paced::new(error.to_string().into_bytes(), &Pace::default()));
            *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

/// How a body is sent.
#[derive(Default)]
struct Pace {
    over: Duration,
    cut_at: Option<usize>,
}

/// A body that may be slow, or end too early although its length was announced.
struct Paced {
    left: Bytes,
    announced: u64,
    piece: usize,
    pause: Duration,
    wait: Option<Pin<Box<tokio::time::Sleep>>>,
    cut: bool,
}

const PIECES: u32 = 10;

impl Paced {
    fn new(body: Vec<u8>, pace: &Pace) -> Self {
        let announced = u64::try_from(body.len()).unwrap_or(u64::MAX);
        let mut left = Bytes::from(body);
        let cut = pace.cut_at.is_some_and(|at| at < left.len());
        if let Some(at) = pace.cut_at {
            left.truncate(at);
        }
        let slow = !pace.over.is_zero();
        let piece = if slow { left.len().div_ceil(10).max(1) } else { left.len().max(1) };
        Self { left, announced, piece, pause: pace.over / PIECES, wait: None, cut }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(wait) = &mut self.wait {
            if wait.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.wait = None;
        }
        if self.left.is_empty() {
            return match self.cut {
                true => Poll::Ready(Some(Err(Failure::from("cut by a fault")))),
                false => Poll::Ready(None),
            };
        }
        let size = self.piece.min(self.left.len());
        let piece = self.left.split_to(size);
        // A cut body waits a moment too, so that what precedes the cut really leaves.
        let pause = if self.cut { self.pause.max(Duration::from_millis(20)) } else { self.pause };
        if !pause.is_zero() {
            self.wait = Some(Box::pin(tokio::time::sleep(pause)));
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.announced)
    }
}
