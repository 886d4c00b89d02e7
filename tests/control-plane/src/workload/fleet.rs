//! What the player sees of MAAS.

/// The hosts and DNS records of a MAAS.
pub trait Fleet: Send + Sync + 'static {
    /// Every host.
    fn hosts(&self) -> Vec<Host>;

    /// The addresses that the DNS record of a name holds; none when there is no record.
    fn addresses(&self, fqdn: &str) -> Vec<String>;
}

/// One host as MAAS shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its id in MAAS.
    pub system_id: String,
    /// Its host name, which becomes the name of its Node.
    pub hostname: String,
    /// Its status in MAAS's words, like `Deployed`.
    pub status: String,
    /// Its power state, like `on`.
    pub power: String,
    /// Its addresses.
    pub ip_addresses: Vec<String>,
    /// What reached MAAS as user data, in base64.
    pub user_data: Option<String>,
    /// How often it was deployed.
    pub deploys: u32,
}

impl Host {
    /// Deployed, as far as MAAS knows.
    pub(crate) fn deployed(&self) -> bool {
        self.status == "Deployed"
    }

    /// Deployed and powered on.
    pub(crate) fn running(&self) -> bool {
        self.deployed() && self.power == "on"
    }
}

impl<F: Fleet + ?Sized> Fleet for std::sync::Arc<F> {
    fn hosts(&self) -> Vec<Host> {
        (**self).hosts()
    }

    fn addresses(&self, fqdn: &str) -> Vec<String> {
        (**self).addresses(fqdn)
    }
}
