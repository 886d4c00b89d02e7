//! MAAS does what it should not: what the objects say, that nothing is harmed, and that all goes on afterwards.

mod answers;
mod away;
mod certificate;
mod contents;
mod key;
mod redirect;
