use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use control_plane::{ManagementPlane, Workload, WorkloadFollower};
use maas_sim::{CallFault, FaultAction, Simulator};

/// Workload clusters that are played at once; each is an API server of some 300 MB.
const MOST: usize = 4;

/// Plays the workload cluster of every Cluster that somebody applies.
///
/// The certificates of a workload cluster have to be there before its control plane is, so one
/// API server is always kept in reserve, and MAAS takes a moment to make a DNS record.
pub struct Companion {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Companion {
    /// Starts to look out for Clusters.
    ///
    /// # Errors
    /// When the first workload API server does not start.
    pub fn start(plane: Arc<ManagementPlane>, maas: Arc<Simulator>) -> Result<Self> {
        let spare = Workload::start(&plane, "played-0")?;
        let slow = FaultAction::Delay { ms: 2500 };
        let on_dns = CallFault {
            method: Some("POST".into()),
            path: Some("^/dnsresources/".into()),
            op: None,
            skip: 0,
            count: None,
            action: slow,
        };
        maas.add_fault(on_dns);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let run = move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
            runtime.block_on(look_out(&plane, &maas, spare, &flag));
        };
        let thread = std::thread::Builder::new().name("companion".into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stops every workload cluster.
    pub fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn look_out(
    plane: &ManagementPlane,
    maas: &Arc<Simulator>,
    spare: Workload,
    stop: &AtomicBool,
) {
    let client = plane.client();
    let mut spare = Some(spare);
    let mut played: BTreeMap<(String, String), (Workload, WorkloadFollower)> = BTreeMap::new();
    let mut started = 1;
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let Ok(clusters) = clusters(plane) else {
            continue;
        };
        played.retain(|key, _| clusters.contains(key));
        for key in clusters {
            if played.contains_key(&key) {
                continue;
            }
            let Some(workload) = spare.take() else {
                continue;
            };
            match begin(plane, &client, maas, workload, &key).await {
                Ok(pair) => drop(played.insert(key, pair)),
                Err(error) => eprintln!("cluster {}/{} is not played: {error:#}", key.0, key.1),
            }
        }
        if spare.is_none() && played.len() < MOST {
            spare = Workload::start(plane, &format!("played-{started}")).ok();
            started += 1;
        }
    }
}

async fn begin(
    plane: &ManagementPlane,
    client: &kube::Client,
    maas: &Arc<Simulator>,
    workload: Workload,
    (namespace, cluster): &(String, String),
) -> Result<(Workload, WorkloadFollower)> {
    workload.publish(client, namespace, cluster).await?;
    let follower = workload.follow(plane, Arc::clone(maas), namespace, cluster)?;
    Ok((workload, follower))
}

fn clusters(plane: &ManagementPlane) -> Result<Vec<(String, String)>> {
    let path =
        "jsonpath={range .items[*]}{.metadata.namespace}{\" \"}{.metadata.name}{\"\\n\"}{end}";
    let list = plane.kubectl(&["get", "clusters.cluster.x-k8s.io", "-A", "-o", path])?;
    list.lines()
        .map(|l| {
            let (namespace, name) = l.split_once(' ').ok_or_else(|| anyhow!("odd line {l:?}"))?;
            Ok((namespace.to_owned(), name.to_owned()))
        })
        .collect()
}
