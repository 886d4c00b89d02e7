//! A simulator of a MAAS region API.
//!
//! It answers at `/MAAS/api/2.0/…` as a MAAS 3.7 region does: the same status codes, content types, bodies, permissions
//! and, with a clock that can be sped up or moved by hand, the same slowness. It knows machines, images, zones, pools, tags,
//! addresses and DNS; it knows no VM hosts, no commissioning and no storage layouts.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use maas_sim::{Inventory, OperatorAct, Options, Simulator};
//! use std::time::Duration;
//!
//! let maas = Simulator::start(Inventory::default(), Options::default()).await?;
//! println!("{} {}", maas.url(), maas.api_key());
//! maas.advance(Duration::from_secs(300));
//! let machine = maas.machines().remove(0);
//! maas.operator(&machine.system_id, OperatorAct::Break("disk 3 is dying".into()))?;
//! # Ok(())
//! # }
//! ```

mod account;
mod addresses;
mod auth;
mod clock;
mod control;
mod dns;
mod domains;
mod events;
mod faults;
mod images;
mod inventory;
mod labels;
mod machines;
mod networks;
mod operator;
mod params;
mod record;
mod reply;
mod request;
mod routes;
mod server;
mod simulator;
mod status;
mod users;
mod world;

pub use clock::ClockMode;
pub use faults::{CallFault, FaultAction};
pub use inventory::{
    HardwareSpec, Image, Inventory, MachineFaults, MachineSpec, Subnet, Timings, UserSpec,
};
pub use operator::OperatorAct;
pub use record::{Call, DnsView, MachineView};
pub use simulator::{Options, Simulator};
