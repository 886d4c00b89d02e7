//! The 23 statuses of a machine, with MAAS's numbers, enum names (used in filters) and labels (used in replies).

macro_rules! statuses {
    ($($variant:ident = $number:literal, $name:literal, $label:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Status { $($variant,)* }

        impl Status {
            pub(crate) const ALL: &'static [Status] = &[$(Status::$variant,)*];

            pub(crate) fn number(self) -> u8 {
                match self { $(Status::$variant => $number,)* }
            }

            pub(crate) fn name(self) -> &'static str {
                match self { $(Status::$variant => $name,)* }
            }

            pub(crate) fn label(self) -> &'static str {
                match self { $(Status::$variant => $label,)* }
            }
        }
    };
}

statuses! {
    New = 0, "new", "New";
    Commissioning = 1, "commissioning", "Commissioning";
    FailedCommissioning = 2, "failed_commissioning", "Failed commissioning";
    Missing = 3, "missing", "Missing";
    Ready = 4, "ready", "Ready";
    Reserved = 5, "reserved", "Reserved";
    Deployed = 6, "deployed", "Deployed";
    Retired = 7, "retired", "Retired";
    Broken = 8, "broken", "Broken";
    Deploying = 9, "deploying", "Deploying";
    Allocated = 10, "allocated", "Allocated";
    FailedDeployment = 11, "failed_deployment", "Failed deployment";
    Releasing = 12, "releasing", "Releasing";
    FailedReleasing = 13, "failed_releasing", "Releasing failed";
    DiskErasing = 14, "disk_erasing", "Disk erasing";
    FailedDiskErasing = 15, "failed_disk_erasing", "Failed disk erasing";
    RescueMode = 16, "rescue_mode", "Rescue mode";
    EnteringRescueMode = 17, "entering_rescue_mode", "Entering rescue mode";
    FailedEnteringRescueMode = 18, "failed_entering_rescue_mode", "Failed to enter rescue mode";
    ExitingRescueMode = 19, "exiting_rescue_mode", "Exiting rescue mode";
    FailedExitingRescueMode = 20, "failed_exiting_rescue_mode", "Failed to exit rescue mode";
    Testing = 21, "testing", "Testing";
    FailedTesting = 22, "failed_testing", "Failed testing";
}

impl Status {
    /// By the enum name that filters use (`failed_deployment`), as MAAS compares it: exactly.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|s| s.name() == name)
    }

    /// By label or enum name in any case, for people.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let same = |s: &Status| {
            s.label().eq_ignore_ascii_case(text) || s.name().eq_ignore_ascii_case(text)
        };
        Self::ALL.iter().copied().find(same)
    }

    /// Whether `op=release` starts a release from here (MAAS's RELEASABLE_STATUSES).
    pub(crate) fn releasable(self) -> bool {
        use Status::{
            Allocated, Broken, Deployed, Deploying, FailedDeployment, FailedDiskErasing,
            FailedReleasing, Reserved,
        };
        matches!(
            self,
            Allocated
                | Reserved
                | Broken
                | Deploying
                | Deployed
                | FailedDeployment
                | FailedDiskErasing
                | FailedReleasing
        )
    }

    /// Whether MAAS keeps the AUTO addresses when the machine's power goes off in this status.
    pub(crate) fn keeps_addresses_when_off(self) -> bool {
        use Status::{
            Commissioning, Deployed, Deploying, DiskErasing, EnteringRescueMode, RescueMode,
            Testing,
        };
        matches!(
            self,
            Commissioning
                | Deployed
                | Deploying
                | DiskErasing
                | RescueMode
                | EnteringRescueMode
                | Testing
        )
    }

    /// Whether entering rescue mode is allowed from here (NODE_TRANSITIONS, target 17).
    pub(crate) fn may_enter_rescue(self) -> bool {
        use Status::{
            Commissioning, Deploying, DiskErasing, ExitingRescueMode, FailedReleasing, Releasing,
            Testing,
        };
        !matches!(
            self,
            Commissioning
                | Deploying
                | Releasing
                | FailedReleasing
                | DiskErasing
                | ExitingRescueMode
                | Testing
        ) && !matches!(self, Status::RescueMode | Status::FailedExitingRescueMode)
    }
}
