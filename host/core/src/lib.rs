//! What capmaas decides, as a pure function of what it was told.
//!
//! A reconcile is `next(&snapshot, &replies) → Step`: given what was seen when it began and every
//! reply so far, it returns one step. The shell performs that one external call, adds the reply and
//! asks again, until the step is [`Step::Done`]. Nothing else enters: time is in the snapshot,
//! randomness is a read. So one transcript line, snapshot and replies, is at once the golden test,
//! the decision log and the replay.
//!
//! * [`machine`] takes one `MaasMachine` from wanted to Deployed to released,
//! * [`cluster`] keeps the API server's DNS record,
//! * [`node`] gives the workload cluster's Node its provider id,
//! * [`policy`] holds the questions that components answer, and what is done with the answers,
//! * [`ownership`] is the only maker of [`ownership::OwnedMachine`], without which nothing can be
//!   released, deployed or powered.
//!
//! The crate can name no client, no runtime, no clock and no wasmtime.

mod call_error;
pub mod cluster;
mod conditions;
pub mod image;
pub mod maas;
pub mod machine;
pub mod node;
pub mod ownership;
pub mod policy;
pub mod provider_id;
mod settings;
mod step;
mod text;
mod time;
mod transcript;

pub use call_error::{CallError, Category};
pub use settings::Settings;
pub use step::{
    Done, Effect, Event, EventKind, ObjectPatch, ObjectRef, Read, Repeat, Reply, SecretState, Step,
};
pub use text::bounded;
pub use transcript::Transcript;
