//! Everything goes wrong for a while; then it stops, and all must be well.

mod havoc;
mod policies;
mod samples;
mod user;
mod watchman;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use control_plane::ManagementPlane;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use maas_sim::{Inventory, MachineView};
use scenarios::matrix::{RECORD, Strangers, machines_of_others};
use scenarios::{Stage, StageOptions, is_passing};
use serde_json::json;

use crate::havoc::Havoc;
use crate::samples::{Sample, curves};
use crate::user::User;
use crate::watchman::Watchman;

/// A few clusters under faults of every sort, from a seed.
#[derive(Parser)]
struct Flags {
    /// For how long things go wrong.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// The same seed throws the same dice; by default the time.
    #[arg(long)]
    seed: Option<u64>,
    /// Machines in all.
    #[arg(long, default_value_t = 50)]
    machines: usize,
    /// Clusters, of three control planes and an equal share of workers.
    #[arg(long, default_value_t = 4)]
    clusters: usize,
    /// Where the figures go.
    #[arg(long, default_value = "target/soak/summary.json")]
    summary: PathBuf,
}

/// How long it may take until all is well again.
const PATIENCE: Duration = Duration::from_secs(900);

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs());
    let seed = flags.seed.unwrap_or(time);
    println!("SEED={seed}");
    match soak(&flags, seed).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak: SEED={seed}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn inventory(machines: usize) -> Result<Inventory> {
    // So many spare ones that those which are broken or on their way out are not missed.
    let spare = machines / 2 + 5;
    let mut rack: Vec<String> = (0..machines + spare)
        .map(|n| format!("{{hostname: h{n}, cores: 4, memory: 8192, zone: az{}}}", n % 3 + 1))
        .collect();
    rack.extend(machines_of_others("soak"));
    let list: String = rack.iter().map(|m| format!("  - {m}\n")).collect();
    Inventory::from_yaml(&format!(
        "zones: [az1, az2, az3]\npools: [other]\n\
         images: [{{name: custom/u-2404-k8s, filetype: root-tgz}}]\nmachines:\n{list}"
    ))
}

/// Everything that looks and acts.
struct World<'a> {
    stage: &'a Stage<'a>,
    user: User<'a>,
    watchman: Watchman<'a>,
    havoc: Havoc<'a>,
    kills: tokio::sync::watch::Receiver<usize>,
    samples: Vec<Sample>,
    began: Instant,
}

impl World<'_> {
    /// Looks, starts the controller again if it was killed, and takes a sample.
    async fn look(&mut self) -> Result<()> {
        if self.kills.has_changed()? {
            self.kills.mark_unchanged();
            self.stage.controller.start()?;
        }
        self.stage.controller.check()?;
        passing(self.watchman.look(&self.user).await)?;
        let minutes = self.began.elapsed().as_secs_f64() / 60.0;
        if self.samples.last().is_none_or(|s| s.minutes + 0.05 < minutes)
            && let (Ok((resident_mib, _)), Ok((process, descriptors))) =
                (self.stage.controller.resident_mib(), self.stage.controller.descriptors())
        {
            self.samples.push(Sample { minutes, process, resident_mib, descriptors });
        }
        Ok(())
    }

    async fn look_for(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.look().await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Faults of every sort. The controller is killed in the first half alone: the second shows whether it grows.
    async fn rage(&mut self, minutes: f64) -> Result<()> {
        let (begins, length) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
        let mut number = 0_usize;
        while begins.elapsed() < length {
            number += 1;
            let may_kill = begins.elapsed() < length / 2;
            passing(self.havoc.strike(&self.user, may_kill).await)?;
            if number.is_multiple_of(5) {
                passing(self.user.look().await)?;
            }
            if number.is_multiple_of(25) {
                passing(self.havoc.put_right(ours))?;
                self.stage.gate.clear_rules();
                self.watchman.guard();
                self.tell();
            }
            let pause = self.havoc.pause();
            self.look_for(pause).await?;
        }
        self.stage.gate.clear_rules();
        self.watchman.guard();
        Ok(())
    }

    /// Until everything is as the user wants it.
    async fn settle(&mut self) -> Result<f64> {
        let begins = Instant::now();
        loop {
            passing(self.havoc.put_right(ours))?;
            passing(self.user.look().await)?;
            let missing = match self.user.missing().await {
                Err(error) if is_passing(&error) => Some("the API server is too busy".into()),
                other => other?,
            };
            let Some(missing) = missing else { break };
            if begins.elapsed() > PATIENCE {
                bail!("it does not come to rest: {missing}");
            }
            self.look_for(Duration::from_secs(3)).await?;
        }
        self.user.ensure_one_to_one().await?;
        Ok(begins.elapsed().as_secs_f64())
    }

    /// Until nothing is left.
    async fn clear(&mut self) -> Result<()> {
        let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
        let kind = ApiResource::from_gvk(&kind);
        let (client, namespace) = (self.stage.client.clone(), &self.stage.namespace);
        let all: Api<DynamicObject> = Api::namespaced_with(client, namespace, &kind);
        all.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        let begins = Instant::now();
        loop {
            match self.user.objects().await.map(|objects| objects.is_empty()) {
                Ok(true) => return Ok(()),
                Err(error) if !is_passing(&error) => return Err(error),
                _ => {}
            }
            passing(self.havoc.put_right(ours))?;
            ensure!(
                begins.elapsed() < PATIENCE,
                "objects are left: {:?}",
                self.stage.machine_names().await?
            );
            self.look_for(Duration::from_secs(1)).await?;
        }
    }

    fn tell(&self) {
        let (looks, bad) = (self.watchman.looks, self.watchman.violations.len());
        let memory = self.samples.last().map_or(0, |s| s.resident_mib);
        let minutes = self.began.elapsed().as_secs() / 60;
        let held = self.stage.held().len();
        eprintln!("{minutes} min: {held} held, {looks} looks, {bad} violations, {memory} MiB");
    }
}

/// What failed with the connection alone is looked at again soon.
fn passing(outcome: Result<()>) -> Result<()> {
    outcome.or_else(|error| if is_passing(&error) { Ok(()) } else { Err(error) })
}

fn ours(machine: &MachineView) -> bool {
    !machine.hostname.contains("-of-others-")
}

async fn soak(flags: &Flags, seed: u64) -> Result<()> {
    ensure!(flags.machines / flags.clusters > 3, "each cluster has three control planes");
    eprintln!("starting the control plane …");
    let plane = ManagementPlane::shared()?;
    let inventory = inventory(flags.machines)?;
    let args = ["--max-replacements=50", "--deploy-timeout=60"].map(str::to_owned).to_vec();
    let options = StageOptions { inventory, args, ..Default::default() };
    let mut stage = Stage::set(plane, "soak", options).await?;
    stage.quick = true;
    stage.not_ours = vec![RECORD.to_owned()];
    let before = stage.maas.machines();
    let others = Strangers::settle(&stage.maas).await?;
    let (summary, violations) = told(flags, seed, &stage, others).await?;
    as_it_was(&before, &stage.maas.machines())?;
    stage.strike().await?;
    if let Some(folder) = flags.summary.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&flags.summary, format!("{summary:#}\n"))
        .with_context(|| format!("write {}", flags.summary.display()))?;
    ensure!(violations.is_empty(), "{} violations: {violations:#?}", violations.len());
    println!("soak: all is well");
    Ok(())
}

async fn told(
    flags: &Flags,
    seed: u64,
    stage: &Stage<'_>,
    others: Strangers,
) -> Result<(serde_json::Value, Vec<String>)> {
    let mut world = World {
        stage,
        user: User::new(stage, flags.clusters, flags.machines),
        watchman: Watchman::new(stage, others, flags.clusters),
        havoc: Havoc::new(stage, seed),
        kills: stage.gate.kills(),
        samples: vec![],
        began: Instant::now(),
    };
    world.watchman.guard();
    world.user.begin()?;
    let up = world.settle().await?;
    eprintln!("{} machines are up after {up:.0} s", flags.machines);
    world.rage(flags.minutes).await?;
    let rest = world.settle().await;
    let rest = rest.with_context(|| format!("{:#?}", world.watchman.violations))?;
    eprintln!("everything is well again after {rest:.0} s");
    // Nothing disturbs it now: what it holds at rest is what it holds for good.
    world.clear().await?;
    let violations: Vec<String> = world.watchman.violations.iter().cloned().collect();
    let kills = *stage.gate.kills().borrow();
    let (memory, descriptors, minutes) = curves(&world.samples);
    println!("{}", memory.line("memory", "MiB"));
    println!("{}", descriptors.line("descriptors", "descriptors"));
    println!("both of one process over {minutes:.0} minutes; {kills} were killed before");
    let acts: usize = world.havoc.done.values().sum();
    println!(
        "soak: {} minutes, {acts} disturbances, {kills} kills, {} looks, {} violations, {} machines replaced, \
         well again after {rest:.0} s",
        flags.minutes,
        world.watchman.looks,
        violations.len(),
        world.user.replaced
    );
    let summary = json!({
        "seed": seed,
        "minutes": flags.minutes,
        "machines": flags.machines,
        "disturbances": world.havoc.done,
        "kills": kills,
        "looks": world.watchman.looks,
        "violations": violations,
        "machines_replaced": world.user.replaced,
        "seconds_until_well": rest,
        "memory_mib": memory.json(),
        "descriptors": descriptors.json(),
        "minutes_of_one_process": minutes,
    });
    Ok((summary, violations))
}

/// Every machine is as free as it was, and as taken.
fn as_it_was(before: &[MachineView], after: &[MachineView]) -> Result<()> {
    let told = |m: &MachineView| {
        let marks = (m.agent_name.clone(), m.workload_annotations.clone());
        (m.system_id.clone(), m.status_name.clone(), m.owner.clone(), m.locked, marks)
    };
    for (was, is) in before.iter().zip(after) {
        ensure!(told(was) == told(is), "{was:?} became {is:?}");
    }
    ensure!(before.len() == after.len(), "{} machines became {}", before.len(), after.len());
    Ok(())
}
