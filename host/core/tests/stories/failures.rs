use capmaas_core::maas::{Power, Status};
use capmaas_core::policy::{Action, Delay, Refused, Replacement};
use capmaas_core::{Category, Step};
use serde_json::json;

use super::{Story, TAKES, calls};
use crate::world::{Destiny, NAME, Turn, World};

pub(super) fn stories() -> Vec<Story> {
    vec![
        replaced(),
        timed_out(),
        left_broken(),
        undecided(),
        powered_on(),
        lost_from_memory(),
        lost_after_provisioning(),
        no_capacity(),
        unknown_zone(),
        unknown_status(),
    ]
}

fn deploying(name: &'static str, tells: &'static str) -> Story {
    let mut s = Story::of(name, World::with_machine(false), tells);
    s.world.reconcile(NAME);
    s
}

fn deployed(name: &'static str, tells: &'static str) -> Story {
    let mut s = deploying(name, tells);
    s.later(600);
    s.world.reconcile(NAME);
    s.later(15);
    s
}

fn replaced() -> Story {
    let mut s = deploying(
        "a-failed-deployment-is-replaced",
        "The deployment fails: the host is remembered, then released; only when it is seen released \
         and off is another taken, which is not the failed one.",
    );
    s.world.maas.host("aaa111").destiny = Destiny::Fails;
    s.later(600);
    s.machine(&["patch", "release"]);
    s.machine(&[]);
    s.later(15);
    s.machine(&["patch"]);
    s.later(15);
    s.machine(&TAKES);
    assert_eq!(s.world.maas.hosts["bbb222"].shown.status, Status::Deploying);
    s
}

fn timed_out() -> Story {
    let mut s = deploying(
        "a-deployment-takes-too-long",
        "After 70 minutes of deploying the host is given up, whatever MAAS still hopes for.",
    );
    s.world.maas.host("aaa111").destiny = Destiny::Hangs;
    s.later(4199);
    s.machine(&[]);
    s.later(1);
    s.machine(&["patch", "release"]);
    s.says("MachineDeployFailed", "still deploying after 70 min");
    s
}

fn left_broken() -> Story {
    let mut s = deploying(
        "a-policy-leaves-the-host-broken",
        "A policy wants the failed host kept for the operators of MAAS: it is marked broken, and \
         another is taken after the delay that the policy asked for.",
    );
    s.world.policies.action = Some(Action::MarkBrokenAndReplace(Replacement {
        delay: Delay { seconds: 120, reason: "let the rack cool down".into() },
        avoid_seconds: Some(86_400),
    }));
    s.world.maas.host("aaa111").destiny = Destiny::Fails;
    s.later(600);
    s.machine(&["patch", "mark broken"]);
    s.world.now += 5;
    s.machine(&["patch"]);
    s.world.now += 60;
    s.machine(&[]);
    s.world.now += 60;
    s.machine(&TAKES);
    assert_eq!(s.world.maas.hosts["aaa111"].shown.status, Status::Broken);
    s
}

fn undecided() -> Story {
    let mut s = deploying(
        "the-failure-policy-gives-no-answer",
        "The deployment failed and the failure policy traps: nothing is done, and the object says why.",
    );
    s.world.policies.refusal = Some(Refused::unusable("it trapped"));
    s.world.maas.host("aaa111").destiny = Destiny::Fails;
    s.later(600);
    s.machine(&[]);
    s.says("FailurePolicyFailed", "it trapped");
    s
}

fn powered_on() -> Story {
    let mut s = deployed(
        "a-host-that-is-off-is-powered-on",
        "A deployed host is found off: it is powered on with its user-data, and looked at again \
         after a minute.",
    );
    s.world.maas.host("aaa111").shown.power = Power::Off;
    s.machine(&["power on"]);
    s.later(60);
    s.machine(&[]);
    s.says("MachineDeployed", "");
    s
}

fn lost_from_memory() -> Story {
    let mut s = Story::of(
        "a-host-that-ran-from-memory-lost-power",
        World::with_machine(false),
        "It would be installed anew, without its data: it is reported as lost and not powered on.",
    );
    s.world.kube.edit("MaasMachine", NAME, &json!({ "spec": { "deployInMemory": true } }));
    s.world.reconcile(NAME);
    s.later(600);
    s.world.reconcile(NAME);
    s.later(15);
    s.world.maas.host("aaa111").shown.power = Power::Off;
    s.machine(&[]);
    s.says("MachinePoweredOff", "replace the Machine");
    s
}

fn lost_after_provisioning() -> Story {
    let mut s = deployed(
        "a-host-is-released-behind-our-back",
        "A host that was once provisioned is free in MAAS: reported with a failure reason, nothing \
         is taken in its place.",
    );
    s.world.maas.free("aaa111");
    s.machine(&[]);
    s.says("MachineTerminatedReason", "released outside of capmaas");
    let status = s.world.kube.maas_machine(NAME).and_then(|m| m.status).expect("a status");
    assert!(status.failure_reason.is_some() && status.failure_message.is_some());
    s
}

fn no_capacity() -> Story {
    let mut s = Story::of(
        "maas-has-no-machine",
        World::with_machine(false),
        "Nothing fits: the failure policy says when to ask again, and until then nothing is sent.",
    );
    let hosts = std::mem::take(&mut s.world.maas.hosts);
    s.machine(&["patch", "allocate"]);
    s.says("NoMachineFound", "ask for less");
    s.world.now += 29;
    s.machine(&[]);
    s.world.now += 1;
    s.world.maas.hosts = hosts;
    s.machine(&TAKES);
    s
}

fn unknown_zone() -> Story {
    let mut s = Story::of(
        "a-zone-that-maas-does-not-have",
        World::with_machine(false),
        "MAAS does not know the zone: the object says so, and which ones there are.",
    );
    s.world.kube.edit("MaasMachine", NAME, &json!({ "spec": { "failureDomain": "moon" } }));
    s.machine(&["patch", "allocate"]);
    s.says("AllocationInvalid", "MAAS has zone default");
    s
}

fn unknown_status() -> Story {
    let mut s = deploying(
        "a-status-nobody-knows-and-a-server-in-trouble",
        "MAAS shows a status of a later version: waited for, and said. Then MAAS answers with an \
         error: nothing is decided by it.",
    );
    s.world.maas.host("aaa111").shown.status = Status::Other("Polishing".into());
    s.machine(&[]);
    s.says("MachineStateUndefined", "Polishing");
    s.world.now += 30;
    s.machine_with(&[], |_, replies, step| match step {
        Step::Read(_) if replies.len() == 1 => Turn::Fails(Category::Server, false),
        step => {
            assert!(!calls(step, "release"));
            Turn::Answered
        }
    });
    s
}
