use capmaas_core::maas::{Power, Status};
use capmaas_core::policy::{Constraints, Ranking, Shortlisting};
use capmaas_core::{Category, Effect, Step};
use serde_json::json;

use super::{Story, TAKES, calls, publishes};
use crate::world::{NAME, Turn, US, World};

pub(super) fn stories() -> Vec<Story> {
    vec![
        good_path(),
        all_tags(),
        zone_of_the_machine(),
        label_in_between(),
        another_machine_in_between(),
        lost_reply(),
        late_allocate(),
        two_holders(),
        ranked(),
        taken_over(),
    ]
}

fn good_path() -> Story {
    let mut s = Story::of(
        "control-plane-comes-up",
        World::with_machine(true),
        "A control plane is taken, its provider id is written before anything else, it is stamped, \
         deployed with swap off, reported as ready, and attached to the record.",
    );
    s.world.reconcile_cluster();
    s.machine(&TAKES);
    s.machine(&[]);
    s.later(600);
    s.machine(&[]);
    s.says("MachineDeployed", "");
    s.cluster(&["set addresses"]);
    s.later(5);
    s.machine(&[]);
    s
}

fn all_tags() -> Story {
    let mut s = Story::of(
        "every-constraint-is-sent",
        World::with_machine(false),
        "CPU, memory, disk, zone, pool and every tag reach MAAS; blank ones do not.",
    );
    let spec = json!({
        "failureDomain": "default", "resourcePool": "gpu", "minDiskSize": 100,
        "tags": ["nvme", "rack-7", " ", "gpu"],
    });
    s.world.kube.edit("MaasMachine", NAME, &json!({ "spec": spec }));
    let host = s.world.maas.host("ccc333");
    host.shown.pool = "gpu".into();
    host.shown.tags = ["gpu", "nvme", "rack-7"].map(str::to_owned).to_vec();
    s.machine_with(&TAKES, |_, _, step| {
        if let Step::Do(Effect::Allocate { constraints, .. }) = step {
            assert_eq!(constraints.constraints.tags, ["gpu", "nvme", "rack-7"]);
            assert_eq!(constraints.constraints.pools, ["gpu"]);
        }
        Turn::Answered
    });
    s
}

fn zone_of_the_machine() -> Story {
    let mut s = Story::of(
        "zone-comes-from-the-machine",
        World::with_machine(true),
        "Cluster API chose the failure domain, and the MaasMachine names none: that zone is asked for.",
    );
    s.world.maas.zones.push("az2".into());
    s.world.maas.host("bbb222").shown.zone = "az2".into();
    let machine = s.world.kube.machines.get_mut(NAME).expect("a Machine");
    machine.spec.failure_domain = Some("az2".into());
    s.machine(&TAKES);
    let object = s.world.kube.maas_machine(NAME).expect("it exists");
    assert_eq!(object.spec.provider_id.as_deref(), Some("maas:///az2/bbb222"));
    s
}

fn label_in_between() -> Story {
    let mut s = Story::of(
        "a-label-is-written-in-between",
        World::with_machine(false),
        "Somebody labels the object while its machine is being taken: the provider id meets a \
         conflict, the object is read again, and it is written.",
    );
    let mut once = true;
    let does = ["patch", "allocate", "patch", "patch", "annotate", "swap off", "deploy"];
    s.machine_with(&does, |world, _, step| {
        if publishes(step) && std::mem::take(&mut once) {
            let label = json!({ "metadata": { "labels": { "team": "red" } } });
            world.kube.edit("MaasMachine", NAME, &label);
        }
        Turn::Answered
    });
    s
}

fn another_machine_in_between() -> Story {
    let mut s = Story::of(
        "the-object-got-another-machine-in-between",
        World::with_machine(false),
        "While its machine was being taken the object got another one: the one just taken goes back.",
    );
    s.machine_with(&["patch", "allocate", "patch", "release"], |world, _, step| {
        if publishes(step) {
            let other = json!({ "spec": { "providerID": "maas:///default/ccc333" } });
            world.kube.edit("MaasMachine", NAME, &other);
        }
        Turn::Answered
    });
    assert_eq!(s.world.maas.hosts["aaa111"].shown.status, Status::Releasing);
    s
}

fn lost_reply() -> Story {
    let mut s = Story::of(
        "an-allocate-loses-its-reply",
        World::with_machine(false),
        "MAAS gives a machine and the reply is lost: the next look finds it under the mark, and no \
         second one is taken.",
    );
    s.machine_with(&["patch", "allocate"], |_, _, step| {
        let lost = Turn::Fails(Category::Unknown, true);
        if calls(step, "allocate") { lost } else { Turn::Answered }
    });
    s.says("AllocationUnanswered", "unanswered");
    s.world.now += 15;
    s.machine(&["patch", "annotate", "swap off", "deploy"]);
    s
}

fn late_allocate() -> Story {
    let mut s = Story::of(
        "an-allocate-stays-unanswered",
        World::with_machine(false),
        "Nothing is found under the mark: for six minutes MAAS may still be working on the call, so \
         no other is sent; then one is.",
    );
    s.machine_with(&["patch", "allocate"], |_, _, step| {
        let lost = Turn::Fails(Category::Unknown, false);
        if calls(step, "allocate") { lost } else { Turn::Answered }
    });
    s.world.now += 359;
    s.machine(&[]);
    s.world.now += 1;
    s.machine(&TAKES);
    s
}

fn two_holders() -> Story {
    let mut s = Story::of(
        "two-machines-under-one-mark",
        World::with_machine(false),
        "An allocate was given up and carried out after all: the lower id is kept, the other released.",
    );
    s.machine_with(&["patch", "allocate"], |_, _, step| {
        let dies = Turn::Dies(true);
        if calls(step, "allocate") { dies } else { Turn::Answered }
    });
    // A crash leaves no end to tell.
    s.reconciles.clear();
    let mark = s.world.maas.hosts["aaa111"].agent_name.clone();
    let second = s.world.maas.host("bbb222");
    second.agent_name = mark;
    second.shown.owner = Some(US.into());
    second.shown.status = Status::Allocated;
    s.machine(&["patch", "release", "annotate", "swap off", "deploy"]);
    assert_eq!(s.world.maas.hosts["bbb222"].shown.status, Status::Releasing);
    s
}

fn ranked() -> Story {
    let mut s = Story::of(
        "a-policy-ranks-and-the-best-is-gone",
        World::with_machine(false),
        "A policy inspects the machines that fit and ranks them; somebody is faster with the best, \
         so the next in order is taken.",
    );
    s.world.policies.shortlisting = Shortlisting::Inspect(Constraints::default());
    s.world.policies.ranking = Ranking { order: vec![2, 1], rejected: vec![] };
    let does = ["patch", "allocate", "allocate", "patch", "annotate", "swap off", "deploy"];
    s.machine_with(&does, |world, _, step| {
        if calls(step, "allocate") {
            world.maas.host("ccc333").shown.status = Status::Commissioning;
        }
        Turn::Answered
    });
    assert_eq!(s.world.maas.hosts["bbb222"].shown.status, Status::Deploying);
    s
}

fn taken_over() -> Story {
    let mut s = Story::of(
        "a-machine-of-the-go-provider-is-taken-over",
        World::with_machine(true),
        "An object of the Go provider names a deployed machine without annotations: it gets a mark \
         and the machine its annotations, and nothing else is touched.",
    );
    let host = s.world.maas.host("bbb222");
    host.shown.status = Status::Deployed;
    host.shown.power = Power::On;
    host.shown.owner = Some(US.into());
    host.shown.ip_addresses = vec!["10.0.0.11".into()];
    let finalizer = capmaas_api::names::MACHINE_FINALIZER;
    let object = json!({
        "metadata": { "finalizers": [finalizer] },
        "spec": { "providerID": "maas:///default/bbb222" },
        "status": { "ready": true },
    });
    s.world.kube.edit("MaasMachine", NAME, &object);
    s.world.kube.cluster_api_follows();
    s.machine(&["patch", "annotate", "patch"]);
    s.machine(&[]);
    s
}
