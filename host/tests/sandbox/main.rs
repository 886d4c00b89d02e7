//! The policies' sandbox: guests that misbehave, gates that a component passes, and the built-in components.

mod built_in;
mod gates;
mod guest;
mod hostile;
mod objects;
mod questions;
