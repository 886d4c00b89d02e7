//! Unix seconds and RFC 3339, without a clock.

/// RFC 3339 in UTC with whole seconds, as Kubernetes writes times.
pub(crate) fn rfc3339(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// Unix seconds of an RFC 3339 time; `None` when it is none or lies before 1970.
pub(crate) fn unix_seconds(rfc3339: &str) -> Option<u64> {
    let time: jiff::Timestamp = rfc3339.parse().ok()?;
    u64::try_from(time.as_second()).ok()
}

/// A duration for people: `45 s`, `12 min`, `3 h`.
pub(crate) fn spoken(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_the_round_trip() {
        assert_eq!(rfc3339(1_795_996_800), "2026-11-30T00:00:00Z");
        assert_eq!(unix_seconds("2026-11-30T00:00:00Z"), Some(1_795_996_800));
        assert_eq!(unix_seconds("yesterday"), None);
    }
}
