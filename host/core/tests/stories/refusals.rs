use capmaas_core::policy::{Constraints, Delay, Refused, Shortlisting};
use capmaas_core::{Category, Read, SecretState, Step};
use serde_json::json;

use super::{Story, TAKES};
use crate::world::{NAME, Turn, World};

pub(super) fn stories() -> Vec<Story> {
    vec![
        policy_refuses(),
        policy_defers_and_rejects(),
        nothing_left(),
        not_administrator(),
        wrong_key(),
        image_missing(),
        secret_missing(),
        memory_unsupported(),
        paused(),
    ]
}

fn worker(name: &'static str, tells: &'static str) -> Story {
    Story::of(name, World::with_machine(false), tells)
}

fn policy_refuses() -> Story {
    let mut s = worker(
        "the-allocation-policy-gives-no-answer",
        "The policy traps: nothing is taken, and the object says why.",
    );
    s.world.policies.refusal = Some(Refused {
        policy: None,
        category: "trap".into(),
        message: "wasm `unreachable` instruction executed".into(),
    });
    s.machine(&[]);
    s.says("AllocationPolicyFailed", "unreachable");
    s
}

fn policy_defers_and_rejects() -> Story {
    let mut s = worker(
        "a-policy-defers-then-rejects",
        "A policy wants to be asked later, and then wants no machine at all: nothing is taken.",
    );
    let reason = "the maintenance window ends at 01:00".to_owned();
    s.world.policies.shortlisting = Shortlisting::Defer(Delay { seconds: 900, reason });
    s.machine(&[]);
    s.says("AllocationDeferred", "maintenance window");
    s.world.now += 900;
    s.world.policies.shortlisting = Shortlisting::Reject("no workers here".into());
    s.machine(&[]);
    s.says("AllocationRejected", "no workers here");
    s
}

fn nothing_left() -> Story {
    let mut s = worker(
        "a-policy-leaves-no-zone",
        "What the user wants and what the policy allows have no zone in common: nothing is sent.",
    );
    s.world.kube.edit("MaasMachine", NAME, &json!({ "spec": { "failureDomain": "default" } }));
    let zones = vec!["az7".to_owned()];
    s.world.policies.shortlisting =
        Shortlisting::Narrow(Constraints { zones, ..Default::default() });
    s.machine(&[]);
    s.says("NoMachineFits", "the policy allows az7");
    s
}

fn not_administrator() -> Story {
    let mut s = worker(
        "the-key-is-no-administrators",
        "Swap and DNS need an administrator: nothing is taken, and the object says what to do.",
    );
    s.world.maas.user.admin = false;
    s.machine(&[]);
    s.says("MaasNotAdministrator", "administrator's API key");
    s
}

fn wrong_key() -> Story {
    let mut s = worker(
        "the-key-is-wrong",
        "MAAS does not accept the key: nothing is taken, and the object says where to look.",
    );
    s.machine_with(&[], |_, _, step| match step {
        Step::Read(Read::WhoAmI) => Turn::Fails(Category::Unauthorized, false),
        _ => Turn::Answered,
    });
    s.says("MaasUnauthorized", "MAAS_API_KEY");
    s
}

fn image_missing() -> Story {
    let mut s = worker(
        "the-image-is-missing",
        "MAAS has no such image: said before a machine is taken, with what there is.",
    );
    s.world.kube.edit("MaasMachine", NAME, &json!({ "spec": { "image": "custom/u-2204" } }));
    s.machine(&[]);
    s.says("ImageNotFound", "ubuntu/noble");
    s
}

fn secret_missing() -> Story {
    let mut s = worker(
        "the-bootstrap-data-is-late",
        "No Secret is named, then it does not exist, then it is empty, then it is there: only then \
         is a machine taken.",
    );
    let named = s.world.kube.machines[NAME].spec.bootstrap.data_secret_name.clone();
    let name = named.clone().expect("a name");
    let secret = s.world.kube.secrets.remove(&name).expect("a Secret");
    let bootstrap = |s: &mut Story, name| {
        let machine = s.world.kube.machines.get_mut(NAME).expect("a Machine");
        machine.spec.bootstrap.data_secret_name = name;
    };
    bootstrap(&mut s, None);
    s.machine(&[]);
    s.says("WaitingForBootstrapData", "dataSecretName");
    bootstrap(&mut s, named);
    s.machine(&[]);
    s.says("WaitingForBootstrapData", "does not exist");
    s.world.kube.secrets.insert(name.clone(), SecretState::Empty);
    s.machine(&[]);
    s.says("WaitingForBootstrapData", "no data");
    s.world.kube.secrets.insert(name, secret);
    s.machine(&TAKES);
    s
}

fn memory_unsupported() -> Story {
    let mut s = worker(
        "maas-is-too-old-to-deploy-to-memory",
        "Deploying to memory needs a newer MAAS: said before a machine is taken.",
    );
    s.world.kube.edit("MaasMachine", NAME, &json!({ "spec": { "deployInMemory": true } }));
    s.world.maas.version = "3.6.2".into();
    s.machine(&[]);
    s.says("InMemoryUnsupported", "3.6.3");
    s
}

fn paused() -> Story {
    let mut s = Story::of(
        "paused-while-being-deleted",
        World::with_deployed_machine(true),
        "The cluster is paused and its machine deleted, as a move does it: nothing is touched.",
    );
    s.world.kube.delete("MaasMachine", NAME);
    s.world.kube.cluster.as_mut().expect("a Cluster").spec.paused = Some(true);
    s.machine(&[]);
    s.cluster(&[]);
    s
}
