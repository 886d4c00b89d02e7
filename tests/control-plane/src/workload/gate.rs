//! The gate in front of a workload cluster's API server: what a DNS name is in life.

use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A TCP forwarder that can be open or closed.
#[derive(Clone)]
pub(crate) struct Gate {
    open: Arc<watch::Sender<bool>>,
    address: String,
}

impl Gate {
    /// Listens on a free port of loopback and forwards to `target` (`host:port`) while it is open. It begins closed.
    /// The listener ends with the runtime or with the last handle.
    pub(crate) async fn listen(target: String) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("listen for the gate")?;
        let address = listener.local_addr()?.to_string();
        let (open, state) = watch::channel(false);
        tokio::spawn(accept(listener, state, target));
        Ok(Self { open: Arc::new(open), address })
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.open.borrow()
    }

    /// Opens or closes it; closing cuts every connection.
    pub(crate) fn set(&self, open: bool) {
        self.open.send_if_modified(|state| {
            let changed = *state != open;
            *state = open;
            changed
        });
    }
}

async fn accept(listener: TcpListener, mut state: watch::Receiver<bool>, target: String) {
    loop {
        tokio::select! {
            changed = wait_closed_for_good(&mut state) => return changed,
            accepted = listener.accept() => {
                // dropped at once while closed: the caller sees the connection end, as soon as it would see no address
                if let Ok((stream, _)) = accepted && *state.borrow() {
                    tokio::spawn(forward(stream, target.clone(), state.clone()));
                }
            }
        }
    }
}

/// Returns when the last handle of the gate is gone.
async fn wait_closed_for_good(state: &mut watch::Receiver<bool>) {
    while state.changed().await.is_ok() {}
}

async fn forward(mut inbound: TcpStream, target: String, mut state: watch::Receiver<bool>) {
    let Ok(mut outbound) = TcpStream::connect(&target).await else {
        return;
    };
    let _ = inbound.set_nodelay(true);
    let _ = outbound.set_nodelay(true);
    tokio::select! {
        _ = copy_bidirectional(&mut inbound, &mut outbound) => {}
        // an error means that the gate is gone, which is as good as closed
        _ = state.wait_for(|open| !open) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::Gate;

    async fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("has an address").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn answers(stream: &mut TcpStream) -> bool {
        let mut byte = [0];
        stream.write_all(b"x").await.is_ok() && stream.read_exact(&mut byte).await.is_ok()
    }

    #[tokio::test]
    async fn forwards_only_while_open_and_cuts_when_closed() {
        let gate = Gate::listen(echo().await).await.expect("a gate");
        let connect = || TcpStream::connect(gate.address().to_owned());
        assert!(!answers(&mut connect().await.expect("accepted")).await);
        gate.set(true);
        let mut stream = connect().await.expect("accepted");
        assert!(answers(&mut stream).await);
        gate.set(false);
        assert!(!answers(&mut stream).await || !answers(&mut stream).await);
        assert!(!answers(&mut connect().await.expect("accepted")).await);
    }
}
