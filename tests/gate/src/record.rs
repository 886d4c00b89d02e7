use bytes::Bytes;

/// Which of the two servers a call is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The management cluster's kube-apiserver.
    Kubernetes,
    /// The MAAS region.
    Maas,
}

/// A call as it came to the gate.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its place in the order of arrival, over both sides.
    pub number: usize,
    /// Whom it is meant for.
    pub side: Side,
    /// `GET`, `POST`…
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The request's body.
    pub body: Bytes,
    /// What the server answered; none while it has not, or when it was not asked.
    pub status: Option<u16>,
    /// What the gate did to it, if anything.
    pub act: Option<&'static str>,
}

impl Call {
    /// The path, without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The value of a parameter of the query, as it was sent.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let query = self.target.split_once('?')?.1;
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
    }

    /// Whether it can change anything at the server.
    pub fn writes(&self) -> bool {
        self.method != "GET"
    }

    /// Whether it opens a stream of changes.
    pub fn watches(&self) -> bool {
        self.side == Side::Kubernetes
            && self.parameter("watch").is_some_and(|v| matches!(v, "true" | "1"))
    }
}
