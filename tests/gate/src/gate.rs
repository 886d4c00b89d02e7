use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::body::{Cut, Orders};
use crate::record::{Call, Side};
use crate::rule::{Act, Rule};
use crate::{certificate, forward};

/// A server behind the gate.
pub struct Upstream<'a> {
    /// Scheme, host and port, like `https://127.0.0.1:6443`.
    pub url: &'a str,
    /// The authority that vouches for it, if it speaks TLS.
    pub ca_pem: Option<&'a str>,
}

type Killer = Arc<dyn Fn() + Send + Sync>;

/// What both doors share.
#[derive(Default)]
pub(crate) struct Shared {
    calls: Mutex<Vec<Call>>,
    rules: Mutex<Vec<Rule>>,
    killer: Mutex<Option<Killer>>,
    kills: tokio::sync::watch::Sender<usize>,
    pub(crate) orders: Arc<Orders>,
}

/// One of the two ways through the gate.
pub(crate) struct Door {
    pub(crate) side: Side,
    pub(crate) upstream: String,
    pub(crate) client: reqwest::Client,
}

/// A gate that stands open until it is dropped.
pub struct Gate {
    shared: Arc<Shared>,
    certificate: String,
    kubernetes: SocketAddr,
    maas: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Gate {
    /// Opens a gate in front of both servers. Towards the controller it speaks TLS as Kubernetes, and plain HTTP as MAAS.
    ///
    /// # Errors
    /// When no port can be had, or a certificate authority is none.
    pub async fn open(kubernetes: Upstream<'_>, maas: Upstream<'_>) -> Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (certificate, tls) = certificate::make()?;
        let shared = Arc::new(Shared::default());
        let mut gate = Self {
            shared,
            certificate,
            kubernetes: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            maas: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tasks: vec![],
        };
        gate.kubernetes = gate.door(Side::Kubernetes, &kubernetes, Some(tls.into())).await?;
        gate.maas = gate.door(Side::Maas, &maas, None).await?;
        Ok(gate)
    }

    async fn door(
        &mut self,
        side: Side,
        upstream: &Upstream<'_>,
        tls: Option<TlsAcceptor>,
    ) -> Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("a port")?;
        let address = listener.local_addr()?;
        let client = forward::client(upstream.ca_pem)?;
        let door = Arc::new(Door { side, upstream: upstream.url.to_owned(), client });
        let shared = self.shared.clone();
        self.tasks.push(tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(welcome(shared.clone(), door.clone(), connection, tls.clone()));
            }
        }));
        Ok(address)
    }

    /// Where the controller finds Kubernetes.
    pub fn kubernetes_url(&self) -> String {
        format!("https://{}", self.kubernetes)
    }

    /// The certificate (PEM) that vouches for the gate as Kubernetes.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Where the controller finds MAAS: scheme, host and port.
    pub fn maas_url(&self) -> String {
        format!("http://{}", self.maas)
    }

    /// How the controller is killed by [`Act::KillBefore`] and [`Act::KillAfter`].
    pub fn kills_with(&self, killer: impl Fn() + Send + Sync + 'static) {
        *lock(&self.shared.killer) = Some(Arc::new(killer));
    }

    /// Adds a rule. The first that strikes a call decides.
    pub fn add(&self, rule: Rule) {
        lock(&self.shared.rules).push(rule);
    }

    /// Takes all rules away.
    pub fn clear_rules(&self) {
        lock(&self.shared.rules).clear();
    }

    /// The calls so far, in the order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.shared.calls).clone()
    }

    /// How many calls came so far.
    pub fn count(&self) -> usize {
        lock(&self.shared.calls).len()
    }

    /// Counts the kills.
    pub fn kills(&self) -> tokio::sync::watch::Receiver<usize> {
        self.shared.kills.subscribe()
    }

    /// The streams of replies that are open now say nothing more, and stay open.
    pub fn silence_streams(&self) {
        self.order(|orders, next| orders.silent.store(next, Ordering::SeqCst));
    }

    /// The streams of replies that are open now break off.
    pub fn cut_streams(&self) {
        self.order(|orders, next| orders.ended.store(next, Ordering::SeqCst));
    }

    fn order(&self, give: impl FnOnce(&Orders, usize)) {
        give(&self.shared.orders, self.count());
        self.shared.orders.news.notify_waiters();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    pub(crate) fn enter(
        &self,
        side: Side,
        method: &Method,
        target: String,
        body: Bytes,
    ) -> (usize, Option<Act>) {
        let mut calls = lock(&self.calls);
        let number = calls.len();
        let method = method.to_string();
        let mut call = Call { number, side, method, target, body, status: None, act: None };
        // Every rule counts every call, also one that another rule strikes.
        let mut rules = lock(&self.rules);
        let struck: Vec<Act> = rules.iter_mut().filter_map(|r| r.strikes(&call)).collect();
        let act = struck.into_iter().next();
        call.act = act.as_ref().map(Act::name);
        calls.push(call);
        (number, act)
    }

    pub(crate) fn answered(&self, number: usize, status: u16) {
        lock(&self.calls)[number].status = Some(status);
    }

    /// Kills the controller, and waits until it is gone.
    pub(crate) async fn kill(&self) {
        let killer = lock(&self.killer).clone();
        if let Some(killer) = killer {
            let _ = tokio::task::spawn_blocking(move || killer()).await;
        }
        self.kills.send_modify(|kills| *kills += 1);
    }
}

async fn welcome(
    shared: Arc<Shared>,
    door: Arc<Door>,
    connection: TcpStream,
    tls: Option<TlsAcceptor>,
) {
    match tls {
        None => serve(shared, door, connection).await,
        Some(tls) => {
            if let Ok(connection) = tls.accept(connection).await {
                serve(shared, door, connection).await;
            }
        }
    }
}

async fn serve(
    shared: Arc<Shared>,
    door: Arc<Door>,
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    // A task of its own: a call goes on at the server when its client has given up.
    let service = service_fn(|request| {
        let call = tokio::spawn(forward::call(shared.clone(), door.clone(), request));
        async move { call.await.unwrap_or(Err(Cut)) }
    });
    let http = hyper::server::conn::http1::Builder::new();
    // It ends with an error each time a rule closes the connection.
    let _ = http.serve_connection(TokioIo::new(connection), service).await;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
