//! The library's face: a running region that tests look into and act on.

use crate::clock::{Clock, ClockMode};
use crate::faults::CallFault;
use crate::inventory::{Image, Inventory, MachineSpec};
use crate::operator::OperatorAct;
use crate::record::{Call, DnsView, MachineView};
use crate::server::{self, Shared};
use crate::world::World;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// How the region is served.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where to listen; `127.0.0.1:0` (a free port) by default.
    pub listen: SocketAddr,
    /// How time passes; by default not by itself.
    pub clock: ClockMode,
    /// The MAAS version that the region says it has; `3.7.3` by default.
    pub version: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            clock: ClockMode::Manual,
            version: "3.7.3".into(),
        }
    }
}

/// A running region, stopped when dropped.
#[derive(Debug)]
pub struct Simulator {
    address: SocketAddr,
    world: Shared,
    task: JoinHandle<()>,
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Simulator {
    /// Starts a region on the current tokio runtime.
    pub async fn start(inventory: Inventory, options: Options) -> Result<Simulator> {
        let listener = TcpListener::bind(options.listen)
            .await
            .with_context(|| format!("cannot listen on {}", options.listen))?;
        let address = listener.local_addr()?;
        let world = World::new(inventory, Clock::new(options.clock), options.version)?;
        let world: Shared = Arc::new(Mutex::new(world));
        let task = tokio::spawn(server::serve(listener, Arc::clone(&world)));
        Ok(Simulator { address, world, task })
    }

    /// `http://127.0.0.1:PORT/MAAS`.
    pub fn url(&self) -> String {
        format!("http://{}/MAAS", self.address)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The key of the first administrator.
    pub fn api_key(&self) -> String {
        self.key_of(0, true)
    }

    /// The key of the first plain user.
    pub fn user_api_key(&self) -> String {
        self.key_of(0, false)
    }

    /// The key of a second administrator, "somebody else".
    pub fn other_admin_api_key(&self) -> String {
        self.key_of(1, true)
    }

    fn key_of(&self, position: usize, admin: bool) -> String {
        let world = server::lock(&self.world);
        let user = world.users.iter().filter(|u| u.admin == admin).nth(position);
        user.and_then(|u| u.tokens.last()).map(crate::users::Token::text).unwrap_or_default()
    }

    /// The key of this user; None without such a user or when its keys were revoked.
    pub fn api_key_of(&self, user: &str) -> Option<String> {
        server::lock(&self.world).user(user)?.tokens.last().map(crate::users::Token::text)
    }

    /// All machines, in MAAS's order.
    pub fn machines(&self) -> Vec<MachineView> {
        server::lock(&self.world).machine_views()
    }

    /// One machine.
    pub fn machine(&self, system_id: &str) -> Option<MachineView> {
        let world = server::lock(&self.world);
        world.machine(system_id).map(|m| world.view(m))
    }

    /// One machine by its host name.
    pub fn machine_named(&self, hostname: &str) -> Option<MachineView> {
        self.machines().into_iter().find(|m| m.hostname == hostname)
    }

    /// All DNS resources.
    pub fn dns_records(&self) -> Vec<DnsView> {
        server::lock(&self.world).dns_views()
    }

    /// The addresses of USER_RESERVED rows: what is left of records that named unknown addresses.
    pub fn reserved_addresses(&self) -> Vec<String> {
        server::lock(&self.world).reserved()
    }

    /// All calls to the API so far, those still running included.
    pub fn calls(&self) -> Vec<Call> {
        server::lock(&self.world).calls.clone()
    }

    /// Forgets the calls.
    pub fn clear_calls(&self) {
        server::lock(&self.world).calls.clear();
    }

    /// Moves the clock.
    pub fn advance(&self, by: Duration) {
        let mut world = server::lock(&self.world);
        world.clock.advance(by);
        world.tick();
    }

    /// Simulated time since the start.
    pub fn now(&self) -> Duration {
        server::lock(&self.world).now()
    }

    /// Makes calls go wrong.
    pub fn add_fault(&self, fault: CallFault) {
        server::lock(&self.world).faults.add(fault);
    }

    /// No call goes wrong any more.
    pub fn clear_faults(&self) {
        server::lock(&self.world).faults.clear();
    }

    /// Something happens to a machine.
    pub fn operator(&self, system_id: &str, act: OperatorAct) -> Result<()> {
        server::lock(&self.world).operator(system_id, act)
    }

    /// A machine is added; its id is returned.
    pub fn add_machine(&self, machine: MachineSpec) -> String {
        server::lock(&self.world).add_machine(machine)
    }

    /// The user gets another key, which is returned; the old ones are refused.
    pub fn replace_key(&self, user: &str) -> Result<String> {
        server::lock(&self.world).replace_key(user)
    }

    /// The user's keys are refused.
    pub fn revoke_keys(&self, user: &str) -> Result<()> {
        server::lock(&self.world).revoke_keys(user)
    }

    /// The region says that it has this MAAS version.
    pub fn set_version(&self, version: &str) {
        server::lock(&self.world).version = version.into();
    }

    /// An image is imported or replaced.
    pub fn add_image(&self, image: Image) {
        server::lock(&self.world).add_image(image);
    }

    /// An image goes.
    pub fn remove_image(&self, name: &str) {
        server::lock(&self.world).remove_image(name);
    }
}
