use capmaas_core::Category;
use capmaas_core::maas::Status;
use capmaas_core::policy::{Constraints, Shortlisting};

use super::{Story, TAKES, calls};
use crate::world::{NAME, Turn, World};

pub(super) fn stories() -> Vec<Story> {
    vec![
        control_plane_leaves(),
        release_refused(),
        never_taken(),
        deleted_while_unanswered(),
        taken_by_somebody_else(),
        comes_back(),
    ]
}

fn comes_back() -> Story {
    let mut world = World::with_machine(false);
    world.policies.shortlisting = Shortlisting::Inspect(Constraints::default());
    world.policies.previous_first = true;
    // Without it, the cluster has to take the second.
    world.maas.host("aaa111").shown.locked = true;
    let mut s = Story::of(
        "a-cluster-gets-back-the-host-it-had",
        world,
        "A worker goes, and the cluster writes down which host it had. The policy that is asked for the next one sees \
         when that was, and prefers it to the machine that MAAS would give.",
    );
    s.meanwhile(4);
    s.world.kube.delete("MaasMachine", NAME);
    s.cluster(&["patch"]);
    s.cluster(&[]);
    s.machine(&["release"]);
    s.later(15);
    s.machine(&["patch"]);
    s.world.maas.host("aaa111").shown.locked = false;
    s.world.kube.add_machine(NAME, false);
    s.machine(&TAKES);
    assert_eq!(s.world.kube.maas_machine(NAME).unwrap().spec.system_id.as_deref(), Some("bbb222"));
    s
}

fn control_plane_leaves() -> Story {
    let mut s = Story::of(
        "a-control-plane-leaves",
        World::with_deployed_machine(true),
        "Its address leaves the record, resolvers get one TTL to forget it, then it is released; the \
         finalizer goes when MAAS shows it free. The cluster remembers the host.",
    );
    s.world.kube.delete("MaasMachine", NAME);
    s.machine(&[]);
    s.cluster(&["set addresses", "patch"]);
    s.world.now += 5;
    s.machine(&[]);
    s.world.now += 10;
    s.machine(&["release"]);
    s.says("Deleted", "MAAS releases");
    s.world.now += 1;
    s.machine(&[]);
    s.later(5);
    s.machine(&["patch"]);
    assert!(s.world.kube.maas_machine(NAME).is_none());
    s
}

fn release_refused() -> Story {
    let mut s = Story::of(
        "the-bmc-refuses-a-release",
        World::with_deployed_machine(false),
        "The power cannot be turned off: the machine stays deployed and ours, and is released later.",
    );
    s.world.kube.delete("MaasMachine", NAME);
    s.machine_with(&["release"], |_, _, step| {
        let refused = Turn::Fails(Category::Server, false);
        if calls(step, "release") { refused } else { Turn::Answered }
    });
    s.says("ReleaseFailed", "could not be released");
    s.world.now += 29;
    s.machine(&[]);
    s.world.now += 1;
    s.machine(&["release"]);
    s
}

fn never_taken() -> Story {
    let mut s = Story::of(
        "deleted-before-a-machine-was-taken",
        World::with_machine(false),
        "An allocate was sent and nothing found; the object is deleted: the finalizer stays until \
         MAAS can no longer be working on the call.",
    );
    s.world.reconcile_with(NAME, |_, _, step| {
        let lost = Turn::Fails(Category::Unknown, false);
        if calls(step, "allocate") { lost } else { Turn::Answered }
    });
    s.world.kube.delete("MaasMachine", NAME);
    s.world.now += 60;
    s.machine(&[]);
    s.world.now += 300;
    s.machine(&["patch"]);
    assert!(s.world.kube.maas_machine(NAME).is_none());
    s
}

fn deleted_while_unanswered() -> Story {
    let mut s = Story::of(
        "deleted-while-an-allocate-was-unanswered",
        World::with_machine(false),
        "MAAS gave a machine after all: it is found under the mark and given back.",
    );
    s.world.reconcile_with(NAME, |_, _, step| {
        let lost = Turn::Fails(Category::Unknown, true);
        if calls(step, "allocate") { lost } else { Turn::Answered }
    });
    s.world.kube.delete("MaasMachine", NAME);
    s.world.now += 360;
    s.machine(&["release", "patch"]);
    assert_eq!(s.world.maas.hosts["aaa111"].shown.status, Status::Releasing);
    s
}

fn taken_by_somebody_else() -> Story {
    let mut s = Story::of(
        "the-machine-belongs-to-somebody-else",
        World::with_deployed_machine(false),
        "The machine was released in MAAS and taken by another user: it is reported as lost, and \
         left alone even when the object is deleted.",
    );
    s.world.maas.free("aaa111");
    let host = s.world.maas.host("aaa111");
    host.shown.status = Status::Deployed;
    host.shown.owner = Some("somebody".into());
    s.machine(&[]);
    s.says("MachineNotOwned", "somebody");
    s.world.kube.delete("MaasMachine", NAME);
    s.machine(&["patch"]);
    assert_eq!(s.world.maas.hosts["aaa111"].shown.status, Status::Deployed);
    s
}
