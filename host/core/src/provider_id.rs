//! `maas:///<zone>/<system id>`.

/// The provider id of a machine.
pub fn format(zone: &str, system_id: &str) -> String {
    format!("maas:///{zone}/{system_id}")
}

/// The system id in a provider id: what follows the last slash.
///
/// The zone in it is history (a machine may be moved to another zone) and never compared.
pub fn system_id(provider_id: &str) -> Option<&str> {
    let rest = provider_id.strip_prefix("maas://")?;
    let id = rest.rsplit('/').next()?;
    (rest.starts_with('/') && !id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_id_is_what_follows_the_last_slash() {
        assert_eq!(system_id(&format("default", "abc123")), Some("abc123"));
        assert_eq!(system_id("maas:////abc123"), Some("abc123"));
        for none in ["", "maas:///", "maas:///default/", "aws:///a/b", "maas://abc"] {
            assert_eq!(system_id(none), None, "{none}");
        }
    }
}
