//! Policies are components that decide, and nothing else does it in their place.

mod attributes;
mod decide;
mod hostile;
mod load;
