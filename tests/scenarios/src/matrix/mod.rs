//! Every place at which the controller calls somebody, and what comes of it when something goes wrong there.

mod boundary;
mod effects;
mod run;
mod story;
mod strangers;

pub use boundary::{Boundary, boundaries, name_of};
pub use effects::{compare, declared};
pub use run::{Blow, Fault, Outcome, kept_alive, run};
pub use story::Story;
pub use strangers::{RECORD, Strangers, machines as machines_of_others};
