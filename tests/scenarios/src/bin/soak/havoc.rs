//! What goes wrong: with calls, with the controller, with hosts, with objects.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use gate::{Act, Rule, Side};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use maas_sim::{MachineView, OperatorAct};
use scenarios::{Dice, Stage};
use serde_json::json;

use crate::policies;
use crate::user::{User, cluster_name, leaving};

/// Throws the dice, and does it.
pub(crate) struct Havoc<'a> {
    stage: &'a Stage<'a>,
    dice: Dice,
    /// How often each sort of thing was done.
    pub(crate) done: BTreeMap<&'static str, usize>,
}

impl<'a> Havoc<'a> {
    pub(crate) fn new(stage: &'a Stage<'a>, seed: u64) -> Self {
        Self { stage, dice: Dice::new(seed), done: BTreeMap::new() }
    }

    /// How long until the next thing.
    pub(crate) fn pause(&mut self) -> Duration {
        Duration::from_millis(400 + self.dice.below(2600))
    }

    /// Something happens. The controller is killed only when it may be.
    pub(crate) async fn strike(&mut self, user: &User<'_>, may_kill: bool) -> Result<()> {
        let what = match self.dice.below(23) {
            0..=8 => self.disturb_calls(may_kill),
            9 => {
                self.stage.gate.cut_streams();
                "streams cut"
            }
            10 => {
                self.stage.gate.silence_streams();
                "streams silenced"
            }
            11 if may_kill => {
                let rule = Rule::on(Side::Maas, "", "", Act::KillBefore);
                self.stage.gate.add(rule.times(1));
                "controller killed"
            }
            11..=15 => self.disturb_a_host(),
            16 | 17 => self.scale(user).await?,
            18..=20 => policies::disturb(self.stage, &mut self.dice, &cluster_name(0)).await?,
            _ => self.edit(user).await?,
        };
        *self.done.entry(what).or_default() += 1;
        Ok(())
    }

    fn disturb_calls(&mut self, may_kill: bool) -> &'static str {
        let side = if self.dice.below(3) == 0 { Side::Kubernetes } else { Side::Maas };
        let (name, act) = self.act(may_kill);
        let methods = ["", "GET", "POST", "PUT", "PATCH"];
        let method = self.dice.one_of(&methods).copied().unwrap_or_default();
        let count = 1 + self.dice.below(6);
        // A watch is disturbed as a stream, not as a call.
        let fits = move |c: &gate::Call| !c.watches() && (method.is_empty() || c.method == method);
        self.stage.gate.add(Rule::when(side, fits, act).times(usize::try_from(count).unwrap_or(1)));
        name
    }

    fn act(&mut self, may_kill: bool) -> (&'static str, Act) {
        let time = Duration::from_millis(self.dice.below(3000));
        let answer =
            |status, headers, body: &str| Act::Answer { status, headers, body: body.into() };
        match self.dice.below(if may_kill { 10 } else { 8 }) {
            0 => ("call delayed", Act::Delay(time)),
            1 => ("reply delayed", Act::DelayReply(time)),
            2 => ("answered 500", answer(500, vec![], "an unexpected error")),
            3 => {
                let later = vec![("retry-after", "1".to_owned())];
                ("answered 503", answer(503, later, "come again"))
            }
            4 => (
                "answered 409",
                answer(409, vec![("content-type", "text/html".into())], "<html>conflict</html>"),
            ),
            5 => ("closed before", Act::CloseBefore),
            6 => ("reply dropped", Act::DropReply),
            7 => (
                "reply truncated",
                Act::Truncate(usize::try_from(self.dice.below(400)).unwrap_or(9)),
            ),
            8 => ("killed before", Act::KillBefore),
            _ => ("killed after", Act::KillAfter),
        }
    }

    fn disturb_a_host(&mut self) -> &'static str {
        let mut held = self.stage.held();
        // Before its annotations are set, a release or a break by hand wipes every trace of whose it was.
        held.retain(|m| m.workload_annotations.contains_key("capmaas-mark"));
        let Some(host) = self.dice.one_of(&held).cloned() else { return "nothing" };
        let (name, act) = match self.dice.below(12) {
            0 => ("host released", OperatorAct::Release),
            1 => ("host marked broken", OperatorAct::Break("the disk is dying".into())),
            2 => ("host locked", OperatorAct::Lock),
            3 | 4 => ("host off", OperatorAct::PowerOff),
            5 => ("power unknown", OperatorAct::Power("unknown".into())),
            6 | 7 => ("deployment failed", OperatorAct::FailDeployment("no boot device".into())),
            8 => ("host in another zone", OperatorAct::Zone("az2".into())),
            9 => ("host renamed", OperatorAct::Hostname(format!("{}-x", host.hostname))),
            10 => ("host of another pool", OperatorAct::Pool("other".into())),
            _ => ("host tagged", OperatorAct::Tags(vec!["seen".into()])),
        };
        // What MAAS does not allow in this state does not happen.
        match self.stage.maas.operator(&host.system_id, act) {
            Ok(()) => name,
            Err(_) => "nothing",
        }
    }

    /// One of the machines is deleted; the user will want another.
    async fn scale(&mut self, user: &User<'_>) -> Result<&'static str> {
        let names: Vec<String> = user
            .objects()
            .await?
            .iter()
            .filter(|m| !leaving(m))
            .map(ResourceExt::name_any)
            .collect();
        if let Some(name) = self.dice.one_of(&names) {
            user.delete(name)?;
        }
        Ok("machine deleted")
    }

    /// Somebody edits an object, or its status is lost.
    async fn edit(&mut self, user: &User<'_>) -> Result<&'static str> {
        let names: Vec<String> = user.objects().await?.iter().map(ResourceExt::name_any).collect();
        let Some(name) = self.dice.one_of(&names).cloned() else { return Ok("nothing") };
        let (machines, params) = (self.stage.machines(), PatchParams::default());
        // It may be gone in between.
        if self.dice.below(4) == 0 {
            let _ = machines
                .patch_status(&name, &params, &Patch::Merge(json!({ "status": null })))
                .await;
            return Ok("status lost");
        }
        let value = self.dice.below(1000).to_string();
        let label = json!({ "metadata": { "labels": { "soak": value } } });
        let _ = machines.patch(&name, &params, &Patch::Merge(label)).await;
        Ok("object edited")
    }

    /// The operator puts right what only an operator can. A host that was deployed and is off, say, is not among it.
    pub(crate) fn put_right(&self, ours: impl Fn(&MachineView) -> bool) -> Result<()> {
        policies::put_right(self.stage)?;
        let maas = &self.stage.maas;
        for host in maas.machines().into_iter().filter(ours) {
            if host.locked {
                maas.operator(&host.system_id, OperatorAct::Unlock)?;
            }
            if ["unknown", "error"].contains(&host.power_state.as_str()) {
                let state = if host.owner.is_some() { "on" } else { "off" };
                maas.operator(&host.system_id, OperatorAct::Power(state.into()))?;
            }
            if host.status_name == "Broken" && host.owner.is_none() {
                maas.operator(&host.system_id, OperatorAct::Fix)?;
            }
        }
        Ok(())
    }
}
