//! The body of a reply on its way through the gate.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, SizeHint};

/// Why a body ended before its end.
#[derive(Debug)]
pub(crate) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut by the gate")
    }
}

impl std::error::Error for Cut {}

pub(crate) type Boxed = http_body_util::combinators::BoxBody<Bytes, Cut>;

pub(crate) fn whole(bytes: impl Into<Bytes>) -> Boxed {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// What has been ordered for all streams that are open at that time; the values are numbers of calls.
#[derive(Default)]
pub(crate) struct Orders {
    /// Streams of calls before this one say nothing more.
    pub(crate) silent: AtomicUsize,
    /// Streams of calls before this one end.
    pub(crate) ended: AtomicUsize,
    /// Wakes the streams when an order is given.
    pub(crate) news: tokio::sync::Notify,
}

/// A reply's body, subject to orders, and to what its own call shall suffer.
pub(crate) struct Stream {
    pub(crate) inner: Pin<Box<reqwest::Body>>,
    pub(crate) number: usize,
    pub(crate) orders: Arc<Orders>,
    pub(crate) mute: bool,
    /// Bytes that may still pass.
    pub(crate) left: usize,
    pub(crate) woken: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl Stream {
    pub(crate) fn new(
        inner: reqwest::Body,
        number: usize,
        orders: Arc<Orders>,
        mute: bool,
        left: usize,
    ) -> Self {
        Self { inner: Box::pin(inner), number, orders, mute, left, woken: None }
    }

    /// Registers for the next order.
    fn listen(&mut self, cx: &mut Context<'_>) {
        loop {
            let woken = self.woken.get_or_insert_with(|| {
                let orders = self.orders.clone();
                Box::pin(async move { orders.news.notified().await })
            });
            match woken.as_mut().poll(cx) {
                Poll::Ready(()) => self.woken = None,
                Poll::Pending => return,
            }
        }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.listen(cx);
        loop {
            if self.number < self.orders.ended.load(Ordering::SeqCst) || self.left == 0 {
                return Poll::Ready(Some(Err(Cut)));
            }
            let frame = match self.inner.as_mut().poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(frame) => frame,
            };
            let silent = self.mute || self.number < self.orders.silent.load(Ordering::SeqCst);
            match frame {
                // Nobody is told that the server has ended it, either.
                None | Some(Err(_)) if silent => return Poll::Pending,
                Some(Ok(_)) if silent => {}
                None => return Poll::Ready(None),
                Some(Err(_)) => return Poll::Ready(Some(Err(Cut))),
                Some(Ok(frame)) => {
                    let Ok(mut data) = frame.into_data() else { continue };
                    data.truncate(self.left);
                    if self.left != usize::MAX {
                        self.left -= data.len();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
