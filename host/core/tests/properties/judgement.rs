//! What is made of a policy's answer, whatever it is.

use capmaas_api::{MaasMachine, names};
use capmaas_core::policy::{
    Action, Candidate, Constraints, Context, Name, NameRequest, Ranking, Shortlisting, choose,
    fqdn, narrowed,
};
use capmaas_core::{Done, Effect, Read, Step};
use serde::Serialize;
use serde_json::{Value, json};

use crate::world::{CLUSTER, Destiny, NAME, World};

/// The longest delay that a policy may cause, seconds.
const HOUR: u64 = 3600;
/// The longest time that a policy may have a host avoided, seconds.
const DAY: u64 = 24 * HOUR;

/// Every text that reaches the object or its events is one line of bounded length.
pub(crate) fn speaks_decently<S: Serialize>(done: &Done<S>) {
    fn each(value: &Value, at: &str) {
        match value {
            Value::String(text) => {
                let length = text.chars().count();
                let most = if at == "note" { 900 } else { 4096 };
                assert!(length <= most, "{at} has {length} characters");
                assert!(!text.chars().any(char::is_control), "{at}: {text:?}");
            }
            Value::Array(list) => list.iter().for_each(|v| each(v, at)),
            Value::Object(fields) => fields.iter().for_each(|(key, v)| each(v, key)),
            _ => {}
        }
    }
    each(&serde_json::to_value(done).unwrap(), "");
}

fn waits_at_most_an_hour<S>(done: &Done<S>) {
    assert!(done.requeue.is_none_or(|s| (1..=HOUR).contains(&s)), "{:?}", done.requeue);
}

pub(crate) fn takes_what_was_offered(short: Shortlisting, ranking: Ranking) {
    let ids = ["aaa111", "bbb222", "ccc333"];
    let mut world = World::with_machine(false);
    let asks = !matches!(short, Shortlisting::Narrow(_));
    let inspects_all = short == Shortlisting::Inspect(Constraints::default());
    world.policies.shortlisting = short;
    world.policies.ranking = ranking.clone();
    let told = world.reconcile(NAME);
    let done = told.done().unwrap();
    speaks_decently(done);
    waits_at_most_an_hour(done);
    let mut ranked: Vec<&str> = Vec::new();
    for effect in told.effects() {
        let Effect::Allocate { constraints, .. } = effect else { continue };
        let least = &constraints.constraints;
        assert!(least.min_cpu_cores >= 4 && least.min_memory_mib >= 8192, "wider than wanted");
        match constraints.system_id.as_deref() {
            Some(id) => assert!(ids.contains(&id), "{id:?} was not offered"),
            None => assert!(!asks, "MAAS was left the choice"),
        }
        ranked.extend(constraints.system_id.as_deref());
    }
    let candidates = ids.map(candidate);
    if inspects_all && let Ok(chosen) = choose(&ranking, &candidates) {
        let best = chosen.first().map(|c| c.system_id.as_str());
        assert_eq!(ranked.first().copied(), best, "the best that was ranked is taken");
        let named: Vec<u32> =
            ranking.order.iter().copied().chain(ranking.rejected.iter().map(|r| r.index)).collect();
        let once = named.iter().all(|i| named.iter().filter(|o| *o == i).count() == 1);
        assert!(once && named.iter().all(|i| *i < 3), "{named:?} is no usable answer");
    } else if inspects_all {
        assert!(ranked.is_empty(), "an answer that cannot be used takes nothing");
    }
}

/// Three machines of these cores and MiB, of which the first failed for this object a while ago.
pub(crate) fn takes_the_smallest_that_did_not_fail(sizes: [(u32, u32); 3]) {
    let mut world = World::with_machine(false);
    let ids = ["aaa111", "bbb222", "ccc333"];
    for (id, (cores, memory)) in ids.into_iter().zip(sizes) {
        let host = world.maas.host(id);
        (host.shown.cpu_count, host.shown.memory) = (cores, memory);
    }
    let failed = json!([{
        "systemID": ids[0], "reason": "bad disk", "failedAt": world.now,
        "avoidUntil": world.now + HOUR, "settled": true,
    }]);
    let known = json!({
        "metadata": { "annotations": { names::FAILED_HOSTS_ANNOTATION: failed.to_string() } },
    });
    world.kube.edit("MaasMachine", NAME, &known);
    let told = world.reconcile(NAME);
    let first = told.effects().find_map(|effect| match effect {
        Effect::Allocate { constraints, .. } => Some(constraints.system_id.clone().unwrap()),
        _ => None,
    });
    let fits = |(_, (cores, memory)): &(&str, (u32, u32))| *cores >= 4 && *memory >= 8192;
    let smallest = ids.into_iter().zip(sizes).skip(1).filter(fits);
    let smallest = smallest.min_by_key(|(_, (c, m))| u64::from(*c) + u64::from(*m / 1024));
    assert_eq!(first.as_deref(), smallest.map(|(id, _)| id));
}

fn candidate(id: &str) -> Candidate {
    Candidate {
        system_id: id.into(),
        hostname: id.into(),
        zone: "default".into(),
        pool: "default".into(),
        architecture: "amd64/generic".into(),
        cpu_cores: 8,
        memory_mib: 16384,
        storage_mib: 1000,
        vm_host: None,
        tags: vec![],
        attributes: vec![],
    }
}

/// No machine can be what both ask for.
fn contradict(one: &Constraints, other: &Constraints) -> bool {
    let nowhere = |only: [&Vec<String>; 2], never: [&Vec<String>; 2]| {
        let fits = |name: &String| {
            only.iter().all(|list| list.is_empty() || list.contains(name))
                && !never.iter().any(|list| list.contains(name))
        };
        only.iter().any(|list| !list.is_empty()) && !only.iter().any(|l| l.iter().any(&fits))
    };
    let both = |of: fn(&Constraints) -> &Vec<String>| [of(one), of(other)];
    let tags = both(|c| &c.tags).into_iter().flatten();
    let never = both(|c| &c.not_tags);
    nowhere(both(|c| &c.zones), both(|c| &c.not_zones))
        || nowhere(both(|c| &c.pools), both(|c| &c.not_pools))
        || tags.into_iter().any(|t| never.iter().any(|list| list.contains(t)))
}

pub(crate) fn narrows(wanted: &Constraints, policy: &Constraints) {
    let left = match narrowed(wanted, policy) {
        Ok(left) => left,
        Err(problem) => {
            assert!(problem.chars().count() <= 400 && !problem.chars().any(char::is_control));
            assert!(contradict(wanted, policy), "{problem}");
            return;
        }
    };
    for asked in [wanted, policy] {
        assert!(left.min_cpu_cores >= asked.min_cpu_cores);
        assert!(left.min_memory_mib >= asked.min_memory_mib);
        for (few, many) in [(&left.zones, &asked.zones), (&left.pools, &asked.pools)] {
            let inside = !few.is_empty() && few.iter().all(|z| many.contains(z));
            assert!(many.is_empty() || inside, "{few:?} is not within {many:?}");
        }
        let all = [
            (&left.tags, &asked.tags),
            (&left.not_zones, &asked.not_zones),
            (&left.not_pools, &asked.not_pools),
            (&left.not_tags, &asked.not_tags),
        ];
        for (many, few) in all {
            assert!(few.iter().all(|t| many.contains(t)), "{few:?} is not all of {many:?}");
        }
    }
    assert!(!contradict(wanted, policy), "{left:?}");
    let again = narrowed(&left, policy).expect("what was narrowed once can be narrowed again");
    assert_eq!(again, left);
}

pub(crate) fn names_validly(name: Option<Name>, cluster: &str, domain: &str) {
    let request = NameRequest {
        context: Context {
            decision_id: "d".into(),
            now: 0,
            namespace: "team".into(),
            cluster: cluster.into(),
            attributes: vec![],
        },
        suffix: "a1b2c3".into(),
        default_domain: domain.into(),
        allowed_domains: vec![domain.into(), "corp.example".into()],
        taken: vec![],
        attempt: 0,
    };
    match fqdn(name.as_ref(), &request) {
        Ok(fqdn) => {
            assert!(fqdn.len() <= 253, "{fqdn}");
            let (label, rest) = fqdn.split_once('.').unwrap();
            assert!(is_label(label) && is_name(rest), "{fqdn:?}");
            assert!(request.allowed_domains.iter().any(|d| d == rest), "{rest:?}");
            if let Some(name) = &name {
                assert_eq!(label, name.label, "a name is taken as it is or not at all");
            }
        }
        Err(problem) => {
            assert!(problem.chars().count() <= 1500, "{problem}");
            assert!(!problem.chars().any(char::is_control), "{problem:?}");
        }
    }
}

/// The same in a whole reconcile: MAAS is asked for nothing else.
pub(crate) fn is_called_validly(name: Option<Name>, domain: &str) {
    let mut world = World::with_cluster();
    world.kube.edit("MaasCluster", CLUSTER, &json!({ "spec": { "dnsDomain": domain } }));
    world.maas.domains.push(domain.to_owned());
    world.policies.name = name;
    let told = world.reconcile_cluster();
    speaks_decently(told.done().unwrap());
    for step in &told.steps {
        if let Step::Do(Effect::CreateDns { fqdn, .. }) | Step::Read(Read::DnsByName(fqdn)) = step {
            let (label, rest) = fqdn.split_once('.').unwrap();
            assert!(is_label(label) && is_name(rest), "{fqdn:?} is asked for");
        }
    }
}

pub(crate) fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let label = |l: &str| (1..=63).contains(&l.len()) && l.chars().all(letter);
    text.len() <= 253 && text.split('.').all(label)
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = |b: Option<u8>| b.is_some_and(|b| b != b'-');
    text.len() <= 63
        && text.bytes().all(inner)
        && ends(text.bytes().next())
        && ends(text.bytes().last())
}

/// Every host that failed is free to be taken again tomorrow.
fn avoids_at_most_a_day(object: &MaasMachine, now: u64) {
    let annotations = object.metadata.annotations.clone().unwrap_or_default();
    let failed = annotations.get(names::FAILED_HOSTS_ANNOTATION).map_or("[]", String::as_str);
    let failed: Vec<Value> = serde_json::from_str(failed).unwrap();
    for host in failed {
        let until = host["avoidUntil"].as_u64().unwrap();
        assert!(until <= now + DAY, "{until} is more than a day from {now}");
    }
}

pub(crate) fn handles_a_failure(action: Action, destiny: Destiny, allocated: bool) {
    let mut world = World::with_machine(false);
    if allocated {
        for host in world.maas.hosts.values_mut() {
            host.destiny = destiny;
        }
    } else {
        world.maas.hosts.clear();
    }
    world.policies.action = Some(action);
    for _ in 0..4 {
        let told = world.reconcile(NAME);
        let done = told.done().unwrap();
        speaks_decently(done);
        waits_at_most_an_hour(done);
        let object = world.kube.maas_machine(NAME).unwrap();
        avoids_at_most_a_day(&object, world.now);
        let status = object.status.unwrap_or_default();
        let retry_at = status.failure.and_then(|f| f.retry_at).unwrap_or_default();
        assert!(retry_at <= (world.now + HOUR) as i64, "{retry_at}");
        world.maas.time_passes();
        // A deployment that hangs is over by then.
        world.now += if destiny == Destiny::Hangs { 5000 } else { 15 };
    }
}
