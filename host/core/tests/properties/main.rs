//! What holds for every answer of a policy, every name and every id, not only for those in the tables.

#[path = "../world/mod.rs"]
mod world;

mod judgement;
mod names;

use capmaas_core::policy::{
    Action, Constraints, Delay, Name, Ranking, Rejection, Replacement, Shortlisting,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use world::Destiny;

/// Words as a hostile guest may choose them: long, of several lines, with escape sequences.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        "(?s).{0,40}",
        "[\\x00-\\x1f]{1,9}",
        (1usize..20_000).prop_map(|n| "x\u{1b}[31m".repeat(n)),
    ]
}

fn delay() -> impl Strategy<Value = Delay> {
    let seconds = prop_oneof![0..4000u32, any::<u32>(), Just(u32::MAX)];
    (seconds, words()).prop_map(|(seconds, reason)| Delay { seconds, reason })
}

fn constraints() -> impl Strategy<Value = Constraints> {
    let list = || {
        vec(prop_oneof![select(vec!["a", "b", "default"]).prop_map(str::to_owned), words()], 0..3)
    };
    let lists = (list(), list(), list(), list(), list(), list());
    let least = || prop_oneof![0..10_000u32, any::<u32>()];
    (least(), least(), lists).prop_map(|(min_cpu_cores, min_memory_mib, lists)| {
        let (zones, pools, tags, not_zones, not_pools, not_tags) = lists;
        Constraints {
            min_cpu_cores,
            min_memory_mib,
            zones,
            pools,
            tags,
            not_zones,
            not_pools,
            not_tags,
        }
    })
}

fn shortlisting() -> impl Strategy<Value = Shortlisting> {
    prop_oneof![
        1 => constraints().prop_map(Shortlisting::Narrow),
        1 => constraints().prop_map(Shortlisting::Inspect),
        4 => Just(Shortlisting::Inspect(Constraints::default())),
        1 => delay().prop_map(Shortlisting::Defer),
        1 => words().prop_map(Shortlisting::Reject),
    ]
}

fn ranking() -> impl Strategy<Value = Ranking> {
    let index = || prop_oneof![8 => 0..3u32, 1 => any::<u32>()];
    let rejection = (index(), words()).prop_map(|(index, reason)| Rejection { index, reason });
    (vec(index(), 0..4), vec(rejection, 0..3))
        .prop_map(|(order, rejected)| Ranking { order, rejected })
}

fn action() -> impl Strategy<Value = Action> {
    let replacement = || {
        (delay(), option::of(any::<u32>()))
            .prop_map(|(delay, avoid_seconds)| Replacement { delay, avoid_seconds })
    };
    prop_oneof![
        Just(Action::UseDefault),
        delay().prop_map(Action::Retry),
        replacement().prop_map(Action::ReleaseAndReplace),
        replacement().prop_map(Action::MarkBrokenAndReplace),
        delay().prop_map(Action::PowerCycle),
        words().prop_map(Action::GiveUp),
    ]
}

fn size(least: u32) -> impl Strategy<Value = u32> {
    prop_oneof![least - 1..2 * least, any::<u32>(), Just(u32::MAX)]
}

fn label() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{0,70}", "[a-zA-Z0-9._-]{1,10}", words()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_machines_that_were_offered_are_taken(short in shortlisting(), ranking in ranking()) {
        judgement::takes_what_was_offered(short, ranking);
    }

    #[test]
    fn the_smallest_machine_that_did_not_fail_is_taken(
        sizes in prop::array::uniform3((size(4), size(8192))),
    ) {
        judgement::takes_the_smallest_that_did_not_fail(sizes);
    }

    #[test]
    fn what_is_left_fits_user_and_policy_alike(wanted in constraints(), policy in constraints()) {
        judgement::narrows(&wanted, &policy);
    }

    #[test]
    fn a_cluster_is_only_ever_called_by_a_valid_name(
        label in label(),
        domain in option::of(prop_oneof![Just("maas".to_owned()), words()]),
        ttl_seconds: Option<u32>,
    ) {
        let name = Some(Name { label, domain, ttl_seconds });
        judgement::names_validly(name.clone(), "blue", "maas");
        judgement::is_called_validly(name, "maas");
    }

    #[test]
    fn the_built_in_name_is_valid_for_every_cluster(
        cluster in "[a-zA-Z0-9.-]{0,253}",
        domain in prop_oneof!["[a-z]{1,63}(\\.[a-z]{1,63}){0,3}", words()],
    ) {
        judgement::names_validly(None, &cluster, &domain);
        judgement::is_called_validly(None, &domain);
    }

    #[test]
    fn a_failure_policy_cannot_put_a_machine_off_for_more_than_an_hour_nor_a_host_for_more_than_a_day(
        action in action(),
        destiny in select(vec![Destiny::Fails, Destiny::Hangs]),
        allocated: bool,
    ) {
        judgement::handles_a_failure(action, destiny, allocated);
    }

    #[test]
    fn a_system_id_survives_the_provider_id(zone in ".{0,20}", id in "[a-z0-9]{1,12}") {
        names::provider_id(&zone, &id);
    }

    #[test]
    fn a_foreign_provider_id_names_no_machine(
        text in prop_oneof!["(maas|aws):/{0,4}[a-z0-9 ?#%/]{0,20}", "(?s).{0,40}"],
    ) {
        names::provider_id_of_others(&text);
    }

    #[test]
    fn an_image_that_maas_lists_is_found_in_every_form(
        wanted in "[a-z0-9./ -]{0,20}",
        listed in vec("([a-z]{1,6}/)?[a-z0-9.-]{0,12}", 0..40),
    ) {
        names::image(&wanted, &listed);
    }

    #[test]
    fn a_version_is_read_as_it_is_written(
        version: (u32, u32, u32),
        rest in "([-~+a-z][-~+a-z0-9]{0,8})?",
        text in "(?s).{0,20}",
    ) {
        names::version(version, &rest);
        names::version_text(&text);
    }

    #[test]
    fn the_endpoint_that_was_given_is_the_one_that_is_published(
        host in prop_oneof![
            "[a-zA-Z0-9.-]{0,20}",
            "[a-z0-9-]{0,9}\\.{1,2}maas\\.?",
            "(?s).{0,8}\\.maas",
            any::<std::net::IpAddr>().prop_map(|a| a.to_string()),
            words(),
        ],
    ) {
        names::endpoint(&host);
    }
}
