//! Free TCP ports on loopback.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{LazyLock, Mutex};

use anyhow::{Result, bail};

/// Below the range from which the kernel takes the ports of outgoing connections: a port found free there would often be
/// gone again before the process it is meant for listens.
const FIRST: u16 = 18_000;
const COUNT: u64 = 14_000;

static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A port on which nobody listens, never given out twice by this process.
///
/// # Errors
/// When none is found in many tries.
pub(crate) fn free() -> Result<u16> {
    let mut taken = TAKEN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    for _ in 0..1_000 {
        let offset = RandomState::new().hash_one(std::process::id()) % COUNT;
        let port = FIRST + u16::try_from(offset)?;
        if !taken.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            taken.insert(port);
            return Ok(port);
        }
    }
    bail!("no free TCP port on 127.0.0.1")
}
