//! What a user or an operator gets wrong: the object says what and what to do, no machine is taken
//! or lost, and everything goes on once the cause is gone.

mod access;
mod certificate;
mod ownership;
mod requests;
