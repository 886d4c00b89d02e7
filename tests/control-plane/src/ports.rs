//! Free TCP ports on loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};

/// Below the range from which the kernel takes the ports of outgoing connections: a port found free there would often be
/// gone again before the process it is meant for listens.
const FIRST: u32 = 18_000;
const COUNT: u32 = 14_000;
/// Processes that start at the same time look at different ports first.
const BLOCK: u32 = 100;

/// A port on which nobody listens, never given out twice by this process.
///
/// # Errors
/// When none is found in many tries.
pub(crate) fn free() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id() % (COUNT / BLOCK) * BLOCK;
    for _ in 0..COUNT {
        let offset = (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + offset)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free TCP port on 127.0.0.1")
}
