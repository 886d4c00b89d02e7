//! The gate: a recording reverse proxy between the controller and its two servers.
//!
//! What passes is what the production clients of the production binary say and hear. At the n-th call that matches a
//! [`Rule`] it can wait, answer itself, close the connection before or after the work was done, cut a body, let a
//! stream fall silent, or kill the controller. Its book of calls is what tests assert on.

mod body;
mod certificate;
mod forward;
mod front;
mod gate;
mod record;
mod rule;

pub use front::{Authority, TlsFront};
pub use gate::{Gate, Upstream};
pub use record::{Call, Side};
pub use rule::{Act, Rule};
