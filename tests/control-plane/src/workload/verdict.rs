//! Whether a machine was deployed as it had to be.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// What a machine was told to do when it was deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// To make a cluster.
    Init,
    /// To join one.
    Join,
    /// Neither can be found in its data.
    Other,
}

impl Boot {
    pub(super) fn of(data: &[u8]) -> Self {
        let text = String::from_utf8_lossy(data);
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if says(&["kubeadm init", "kind: InitConfiguration"]) {
            Self::Init
        } else if says(&["kubeadm join", "kind: JoinConfiguration"]) {
            Self::Join
        } else {
            Self::Other
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Join => "join",
            Self::Other => "other",
        }
    }
}

/// Whether a machine may become a Node, or what is wrong with how it was deployed.
pub(super) fn judge(
    control_plane: bool,
    initialised: bool,
    boot: Boot,
    data: Option<&[u8]>,
    wanted: Option<&[u8]>,
) -> Result<(), &'static str> {
    match (data, wanted) {
        (_, None) => Err("deployed although its Machine has no bootstrap data"),
        (None, _) => Err("deployed without user data, or with user data that is no base64"),
        (Some(data), Some(wanted)) if data != wanted => {
            Err("deployed with other user data than the bootstrap data of its own Machine")
        }
        _ if boot == Boot::Init && initialised => {
            Err("told to make a cluster that was made before")
        }
        _ if boot == Boot::Init && !control_plane => Err("told to make a cluster, but is a worker"),
        _ if boot != Boot::Init && !initialised => {
            Err("told to join a cluster that nobody had made")
        }
        _ => Ok(()),
    }
}

/// What user data says, if it is base64; MAAS clients may wrap its lines.
pub(super) fn decode(user_data: Option<&str>) -> Option<Vec<u8>> {
    let packed: String = user_data?.split_whitespace().collect();
    STANDARD.decode(packed).ok()
}

#[cfg(test)]
mod tests {
    use super::{Boot, decode, judge};

    #[test]
    fn init_and_join_are_told_apart() {
        assert_eq!(Boot::of(b"runcmd:\n  - 'kubeadm init --config /run/x'"), Boot::Init);
        assert_eq!(Boot::of(b"runcmd:\n  - kubeadm join --config /run/x"), Boot::Join);
        assert_eq!(Boot::of(b"hello"), Boot::Other);
    }

    #[test]
    fn user_data_may_be_wrapped() {
        assert_eq!(decode(Some("aGVs\nbG8=\n")), Some(b"hello".to_vec()));
        assert_eq!(decode(Some("%")), None);
        assert_eq!(decode(None), None);
    }

    #[test]
    fn only_the_right_data_at_the_right_time_makes_a_node() {
        let (a, b) = (Some(&b"a"[..]), Some(&b"b"[..]));
        assert!(judge(true, false, Boot::Init, a, a).is_ok());
        assert!(judge(true, true, Boot::Join, a, a).is_ok());
        assert!(judge(false, true, Boot::Join, a, a).is_ok());
        assert!(judge(true, true, Boot::Join, a, b).is_err());
        assert!(judge(true, true, Boot::Join, None, b).is_err());
        assert!(judge(true, true, Boot::Join, a, None).is_err());
        assert!(judge(true, false, Boot::Join, a, a).is_err());
        assert!(judge(true, true, Boot::Init, a, a).is_err());
        assert!(judge(false, false, Boot::Init, a, a).is_err());
    }
}
