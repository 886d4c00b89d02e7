//! Somebody else works with the same MAAS: nothing of theirs is harmed, and nothing of ours is lost unseen.

mod before_it_runs;
mod candidates;
mod records;
mod while_it_runs;
mod zones;
