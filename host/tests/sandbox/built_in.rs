//! What the three built-in components answer.

use capmaas::policy::{Choice, Choices, Policies};
use capmaas_core::policy::{
    Action, Answer, Constraints, Delay, Question, Ranking, Shortlisting, Stage, fqdn,
};

use super::questions::{
    action, allocation_request, answer, built_in, candidate, compiler, engine, failure, name,
    name_request, shortlist,
};

#[tokio::test]
async fn allocation_adds_nothing_to_what_the_user_wants() {
    let policies = built_in().await;
    assert_eq!(shortlist(&policies).await, Shortlisting::Narrow(Constraints::default()));
    assert!(policies.loaded()[0].id().name.starts_with("allocation-default "));
}

#[tokio::test]
async fn allocation_ranks_everything_as_it_was_offered() {
    let policies = built_in().await;
    let candidates = ["aaaaaa", "bbbbbb", "cccccc"].map(candidate).to_vec();
    let question = Question::Rank { request: allocation_request(), candidates };
    let ranking = Ranking { order: vec![0, 1, 2], rejected: vec![] };
    assert_eq!(answer(&policies, question).await, Answer::Ranked(ranking));
}

#[tokio::test]
async fn a_cluster_is_named_after_itself_and_the_suffix() {
    let policies = built_in().await;
    let name = name(&policies).await.unwrap();
    assert_eq!(name.label, "blue-a1b2c3");
    assert_eq!((name.domain, name.ttl_seconds), (None, None));
}

#[tokio::test]
async fn every_name_is_one_label_of_at_most_63_characters() {
    let policies = built_in().await;
    for cluster in
        ["x".repeat(63), "x".repeat(200), "a.b_C".into(), format!("{}-{}", "x".repeat(55), "y")]
    {
        let mut request = name_request();
        request.context.cluster = cluster.clone();
        let reply = answer(&policies, Question::Name(request.clone())).await;
        let Answer::Named(Some(name)) = reply else {
            panic!("{cluster}: {reply:?}");
        };
        assert!(name.label.len() <= 63 && name.label.ends_with("-a1b2c3"), "{}", name.label);
        fqdn(Some(&name), &request).unwrap_or_else(|why| panic!("{cluster}: {why}"));
    }
}

fn pause(action: Action) -> u32 {
    match action {
        Action::Retry(Delay { seconds, .. }) => seconds,
        other => panic!("no retry, but {other:?}"),
    }
}

#[tokio::test]
async fn b051_allocate_power_and_release_are_tried_again_with_growing_pauses() {
    let policies = built_in().await;
    for stage in [Stage::Allocate, Stage::Power, Stage::Release] {
        let mut pauses = vec![];
        for occurrences in 1..=7 {
            pauses.push(pause(action(&policies, failure(stage, occurrences, 0)).await));
        }
        assert_eq!(pauses, [15, 30, 60, 120, 240, 300, 300], "{stage:?}");
        assert_eq!(pause(action(&policies, failure(stage, u32::MAX, 9)).await), 300);
    }
}

#[tokio::test]
async fn preparing_is_tried_again_before_the_host_is_replaced() {
    let policies = built_in().await;
    for occurrences in 1..=3 {
        pause(action(&policies, failure(Stage::Prepare, occurrences, 0)).await);
    }
    let fourth = action(&policies, failure(Stage::Prepare, 4, 0)).await;
    assert!(matches!(fourth, Action::ReleaseAndReplace(_)), "{fourth:?}");
}

#[tokio::test]
async fn a_failed_deployment_takes_other_hosts_and_gives_up_in_the_end() {
    let policies = built_in().await;
    let mut pauses = vec![];
    for replacements in 0..3 {
        let answer = action(&policies, failure(Stage::Deploy, 1, replacements)).await;
        let Action::ReleaseAndReplace(replacement) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(replacement.avoid_seconds, Some(3600));
        pauses.push(replacement.delay.seconds);
    }
    assert_eq!(pauses, [0, 15, 30]);
    let last = action(&policies, failure(Stage::Deploy, 1, 3)).await;
    let Action::GiveUp(reason) = last else {
        panic!("{last:?}");
    };
    assert!(reason.contains("4 hosts") && reason.contains("disk 3 is dying"), "{reason}");
}

#[tokio::test]
async fn settings_change_how_often_and_how_long() {
    let config = r#"{"maxReplacements": 1, "avoidSeconds": 60, "prepareTries": 1,
                     "firstDelaySeconds": 2, "longestDelaySeconds": 5}"#;
    let failure_handling = Choice { component: None, config: Some(config.into()) };
    let choices = Choices { failure_handling, ..Choices::default() };
    let policies = Policies::load(engine(), choices, compiler()).await.unwrap();
    let mut pauses = vec![];
    for occurrences in 1..=4 {
        pauses.push(pause(action(&policies, failure(Stage::Power, occurrences, 0)).await));
    }
    assert_eq!(pauses, [2, 4, 5, 5]);
    let replaced = action(&policies, failure(Stage::Prepare, 1, 0)).await;
    let Action::ReleaseAndReplace(replacement) = replaced else {
        panic!("{replaced:?}");
    };
    assert_eq!(replacement.avoid_seconds, Some(60));
    let last = action(&policies, failure(Stage::Deploy, 1, 1)).await;
    assert!(matches!(last, Action::GiveUp(_)), "{last:?}");
}
