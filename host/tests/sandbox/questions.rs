//! Questions, and policies to ask them.

use std::path::PathBuf;
use std::sync::OnceLock;

use capmaas::policy::{Choice, Choices, Compiler, Engine, Policies};
use capmaas_core::Reply;
use capmaas_core::policy::{
    Action, AllocationRequest, Answer, Candidate, Constraints, Context, Failure, Name, NameRequest,
    Question, Refused, Shortlisting, Stage,
};

/// The file that guests are said to come from.
pub(crate) const FILE: &str = "guest.wasm";

/// One engine for all tests, as the program has one.
pub(crate) fn engine() -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new().unwrap()).clone()
}

pub(crate) fn compiler() -> Compiler {
    Compiler::Child(PathBuf::from(env!("CARGO_BIN_EXE_capmaas")))
}

pub(crate) fn component(bytes: Vec<u8>) -> Choice {
    Choice { component: Some((FILE.into(), bytes)), config: None }
}

/// The built-in policies, but names come from this choice.
pub(crate) async fn naming(choice: Choice) -> anyhow::Result<Policies> {
    let choices = Choices { dns_naming: choice, ..Choices::default() };
    Policies::load(engine(), choices, compiler()).await
}

pub(crate) async fn built_in() -> Policies {
    Policies::load(engine(), Choices::default(), compiler()).await.unwrap()
}

pub(crate) fn context() -> Context {
    Context {
        decision_id: "decision-1".into(),
        now: 1_900_000_000,
        namespace: "default".into(),
        cluster: "blue".into(),
        attributes: vec![],
    }
}

pub(crate) fn name_request() -> NameRequest {
    NameRequest {
        context: context(),
        suffix: "a1b2c3".into(),
        default_domain: "maas".into(),
        allowed_domains: vec!["maas".into()],
        taken: vec!["blue-zzzzzz.maas".into()],
        attempt: 1,
    }
}

pub(crate) fn allocation_request() -> AllocationRequest {
    AllocationRequest {
        context: context(),
        machine: "blue-1".into(),
        role: "control-plane".into(),
        attempt: 0,
        wanted: Constraints {
            min_cpu_cores: 4,
            zones: vec!["az1".into()],
            ..Constraints::default()
        },
        peers: vec![],
        avoid: vec![],
    }
}

pub(crate) fn candidate(system_id: &str) -> Candidate {
    Candidate {
        system_id: system_id.into(),
        hostname: format!("host-{system_id}"),
        zone: "az1".into(),
        pool: "default".into(),
        architecture: "amd64/generic".into(),
        cpu_cores: 4,
        memory_mib: 8192,
        storage_mib: 500_000,
        vm_host: None,
        tags: vec!["nvme".into()],
        attributes: vec![("key".into(), "value".into())],
    }
}

pub(crate) fn failure(stage: Stage, occurrences: u32, replacements: u32) -> Failure {
    Failure {
        context: context(),
        machine: "blue-1".into(),
        role: "worker".into(),
        stage,
        category: "machine-failed".into(),
        message: "disk 3 is dying".into(),
        maas_events: vec!["Marking node failed".into()],
        system_id: Some("abc123".into()),
        zone: None,
        first_seen: 1_899_999_000,
        occurrences,
        replacements,
        attributes: vec![],
    }
}

pub(crate) async fn answer(policies: &Policies, question: Question) -> Answer {
    match policies.ask(question).await {
        Reply::Answered(answered) => answered.answer,
        other => panic!("no answer, but {other:?}"),
    }
}

pub(crate) async fn name(policies: &Policies) -> Option<Name> {
    match answer(policies, Question::Name(name_request())).await {
        Answer::Named(name) => name,
        other => panic!("no name, but {other:?}"),
    }
}

pub(crate) async fn shortlist(policies: &Policies) -> Shortlisting {
    match answer(policies, Question::Shortlist(allocation_request())).await {
        Answer::Shortlisted(shortlisting) => shortlisting,
        other => panic!("no shortlist, but {other:?}"),
    }
}

pub(crate) async fn action(policies: &Policies, failure: Failure) -> Action {
    match answer(policies, Question::Handle(failure)).await {
        Answer::Action(action) => action,
        other => panic!("no action, but {other:?}"),
    }
}

/// The refusal of a name.
pub(crate) async fn refused(policies: &Policies) -> Refused {
    match policies.ask(Question::Name(name_request())).await {
        Reply::Refused(refused) => refused,
        other => panic!("no refusal, but {other:?}"),
    }
}
