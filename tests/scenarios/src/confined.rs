use anyhow::Result;

use crate::install::{VALUES, chart};
use crate::stage::{Stage, through_gate};

/// The release of the chart that belongs to one stage.
const RELEASE: &str = "confined";

/// The chart, installed for one namespace.
impl Stage<'_> {
    /// Installs the chart for the stage's namespace alone. From its next start on the controller acts under the account
    /// of that release, which has no rights elsewhere.
    ///
    /// # Errors
    /// When Helm or the API server refuse.
    pub fn confine(&self) -> Result<()> {
        let own = ("controller.namespace", self.namespace.as_str());
        let values: Vec<_> = VALUES.into_iter().chain([own]).collect();
        self.plane.helm_install(&chart(), RELEASE, &self.namespace, &values)?;
        let own = self.folder().join("confined.kubeconfig");
        self.plane.service_account_kubeconfig(&self.namespace, "capmaas-manager", &own)?;
        through_gate(&self.gate, &own, &self.folder().join("kubeconfig")).map(drop)
    }

    /// Uninstalls that release.
    ///
    /// # Errors
    /// When Helm refuses.
    pub fn uninstall(&self) -> Result<()> {
        self.plane.helm(&["uninstall", RELEASE, "--namespace", &self.namespace]).map(drop)
    }
}
