//! One run of a story, with or without one thing that goes wrong.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use anyhow::Result;
use control_plane::ManagementPlane;
use gate::{Act, Rule};

use super::boundary::{Boundary, boundaries, name_of};
use super::story::Story;
use super::strangers::{self, Strangers};
use crate::kubelet::Kubelet;
use crate::stage::{Stage, StageOptions};

/// What goes wrong at a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// The controller is killed before the call is forwarded.
    KillBefore,
    /// The controller is killed when the work is done, before it hears of it.
    KillAfter,
    /// The work is done and the answer is lost.
    Drop,
    /// The connection closes before the call is forwarded.
    Close,
}

impl Blow {
    /// All of them, in the order of the table's columns.
    pub const ALL: [Self; 4] = [Self::KillBefore, Self::KillAfter, Self::Drop, Self::Close];

    /// The column's head.
    pub fn name(self) -> &'static str {
        match self {
            Self::KillBefore => "before",
            Self::KillAfter => "after",
            Self::Drop => "dropped",
            Self::Close => "closed",
        }
    }

    fn act(self) -> Act {
        match self {
            Self::KillBefore => Act::KillBefore,
            Self::KillAfter => Act::KillAfter,
            Self::Drop => Act::DropReply,
            Self::Close => Act::CloseBefore,
        }
    }
}

/// What must never come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// More machines were taken or deployed than wanted.
    Double(String),
    /// Something is left in MAAS.
    Leak(String),
    /// Something of somebody else was changed.
    Foreign(String),
    /// What the user wanted did not come about.
    Failed(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, text) = match self {
            Self::Double(text) => ("double", text),
            Self::Leak(text) => ("leak", text),
            Self::Foreign(text) => ("foreign touched", text),
            Self::Failed(text) => ("failed", text),
        };
        write!(f, "{kind}: {text}")
    }
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether what should go wrong did.
    pub reached: bool,
    /// The places of the controller's calls.
    pub seen: Vec<Boundary>,
    /// What must not be.
    pub faults: Vec<Fault>,
}

/// Tells a story in a namespace of its own; the blow, if any, falls once.
pub async fn run(
    plane: &ManagementPlane,
    namespace: &str,
    story: Story,
    blow: Option<(&Boundary, Blow)>,
) -> Outcome {
    let mut outcome = Outcome::default();
    if let Err(error) = told(plane, namespace, story, blow, &mut outcome).await {
        outcome.faults.push(Fault::Failed(format!("{error:#}")));
    }
    outcome
}

async fn told(
    plane: &ManagementPlane,
    namespace: &str,
    story: Story,
    blow: Option<(&Boundary, Blow)>,
    outcome: &mut Outcome,
) -> Result<()> {
    let options = StageOptions { inventory: story.inventory(namespace)?, ..Default::default() };
    let mut stage = Stage::set(plane, namespace, options).await?;
    let others = Strangers::settle(&stage.maas).await?;
    stage.quick = true;
    stage.not_ours = vec![strangers::RECORD.to_owned()];
    story.begin(&stage).await?;
    let from = stage.gate.count();
    if let Some((boundary, blow)) = blow {
        let name = boundary.call.clone();
        let is_it = move |call: &gate::Call| name_of(call).as_deref() == Some(name.as_str());
        let rule = Rule::when(boundary.side, is_it, blow.act());
        stage.gate.add(rule.after(boundary.ordinal).times(1));
    }
    let most = AtomicUsize::new(0);
    let ended = kept_alive(&stage, &most, async {
        story.tell(&stage).await?;
        story.judge(&stage).await
    })
    .await;
    let calls = stage.gate.calls();
    outcome.seen = boundaries(&calls[from..]);
    outcome.reached = calls[from..].iter().any(|c| c.act.is_some());
    count(&stage, story, most.load(SeqCst), &mut outcome.faults);
    if let Err(error) = ended {
        outcome.faults.push(Fault::Failed(format!("{error:#}")));
    }
    if story == Story::Provision {
        Kubelet::leave(&stage).await?;
    }
    let maas = stage.maas.clone();
    if let Err(error) = stage.strike().await {
        outcome.faults.push(Fault::Leak(format!("{error:#}")));
    }
    outcome.faults.extend(others.touched(&maas)?.into_iter().map(Fault::Foreign));
    Ok(())
}

/// Lets a part of a story happen, starts the controller again whenever it was killed, and looks how much is held.
///
/// # Errors
/// Those of the part, and when the controller does not start.
pub async fn kept_alive<T>(
    stage: &Stage<'_>,
    most: &AtomicUsize,
    part: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut kills = stage.gate.kills();
    kills.mark_unchanged();
    let starts = AtomicUsize::new(*kills.borrow());
    let nurse = async {
        while kills.changed().await.is_ok() {
            starts.store(*kills.borrow_and_update(), SeqCst);
            stage.controller.start()?;
            stage.controller.watching().await?;
        }
        anyhow::Ok(())
    };
    let look = async {
        loop {
            most.fetch_max(stage.held().len(), SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let ended = tokio::select! {
        ended = part => ended,
        Err(error) = nurse => Err(error),
        () = look => unreachable!("it looks for ever"),
    };
    stage.gate.clear_rules();
    // A call that a rule had struck before may still be on its way to the kill.
    tokio::time::sleep(Duration::from_millis(300)).await;
    if starts.load(SeqCst) < *stage.gate.kills().borrow() {
        stage.controller.start()?;
        stage.controller.watching().await?;
    }
    ended
}

/// Compares MAAS's book with what was wanted.
fn count(stage: &Stage<'_>, story: Story, most: usize, faults: &mut Vec<Fault>) {
    let given = stage.calls("allocate").iter().filter(|c| c.status == 200).count();
    let ours = |m: &&maas_sim::MachineView| !m.hostname.contains("-of-others-");
    let deploys: u32 = stage.maas.machines().iter().filter(ours).map(|m| m.deploys).sum();
    if given > story.given() || deploys as usize > story.given() || most > story.most_held() {
        faults.push(Fault::Double(format!(
            "{given} machines given and {deploys} deployments, wanted {}; held at most {most}, wanted {}",
            story.given(),
            story.most_held()
        )));
    }
}
