//! The MAAS client against a simulated region: what it reads, what it sends, and what it makes of refusals.

mod common;
mod effects;
mod failures;
mod field_cases;
mod reads;
mod records;
mod refusals;
mod tls;
mod together;
