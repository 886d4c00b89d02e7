use capmaas_core::policy::{
    Action, Constraints, Delay, Name, PolicyId, Ranking, Refused, Rejection, Seat, Shortlisting,
};

use super::{Story, TAKES};
use crate::world::{Destiny, NAME, Policies, World};

pub(super) fn stories() -> Vec<Story> {
    vec![
        two_in_turn(),
        left_out(),
        insisted_on(),
        all_left_out(),
        being_loaded(),
        beside_the_live_one(),
        beside_a_halt(),
        a_name_by_default(),
        another_name_in_shadow(),
        a_failure_by_default(),
    ]
}

fn seat(policy: &str) -> Seat {
    let digest = "sha256:0123456789abcdef".to_owned();
    let id = Some(PolicyId { name: format!("{policy} 0.1.0"), digest });
    Seat { policy: policy.to_owned(), id, ..Seat::default() }
}

fn shadow(policy: &str) -> Seat {
    Seat { shadow: true, ..seat(policy) }
}

fn lenient(policy: &str) -> Seat {
    Seat { use_default: true, ..seat(policy) }
}

fn traps() -> Policies {
    Policies { refusal: Some(Refused::unusable("it trapped")), ..Policies::default() }
}

fn ranks(order: &[u32], rejected: &[u32]) -> Policies {
    let reject = |index: &u32| Rejection { index: *index, reason: "too loud".into() };
    Policies {
        shortlisting: Shortlisting::Inspect(Constraints::default()),
        ranking: Ranking { order: order.to_vec(), rejected: rejected.iter().map(reject).collect() },
        ..Policies::default()
    }
}

impl Story {
    fn with_policies(mut self, seats: &[(Seat, Policies)]) -> Self {
        for (seat, policies) in seats {
            self.world.policies.named.insert(seat.policy.clone(), policies.clone());
            self.world.panel.allocation.push(seat.clone());
        }
        self
    }

    /// What the last reconcile said in an event with this reason.
    fn noted(&self, reason: &str, words: &str) {
        let last = self.reconciles.last().and_then(|r| r["steps"].as_array()?.last());
        let events = last.map(|done| done["done"]["events"].to_string()).unwrap_or_default();
        assert!(events.contains(reason) && events.contains(words), "{}: {events}", self.name);
    }
}

fn worker(name: &'static str, tells: &'static str) -> Story {
    Story::of(name, World::with_machine(false), tells)
}

fn two_in_turn() -> Story {
    let mut s = worker(
        "two-policies-rank-in-turn",
        "All shortlists come first, then one listing; the second ranks what the first has left, and its order counts.",
    )
    .with_policies(&[
        (seat("team/quiet"), ranks(&[2, 1], &[0])),
        (seat("team/nearest"), ranks(&[1, 0], &[])),
    ]);
    s.machine(&TAKES);
    assert_eq!(s.world.kube.maas_machine(NAME).unwrap().spec.system_id.as_deref(), Some("ccc333"));
    s
}

fn left_out() -> Story {
    let mut s = worker(
        "a-policy-without-an-answer-is-left-out",
        "One of two policies traps, and its object says UseDefault: the other decides alone.",
    )
    .with_policies(&[
        (lenient("team/broken"), traps()),
        (seat("team/nearest"), ranks(&[2, 1, 0], &[])),
    ]);
    s.machine(&TAKES);
    s.noted("PolicyDefaultUsed", "team/broken");
    s
}

fn insisted_on() -> Story {
    let resting =
        Seat { unavailable: Some("it rests after 5 failures".into()), ..seat("team/strict") };
    let mut s = worker(
        "a-policy-that-must-answer-cannot-be-asked",
        "Its object says Fail: no machine is taken without its word.",
    )
    .with_policies(&[(resting, Policies::default())]);
    s.machine(&[]);
    s.says("AllocationPolicyFailed", "team/strict: it rests after 5 failures");
    s
}

fn all_left_out() -> Story {
    let mut s = worker(
        "every-policy-is-left-out",
        "The only policy named gives no answer and its object says UseDefault: the built-in one decides.",
    )
    .with_policies(&[(lenient("team/broken"), traps())]);
    s.machine(&TAKES);
    s.noted("PolicyDefaultUsed", "it trapped");
    s
}

fn being_loaded() -> Story {
    let mut s = worker(
        "a-policy-is-being-loaded",
        "The controller has just started: what a policy is to decide waits until it can be asked.",
    )
    .with_policies(&[(Seat { loading: true, ..lenient("team/large") }, Policies::default())]);
    s.machine(&[]);
    s.says("PolicyLoading", "team/large");
    s.world.panel.allocation[0].loading = false;
    s.world.now += 1;
    s.machine(&TAKES);
    s
}

fn beside_the_live_one() -> Story {
    let elsewhere =
        Shortlisting::Narrow(Constraints { zones: vec!["moon".into()], ..Constraints::default() });
    let mut s = worker(
        "policies-in-shadow-disagree",
        "The built-in policy decides; three others are asked beside it. One agrees, two would have had it otherwise.",
    )
    .with_policies(&[
        (shadow("team/agrees"), ranks(&[0], &[])),
        (shadow("team/ranks"), ranks(&[1, 0], &[2])),
        (shadow("team/narrows"), Policies { shortlisting: elsewhere, ..Policies::default() }),
        (shadow("team/broken"), traps()),
    ]);
    s.machine(&TAKES);
    s.noted(
        "PolicyDisagrees",
        "team/ranks (in shadow) disagrees: it would have taken host-bbb222 (bbb222)",
    );
    s.noted(
        "PolicyDisagrees",
        "team/narrows (in shadow) disagrees: it would not have had it: zone",
    );
    s
}

fn beside_a_halt() -> Story {
    let reason = "the rack is being moved".to_owned();
    let waits = Shortlisting::Defer(Delay { seconds: 600, reason });
    let mut s = worker(
        "a-policy-in-shadow-would-not-have-waited",
        "The live policy defers, the one in shadow would have taken a machine: nothing is taken.",
    )
    .with_policies(&[
        (seat("team/patient"), Policies { shortlisting: waits, ..Policies::default() }),
        (shadow("team/hasty"), ranks(&[1], &[])),
    ]);
    s.machine(&[]);
    s.says("AllocationDeferred", "the rack is being moved");
    s.noted("PolicyDisagrees", "it would have taken host-bbb222 (bbb222); none was taken");
    s
}

fn named(seats: &[(Seat, Option<&str>)], name: &'static str, tells: &'static str) -> Story {
    let mut s = Story::of(name, World::with_cluster(), tells);
    for (seat, label) in seats {
        let answer =
            |label: &&str| Name { label: (**label).into(), domain: None, ttl_seconds: None };
        let policies = match label {
            Some(label) => Policies { name: Some(answer(label)), ..Policies::default() },
            None => traps(),
        };
        s.world.policies.named.insert(seat.policy.clone(), policies);
        s.world.panel.dns_naming.push(seat.clone());
    }
    s
}

fn a_name_by_default() -> Story {
    let mut s = named(
        &[(lenient("team/broken"), None)],
        "a-naming-policy-without-an-answer",
        "Its object says UseDefault: the cluster gets the built-in name, and an event says why.",
    );
    s.cluster(&["patch", "patch", "patch", "create record", "patch"]);
    s.noted("PolicyDefaultUsed", "team/broken");
    s
}

fn another_name_in_shadow() -> Story {
    let mut s = named(
        &[(seat("team/live"), Some("api-blue")), (shadow("team/trial"), Some("blue-api"))],
        "a-naming-policy-in-shadow-disagrees",
        "The live policy names the cluster; the other would have named it otherwise.",
    );
    s.cluster(&["patch", "patch", "patch", "create record", "patch"]);
    s.noted("PolicyDisagrees", "it would have named it blue-api.maas; its name is api-blue.maas");
    s
}

fn a_failure_by_default() -> Story {
    let mut s = worker(
        "a-failure-policy-without-an-answer",
        "The deployment fails and the policy named traps: the built-in one replaces the host; one in shadow would have given up.",
    );
    let gives_up =
        Policies { action: Some(Action::GiveUp("see the runbook".into())), ..Policies::default() };
    let seats = [(lenient("team/broken"), traps()), (shadow("team/strict"), gives_up)];
    for (seat, policies) in seats {
        s.world.policies.named.insert(seat.policy.clone(), policies);
        s.world.panel.failure_handling.push(seat);
    }
    s.world.reconcile(NAME);
    s.world.maas.host("aaa111").destiny = Destiny::Fails;
    s.later(600);
    s.machine(&["patch", "release"]);
    s.noted("PolicyDefaultUsed", "team/broken");
    s.noted("PolicyDisagrees", "it would give up: see the runbook");
    s
}
