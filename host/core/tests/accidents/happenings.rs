//! What can happen.

use capmaas_core::Category;
use capmaas_core::maas::{Power, Status};
use capmaas_core::policy::{Action, Delay, Replacement};
use proptest::prelude::*;
use proptest::sample::select;

use crate::world::Destiny;

/// Which call of a reconcile an accident meets.
#[derive(Clone, Debug)]
pub(crate) enum When {
    /// So many calls after the first.
    Step(usize),
    /// Each call that makes this change.
    Change(&'static str),
}

/// What becomes of one call of a reconcile.
#[derive(Clone, Debug)]
pub(crate) enum Accident {
    /// The call fails; an effect may be carried out at once, later, or not at all.
    Fails(Category, CarriedOut),
    /// The controller dies.
    Dies(bool),
    /// Somebody is at work in MAAS directly before the call.
    Meddled(Meddling),
    /// The same, and the controller dies once the call is carried out.
    MeddledAndDies(Meddling),
    /// All goes well, and the status is lost in the end.
    StatusLost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CarriedOut {
    Not,
    AtOnce,
    Later,
}

/// What others do in MAAS to the machine that an object names.
#[derive(Clone, Debug)]
pub(crate) enum Meddling {
    Status(Status),
    Power(Power),
    /// Released, and taken by another user.
    Stolen,
    /// Released, and taken for another `MaasMachine` with our own key.
    TakenByAnotherObject,
    Deleted,
    Locked(bool),
    Destiny(Destiny),
}

#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// A machine is reconciled; `outdated` is by what was seen the time before.
    Machine {
        which: usize,
        outdated: bool,
        accident: Option<(When, Accident)>,
    },
    Cluster {
        accident: Option<(When, Accident)>,
    },
    Time(u64),
    Meddled(usize, Meddling),
    Deleted(usize),
    /// The whole cluster is deleted, machines and all.
    ClusterGoes,
    /// Moved to another management cluster, or restored: the status is gone.
    StatusWiped(usize),
    Paused(usize, bool),
    Unhealthy(usize),
    PolicySays(Option<Action>),
    PolicyRefuses(bool),
    ClusterApiFollows,
}

pub(crate) fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    prop::collection::vec(happening(), 1..45)
}

fn happening() -> impl Strategy<Value = Happening> {
    let which = || 0..2usize;
    let machine = (which(), prop::bool::weighted(0.1), accident())
        .prop_map(|(which, outdated, accident)| Happening::Machine { which, outdated, accident });
    prop_oneof![
        10 => machine,
        5 => accident().prop_map(|accident| Happening::Cluster { accident }),
        6 => select(vec![1, 5, 15, 60, 200, 5000]).prop_map(Happening::Time),
        3 => (which(), meddling()).prop_map(|(w, m)| Happening::Meddled(w, m)),
        1 => which().prop_map(Happening::Deleted),
        1 => prop_oneof![4 => which().prop_map(Happening::StatusWiped), 1 => Just(Happening::ClusterGoes)],
        1 => (which(), any::<bool>()).prop_map(|(w, p)| Happening::Paused(w, p)),
        1 => which().prop_map(Happening::Unhealthy),
        1 => action().prop_map(Happening::PolicySays),
        1 => prop::bool::weighted(0.3).prop_map(Happening::PolicyRefuses),
        3 => Just(Happening::ClusterApiFollows),
    ]
}

/// At a step, or none.
fn accident() -> impl Strategy<Value = Option<(When, Accident)>> {
    let category = select(vec![
        Category::BadRequest,
        Category::Unauthorized,
        Category::Forbidden,
        Category::NotFound,
        Category::State,
        Category::Conflict,
        Category::Server,
        Category::Unavailable,
        Category::Unreachable,
        Category::Unknown,
        Category::Tls,
        Category::Malformed,
    ]);
    let fails = category.prop_flat_map(|category| {
        // Only where a request may have arrived can it have been carried out.
        let lost = matches!(
            category,
            Category::Server | Category::Unavailable | Category::Unknown | Category::Malformed
        );
        let carried_out = if lost {
            vec![CarriedOut::Not, CarriedOut::AtOnce, CarriedOut::Later]
        } else {
            vec![CarriedOut::Not]
        };
        select(carried_out).prop_map(move |c| Accident::Fails(category, c))
    });
    let any_accident = prop_oneof![
        4 => fails,
        3 => any::<bool>().prop_map(Accident::Dies),
        2 => meddling().prop_map(Accident::Meddled),
        1 => meddling().prop_map(Accident::MeddledAndDies),
        1 => Just(Accident::StatusLost),
    ];
    let changes = select(vec![
        "allocate",
        "annotate",
        "swap off",
        "deploy",
        "release",
        "power on",
        "create record",
        "set addresses",
        "patch",
    ]);
    let when = prop_oneof![(0..16usize).prop_map(When::Step), changes.prop_map(When::Change)];
    // Those that can leak a machine come more often than chance would have it.
    let lost = select(vec![CarriedOut::Not, CarriedOut::AtOnce, CarriedOut::Later])
        .prop_map(|c| (When::Change("allocate"), Accident::Fails(Category::Unknown, c)));
    let taken_anew = Just(Accident::MeddledAndDies(Meddling::Status(Status::Ready)))
        .prop_map(|accident| (When::Change("deploy"), accident));
    let lost = prop_oneof![2 => lost, 1 => taken_anew];
    prop::option::weighted(0.5, prop_oneof![5 => (when, any_accident), 1 => lost])
}

fn meddling() -> impl Strategy<Value = Meddling> {
    let status = || {
        let mut all: Vec<Status> = Status::all().collect();
        all.push(Status::Other("Polishing".into()));
        select(all)
    };
    let power = select(vec![Power::On, Power::Off, Power::Unknown, Power::Error]);
    let destiny = select(vec![Destiny::Deploys, Destiny::Fails, Destiny::Hangs]);
    prop_oneof![
        4 => status().prop_map(Meddling::Status),
        4 => power.prop_map(Meddling::Power),
        2 => Just(Meddling::Stolen),
        2 => Just(Meddling::TakenByAnotherObject),
        1 => Just(Meddling::Deleted),
        1 => any::<bool>().prop_map(Meddling::Locked),
        3 => destiny.prop_map(Meddling::Destiny),
    ]
}

fn action() -> impl Strategy<Value = Option<Action>> {
    let delay = || Delay { seconds: 7, reason: "drawn".into() };
    let replacement = || Replacement { delay: delay(), avoid_seconds: None };
    select(vec![
        None,
        Some(Action::UseDefault),
        Some(Action::Retry(delay())),
        Some(Action::ReleaseAndReplace(replacement())),
        Some(Action::MarkBrokenAndReplace(replacement())),
        Some(Action::PowerCycle(delay())),
        Some(Action::GiveUp("drawn".into())),
    ])
}

/// Who decides.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Company {
    BuiltIn,
    /// A policy of each kind is asked beside them.
    InShadow,
    /// A policy of each kind decides, and wants to see the machines.
    Ranking,
    /// A policy of each kind gives no answer, and the built-in one takes its place.
    Failing,
}

pub(crate) fn company() -> impl Strategy<Value = Company> {
    prop_oneof![
        Just(Company::BuiltIn),
        Just(Company::InShadow),
        Just(Company::Ranking),
        Just(Company::Failing)
    ]
}
