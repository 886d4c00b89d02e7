//! What follows for a machine that is ours from each MAAS status, each power state, and each
//! situation of its object.

mod world;

use std::collections::BTreeSet;

use capmaas_api::names;
use capmaas_core::maas::{Power, Status};
use capmaas_core::machine::Snapshot;
use capmaas_core::ownership::annotation;
use capmaas_core::{Done, machine};
use serde_json::{Value, json};
use world::drive::ToldMachine;
use world::{CLUSTER, NAME, NAMESPACE, US, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Outcome {
    /// Nothing is done, and `Paused` says why.
    Paused,
    /// Nothing is done; the object says what is waited for.
    Waits,
    /// Swap off, then deploy.
    Deploys,
    /// Ready, or powered on when it is off.
    Serves,
    /// The failure policy is asked; the host is remembered, then released.
    Replaced,
    /// The failure policy is asked; the host is remembered. It is on its way out by itself.
    Remembered,
    /// Reported as lost, and not touched.
    Lost,
    /// Released.
    Released,
    /// MAAS is releasing it: nothing is done until it is over.
    Leaving,
    /// It is nobody's any more: the finalizer goes.
    Freed,
    /// MAAS does not allow a release: nothing is done, and the object says so.
    Stuck,
}

use Outcome::{
    Deploys, Freed, Leaving, Lost, Released, Remembered, Replaced, Serves, Stuck, Waits,
};

/// Status; before it was provisioned; afterwards; while its object is being deleted.
const TABLE: [(&str, Outcome, Outcome, Outcome); 24] = [
    ("New", Remembered, Lost, Freed),
    ("Commissioning", Waits, Waits, Stuck),
    ("Failed commissioning", Waits, Waits, Stuck),
    ("Missing", Waits, Waits, Stuck),
    ("Ready", Remembered, Lost, Freed),
    ("Reserved", Waits, Lost, Released),
    ("Deployed", Serves, Serves, Released),
    ("Retired", Waits, Waits, Stuck),
    ("Broken", Replaced, Lost, Released),
    ("Deploying", Waits, Waits, Released),
    ("Allocated", Deploys, Lost, Released),
    ("Failed deployment", Replaced, Lost, Released),
    ("Releasing", Remembered, Lost, Leaving),
    ("Releasing failed", Replaced, Lost, Released),
    ("Disk erasing", Remembered, Lost, Leaving),
    ("Failed disk erasing", Replaced, Lost, Released),
    ("Rescue mode", Waits, Waits, Stuck),
    ("Entering rescue mode", Waits, Waits, Stuck),
    ("Failed to enter rescue mode", Waits, Waits, Stuck),
    ("Exiting rescue mode", Waits, Waits, Stuck),
    ("Failed to exit rescue mode", Waits, Waits, Stuck),
    ("Testing", Waits, Waits, Stuck),
    ("Failed testing", Waits, Waits, Stuck),
    ("Polishing", Waits, Waits, Stuck),
];

const POWERS: [Power; 4] = [Power::On, Power::Off, Power::Unknown, Power::Error];

#[derive(Clone, Debug)]
struct Case {
    status: Status,
    power: Power,
    deleting: bool,
    paused: bool,
    control_plane: bool,
    provisioned: bool,
}

fn cases() -> impl Iterator<Item = (Case, Outcome)> {
    (0..TABLE.len() * POWERS.len() * 16).map(|n| {
        let bit = |b: usize| n >> b & 1 == 1;
        let (power, row) = (POWERS[n >> 4 & 3], &TABLE[n >> 6]);
        let case = Case {
            status: Status::from_label(row.0),
            power,
            deleting: bit(0),
            paused: bit(1),
            control_plane: bit(2),
            provisioned: bit(3),
        };
        let outcome = match (case.paused, case.deleting, case.provisioned) {
            (true, ..) => Outcome::Paused,
            (_, true, _) => row.3,
            (_, _, false) => row.1,
            (_, _, true) => row.2,
        };
        (case, outcome)
    })
}

impl Case {
    fn world(&self) -> World {
        let mut world = World::with_machine(self.control_plane);
        let mut object = json!({
            "metadata": {
                "finalizers": [names::MACHINE_FINALIZER],
                "annotations": { names::MARK_ANNOTATION: "mark" },
            },
            "spec": { "providerID": "maas:///default/aaa111" },
        });
        if self.provisioned {
            object["status"] = json!({ "ready": true, "initialization": { "provisioned": true } });
            let machine = world.kube.machines.get_mut(NAME).unwrap();
            machine.spec.provider_id = Some("maas:///default/aaa111".into());
        }
        if self.deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z");
        }
        if self.paused {
            object["metadata"]["annotations"][names::PAUSED_ANNOTATION] = json!("");
        }
        world.kube.edit("MaasMachine", NAME, &object);
        let network = json!({ "dnsName": "blue-a1b2c3.maas" });
        let status = json!({ "status": { "ready": true, "network": network } });
        world.kube.edit("MaasCluster", CLUSTER, &status);
        world.maas.add_record("blue-a1b2c3.maas", &["10.0.0.99"]);
        self.set_host(&mut world);
        world
    }

    fn set_host(&self, world: &mut World) {
        let host = world.maas.host("aaa111");
        host.shown.status = self.status.clone();
        host.shown.power = self.power;
        if matches!(self.status, Status::Ready | Status::New) {
            return;
        }
        host.shown.owner = Some(US.into());
        if !self.status.releasing() {
            host.agent_name = "mark".into();
        }
        host.shown.ip_addresses = vec!["10.0.0.10".into()];
        let stamp = [
            (annotation::CLUSTER, CLUSTER),
            (annotation::NAMESPACE, NAMESPACE),
            (annotation::MACHINE, NAME),
            (annotation::MARK, "mark"),
        ];
        host.shown.annotations =
            stamp.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect();
    }

    /// A control plane with an address waits one TTL before it is released, as it may have been in the record.
    fn waits_for_resolvers(&self, outcome: Outcome) -> bool {
        let held = !matches!(self.status, Status::Ready | Status::New);
        self.control_plane && !self.paused && held && (self.deleting || outcome == Replaced)
    }
}

fn condition(status: &Value, kind: &str) -> (String, String) {
    let list = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = list.iter().find(|c| c["type"] == kind);
    let text = |key: &str| found.and_then(|c| c[key].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// What the outcome means for the calls, and for what the object says.
fn check(case: &Case, outcome: Outcome, told: &ToldMachine) {
    let done = told.done().expect("an end");
    let status = done.status.as_ref().map_or(json!({}), |s| json!(s));
    let deployed = condition(&status, machine::DEPLOYED);
    let words = told.words();
    let context = format!("{case:?} → {words:?} {status:#}");
    let calls: &[&str] = match outcome {
        Outcome::Paused | Waits | Lost | Leaving | Stuck => &[],
        Deploys => &["swap off", "deploy"],
        Serves if case.power == Power::Off => &["power on"],
        Serves => &[],
        Replaced => &["patch", "release"],
        Remembered | Freed => &["patch"],
        Released => &["release"],
    };
    assert_eq!(words, calls, "{context}");
    let asks = matches!(outcome, Replaced | Remembered);
    assert_eq!(told.asked(), asks, "{context}");
    let reported = status["failureReason"].is_string();
    assert_eq!(reported, outcome == Lost, "failureReason: {context}");
    let ready = match outcome {
        Outcome::Paused => case.provisioned,
        Freed => false,
        Stuck | Released | Leaving if case.provisioned => {
            return check_end(done, outcome, &deployed, &context);
        }
        Serves => case.power != Power::Off,
        _ => false,
    };
    assert_eq!(status["ready"] == json!(true), ready, "ready: {context}");
    check_end(done, outcome, &deployed, &context);
}

fn check_end<S>(done: &Done<S>, outcome: Outcome, deployed: &(String, String), context: &str) {
    let reason = deployed.1.as_str();
    match outcome {
        Outcome::Paused => assert!(done.requeue.is_none(), "{context}"),
        Freed => assert!(done.status.is_none() && done.requeue.is_none(), "{context}"),
        Released | Leaving => assert_eq!(reason, "Deleted", "{context}"),
        Stuck => assert_eq!(reason, "ReleaseImpossible", "{context}"),
        Serves => {}
        _ => assert_eq!(deployed.0, "False", "{context}"),
    }
    let ends = matches!(outcome, Outcome::Paused | Freed);
    assert_eq!(done.requeue.is_none(), ends, "looks again: {context}");
}

#[test]
fn every_status_power_and_situation_has_a_defined_outcome() {
    let (mut count, mut outcomes, mut statuses) = (0, BTreeSet::new(), BTreeSet::new());
    for (case, outcome) in cases() {
        let mut world = case.world();
        let mut told = world.reconcile(NAME);
        if case.waits_for_resolvers(outcome) {
            let remembers: &[&str] = if outcome == Replaced { &["patch"] } else { &[] };
            assert_eq!(told.words(), remembers, "{case:?}");
            assert!(told.done().unwrap().requeue.is_some_and(|s| s <= 10), "{case:?}");
            world.now += 10;
            let waited = world.reconcile(NAME);
            told.steps.extend(waited.steps);
        }
        if case.paused {
            assert_eq!(told.steps.len(), 1, "{case:?}");
            let status = json!(told.done().unwrap().status);
            assert_eq!(condition(&status, "Paused").0, "True", "{case:?}");
        }
        check(&case, outcome, &told);
        count += 1;
        outcomes.insert(outcome);
        statuses.insert(case.status.label().to_owned());
    }
    println!("{count} situations, {} statuses, {} outcomes", statuses.len(), outcomes.len());
    assert_eq!(count, 24 * 4 * 2 * 2 * 2 * 2);
    assert_eq!(outcomes.len(), 11);
    assert!(Status::all().all(|s| statuses.contains(s.label())));
}

/// Somebody else's machine is not touched, whatever its state and whatever becomes of our object.
#[test]
fn a_foreign_machine_is_never_touched_in_any_situation() {
    let owners = [(Some("somebody"), "mark"), (Some(US), "another-mark")];
    let mut count = 0;
    for (case, _) in cases().filter(|(c, _)| !matches!(c.status, Status::Ready | Status::New)) {
        for (owner, mark) in owners {
            let mut world = case.world();
            let host = world.maas.host("aaa111");
            host.shown.owner = owner.map(str::to_owned);
            host.agent_name = mark.into();
            host.shown.annotations.insert(annotation::MARK.into(), mark.into());
            let before = host.shown.clone();
            for _ in 0..3 {
                if world.kube.maas_machine(NAME).is_some() {
                    let told = world.reconcile(NAME);
                    let only_ours = told.words().iter().all(|w| {
                        matches!(*w, "patch" | "allocate" | "annotate" | "swap off" | "deploy")
                    });
                    assert!(only_ours, "{case:?}: {:?}", told.words());
                }
                world.now += 60;
            }
            assert_eq!(world.maas.hosts["aaa111"].shown, before, "{case:?}");
            count += 1;
        }
    }
    assert_eq!(count, 2 * 22 * 4 * 16);
}

#[test]
fn a_machine_that_ran_from_memory_and_lost_power_is_lost_and_never_powered_on() {
    for (case, _) in cases().filter(|(c, o)| *o == Serves && c.power == Power::Off) {
        let mut world = case.world();
        world.maas.host("aaa111").shown.ephemeral = true;
        let told = world.reconcile(NAME);
        assert_eq!(told.words(), [""; 0], "{case:?}");
        let status = told.done().unwrap().status.clone().unwrap();
        assert!(!status.ready && status.failure_message.is_some(), "{case:?}");
    }
}

#[test]
fn b093_without_an_owner_or_with_a_move_going_on_nothing_happens() {
    for (case, _) in cases().filter(|(c, _)| !c.deleting && c.provisioned) {
        let mut world = case.world();
        world.kube.machines.clear();
        let told = world.reconcile(NAME);
        assert_eq!(told.steps.len(), 1, "{case:?}");
    }
    for (case, _) in cases().filter(|(c, _)| c.deleting) {
        let mut world = case.world();
        let moved =
            json!({ "metadata": { "annotations": { names::DELETE_FOR_MOVE_ANNOTATION: "" } } });
        world.kube.edit("MaasMachine", NAME, &moved);
        let snapshot: Snapshot = world.machine_snapshot(NAME).unwrap();
        let told = world.reconcile_seen(NAME, snapshot, |_, _, _| world::Turn::Answered);
        assert_eq!(told.steps.len(), 1, "{case:?}");
    }
}
