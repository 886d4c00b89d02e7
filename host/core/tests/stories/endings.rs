use capmaas_core::Category;
use capmaas_core::maas::Status;

use super::{Story, calls};
use crate::world::{NAME, Turn, World};

pub(super) fn stories() -> Vec<Story> {
    vec![
        control_plane_leaves(),
        release_refused(),
        never_taken(),
        deleted_while_unanswered(),
        taken_by_somebody_else(),
    ]
}

fn control_plane_leaves() -> Story {
    let mut s = Story::of(
        "a-control-plane-leaves",
        World::with_deployed_machine(true),
        "Its address leaves the record, resolvers get one TTL to forget it, then it is released; the \
         finalizer goes when MAAS shows it free.",
    );
    s.world.kube.delete("MaasMachine", NAME);
    s.machine(&[]);
    s.cluster(&["set addresses"]);
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
