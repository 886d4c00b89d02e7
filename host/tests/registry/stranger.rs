//! A server that does what a test says, byte by byte, and remembers what it was asked.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn authorization(&self) -> Option<&str> {
        self.header("authorization")
    }
}

/// What it answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Head and body, with the right length.
    Whole(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// These bytes, again and again, in a body that never ends.
    Endless(Vec<u8>),
    /// These very bytes, head and all, one by one with a pause before each; then silence.
    Slow(Vec<u8>, Duration),
    /// Exactly these bytes, then the end of the connection.
    Raw(Vec<u8>),
}

impl Reply {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Whole(200, Vec::new(), body.into())
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Whole(status, Vec::new(), Vec::new())
    }

    pub(crate) fn to(url: impl Into<String>) -> Self {
        Self::Whole(307, vec![("location", url.into())], Vec::new())
    }

    pub(crate) fn challenge(challenge: impl Into<String>) -> Self {
        Self::Whole(401, vec![("www-authenticate", challenge.into())], Vec::new())
    }
}

type Answer = dyn Fn(&Seen) -> Reply + Send + Sync;

/// The server; it is gone when the runtime of the test is.
#[derive(Clone)]
pub(crate) struct Stranger {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    sent: Arc<AtomicUsize>,
}

impl Stranger {
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stranger = Self { address, seen: Arc::default(), sent: Arc::default() };
        let (me, answer): (_, Arc<Answer>) = (stranger.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (me, answer) = (me.clone(), answer.clone());
                // Whoever is asked hangs up early, in these tests.
                tokio::spawn(async move { me.serve(socket, answer.as_ref()).await.ok() });
            }
        });
        stranger
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How many bytes of endless bodies have left it.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    async fn serve(&self, mut socket: TcpStream, answer: &Answer) -> std::io::Result<()> {
        let seen = read(&mut socket).await?;
        let reply = answer(&seen);
        self.seen.lock().unwrap().push(seen);
        match reply {
            Reply::Whole(status, headers, body) => {
                let mut head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\n");
                for (name, value) in headers {
                    head += &format!("{name}: {value}\r\n");
                }
                head += &format!("content-length: {}\r\n\r\n", body.len());
                socket.write_all(head.as_bytes()).await?;
                socket.write_all(&body).await
            }
            Reply::Endless(bytes) => {
                socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
                loop {
                    socket.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
                    socket.write_all(&bytes).await?;
                    socket.write_all(b"\r\n").await?;
                    self.sent.fetch_add(bytes.len(), Ordering::SeqCst);
                }
            }
            Reply::Slow(bytes, pause) => {
                for byte in bytes {
                    tokio::time::sleep(pause).await;
                    socket.write_all(&[byte]).await?;
                }
                std::future::pending().await
            }
            Reply::Raw(bytes) => socket.write_all(&bytes).await,
        }
    }
}

async fn read(socket: &mut TcpStream) -> std::io::Result<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        if socket.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let headers = lines.filter_map(|line| line.split_once(": "));
    let mut seen = Seen {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: headers.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
        body: String::new(),
    };
    let length = seen.header("content-length").and_then(|l| l.parse().ok()).unwrap_or(0);
    while bytes.len() < end + 4 + length && socket.read_buf(&mut bytes).await? > 0 {}
    seen.body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
    Ok(seen)
}
