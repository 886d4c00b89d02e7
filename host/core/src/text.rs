//! Words of others: MAAS, policies, servers in between.

/// One line of at most `most` characters, without control characters.
pub fn bounded(text: &str, most: usize) -> String {
    let printable = text.chars().filter(|c| c.is_whitespace() || !c.is_control());
    printable.map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}

/// The longest message of a condition or status, characters; Kubernetes takes 32 KiB.
pub(crate) const LONGEST_MESSAGE: usize = 4096;
/// The longest note of an event, characters; Kubernetes takes 1000 bytes.
pub(crate) const LONGEST_NOTE: usize = 900;
