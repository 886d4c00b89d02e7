//! What a person at the MAAS user interface, or the world, does to a machine behind a client's back.

use crate::events::Level;
use crate::inventory::MachineFaults;
use crate::machines::timeline::Step;
use crate::status::Status;
use crate::world::World;
use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Something that happens to one machine at once. Over `/sim/` as JSON: `"lock"`, `{"status": "Broken"}`…
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorAct {
    /// The power goes off, seen at once.
    PowerOff,
    /// The power goes on, seen at once.
    PowerOn,
    /// The power state becomes this: `on`, `off`, `unknown`, `error`.
    Power(String),
    /// The status becomes this, without anything else happening; plans for the machine end.
    Status(String),
    /// The owner becomes this user, or nobody.
    Owner(Option<String>),
    /// Locked, in any status.
    Lock,
    /// Unlocked.
    Unlock,
    /// Moved to this zone.
    Zone(String),
    /// Moved to this pool.
    Pool(String),
    /// The tags become these.
    Tags(Vec<String>),
    /// Marked broken with this comment; the power goes off after a while.
    Break(String),
    /// Marked fixed.
    Fix,
    /// Deleted from MAAS.
    Remove,
    /// These annotations are set; blank ones removed.
    Annotate(BTreeMap<String, String>),
    /// The mark of the allocating caller.
    AgentName(String),
    /// MiB of memory from now on.
    Memory(u64),
    /// CPU threads from now on.
    Cores(u32),
    /// Bytes of swap, or the installer's choice.
    Swap(Option<i64>),
    /// A release by an administrator.
    Release,
    /// A running deployment succeeds now.
    FinishDeployment,
    /// A running deployment fails now, with this reason.
    FailDeployment(String),
    /// What goes wrong with the machine from now on.
    Faults(MachineFaults),
    /// Host name from now on.
    Hostname(String),
}

impl World {
    pub(crate) fn operator(&mut self, system_id: &str, act: OperatorAct) -> Result<()> {
        if self.machine(system_id).is_none() {
            bail!("there is no machine {system_id}");
        }
        match act {
            OperatorAct::PowerOff => self.operator_power(system_id, "off")?,
            OperatorAct::PowerOn => self.operator_power(system_id, "on")?,
            OperatorAct::Power(state) => self.operator_power(system_id, &state)?,
            OperatorAct::Status(text) => {
                let status =
                    Status::parse(&text).ok_or_else(|| anyhow!("MAAS has no status `{text}`"))?;
                self.cancel_steps(system_id);
                self.change(system_id, |m| {
                    m.previous_status = m.status;
                    m.status = status;
                    if matches!(status, Status::Ready | Status::New) {
                        m.osystem.clear();
                        m.distro_series.clear();
                        m.hwe_kernel = None;
                    }
                });
            }
            OperatorAct::Zone(name) => {
                if !self.zones.iter().any(|z| z.name == name) {
                    bail!("there is no zone {name}");
                }
                self.change(system_id, |m| m.zone = name);
            }
            OperatorAct::Pool(name) => {
                if !self.pools.iter().any(|p| p.name == name) {
                    bail!("there is no pool {name}");
                }
                self.change(system_id, |m| m.pool = name);
            }
            OperatorAct::Tags(tags) => {
                tags.iter().for_each(|t| self.ensure_tag(t));
                self.change(system_id, |m| m.tags = tags);
            }
            OperatorAct::Break(comment) => self.break_machine(system_id, &comment),
            OperatorAct::Fix => self.set_status(system_id, Status::Ready),
            OperatorAct::Remove => self.remove_machine(system_id),
            OperatorAct::Release => {
                if self.machine(system_id).is_some_and(|m| m.status.releasable()) {
                    // A refusing BMC is this operator's problem too, and leaves what it leaves.
                    let _ = self.begin_release(system_id);
                } else {
                    bail!("{system_id} cannot be released in its status");
                }
            }
            OperatorAct::FinishDeployment => self.finish_deployment(system_id)?,
            OperatorAct::FailDeployment(reason) => {
                self.fail_deployment(system_id, self.now(), &reason)
            }
            other => self.operator_fields(system_id, other),
        }
        Ok(())
    }

    fn operator_power(&mut self, system_id: &str, state: &str) -> Result<()> {
        if !["on", "off", "unknown", "error"].contains(&state) {
            bail!("`{state}` is none of on, off, unknown, error");
        }
        // A release that waits for the power sees that it is off.
        let waiting = self.machine(system_id).is_some_and(|m| {
            m.status == Status::Releasing
                && m.steps
                    .iter()
                    .any(|(_, s)| matches!(s, Step::ReleasedPowerOff | Step::ReleaseFailed))
        });
        self.set_power(system_id, state);
        if waiting && state == "off" {
            self.cancel_steps(system_id);
            self.finalize_release(system_id, self.now());
        }
        Ok(())
    }

    fn finish_deployment(&mut self, system_id: &str) -> Result<()> {
        if self.machine(system_id).is_none_or(|m| m.status != Status::Deploying) {
            bail!("{system_id} is not being deployed");
        }
        self.cancel_steps(system_id);
        let managed = self.machine(system_id).is_some_and(crate::machines::Machine::power_managed);
        if managed {
            self.set_power(system_id, "on");
        }
        self.change(system_id, |m| m.netboot = false);
        self.set_status(system_id, Status::Deployed);
        self.add_event(system_id, Level::Info, "Deployed", "", "");
        Ok(())
    }

    fn operator_fields(&mut self, system_id: &str, act: OperatorAct) {
        self.change(system_id, |m| match act {
            OperatorAct::Owner(owner) => m.owner = owner,
            OperatorAct::Lock => m.locked = true,
            OperatorAct::Unlock => m.locked = false,
            OperatorAct::Annotate(map) => {
                m.annotations.extend(map);
                m.annotations.retain(|_, v| !v.is_empty());
            }
            OperatorAct::AgentName(name) => m.agent_name = name,
            OperatorAct::Memory(mib) => m.memory = mib,
            OperatorAct::Cores(cores) => m.cpu_count = cores,
            OperatorAct::Swap(size) => m.swap_size = size,
            OperatorAct::Faults(faults) => m.faults = faults,
            OperatorAct::Hostname(name) => m.hostname = name,
            _ => {}
        });
    }

    /// Another API key for the user; the old ones are no longer known.
    pub(crate) fn replace_key(&mut self, user: &str) -> Result<String> {
        self.revoke_keys(user)?;
        Ok(self.add_token(user, "MAAS consumer").text())
    }

    pub(crate) fn revoke_keys(&mut self, user: &str) -> Result<()> {
        let found = self.users.iter_mut().find(|u| u.name == user);
        found.ok_or_else(|| anyhow!("there is no user {user}"))?.tokens.clear();
        Ok(())
    }

    pub(crate) fn add_image(&mut self, image: crate::inventory::Image) {
        self.images.retain(|(_, i)| i.name != image.name);
        let id = self.next_id("image");
        self.images.push((id, image));
    }

    pub(crate) fn remove_image(&mut self, name: &str) {
        self.images.retain(|(_, i)| i.name != name);
    }
}
