//! What the controller must do, row by row (R1–R15).

mod allocation;
mod deletion;
mod deployment;
mod dns;
mod in_memory;
mod membership;
mod states;
