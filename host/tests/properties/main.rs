//! What holds for everything MAAS may answer, everything an operator may type and every policy that may be named, not only
//! for what the tables list.

mod addresses;
mod answers;
mod policies;
mod registries;

use capmaas::maas::Answer;
use capmaas_api::PolicyLimits;
use capmaas_core::Read;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

/// A component with something of everything that is looked at.
const COMPONENT: &str = r#"(component
    (import "capmaas:policy/host@0.1.0" (instance $host))
    (component (import "inner" (func)))
    (core module (memory 1) (func (export "f")))
    (export "capmaas:policy/metadata@0.1.0" (instance $host))
)"#;

/// What MAAS may put where something else belongs.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(Value::Null),
        2 => "(?s).{0,12}".prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => vec(option::of("[a-z.0-9]{0,9}"), 0..3).prop_map(|l| json!(l)),
        1 => btree_map("[a-z]{1,4}", ".{0,4}", 0..3).prop_map(|m| json!(m)),
        1 => vec("[a-z]{0,4}", 1..3).prop_map(|l| json!([l])),
        1 => Just(json!(["admin", true])),
        1 => (1usize..3000).prop_map(|n| json!("x\u{1b}\n".repeat(n))),
    ]
}

/// A whole object that is as MAAS documents it, with some fields odd, absent or new.
fn like(whole: Value) -> impl Strategy<Value = Value> {
    let keys: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
    let change = (select(keys.clone()), option::weighted(0.8, odd()));
    let new = ("[a-z_]{1,12}", odd());
    (vec(change, 0..3), vec(new, 0..2)).prop_map(move |(changes, new)| {
        let mut object: Map<String, Value> = whole.as_object().unwrap().clone();
        object.extend(new.into_iter().filter(|(key, _)| !keys.contains(key)));
        for (key, value) in changes {
            match value {
                Some(value) => object.insert(key, value),
                None => object.remove(&key),
            };
        }
        Value::Object(object)
    })
}

fn machine() -> impl Strategy<Value = Value> {
    like(json!({
        "system_id": "abc123", "hostname": "n1", "fqdn": "n1.maas", "status_name": "Deployed",
        "status_message": "Ready", "error_description": "", "owner": "admin",
        "workload_annotations": {"a": "b"}, "zone": {"id": 1, "name": "az1"},
        "pool": {"id": 0, "name": "default"}, "tag_names": ["x"], "power_state": "on",
        "architecture": "amd64/generic", "cpu_count": 4, "memory": 8192, "storage": 8589.9,
        "swap_size": null, "ip_addresses": ["10.0.0.1", null], "locked": false,
        "ephemeral_deploy": false, "pod": {"name": "lxd1"},
    }))
}

fn record() -> impl Strategy<Value = Value> {
    like(json!({
        "id": 7, "fqdn": "api.maas", "address_ttl": 10,
        "ip_addresses": [{"ip": "10.0.0.1", "alloc_type": 4}, {"ip": null, "alloc_type": 0}],
    }))
}

fn address() -> impl Strategy<Value = Value> {
    like(json!({"ip": "10.0.0.1", "alloc_type": 4}))
}

/// A read, and something like its answer.
fn asked() -> impl Strategy<Value = (Read, Value)> {
    let list = |one: BoxedStrategy<Value>| vec(one, 0..4).prop_map(Value::Array);
    let named = || like(json!({"id": 1, "name": "az1"})).boxed();
    let user = like(json!({"username": "admin", "is_superuser": true}));
    let image = like(json!({"id": 1, "name": "ubuntu/noble", "architecture": "amd64/ga-24.04"}));
    let event = like(json!({"type": "Marking node failed", "description": "no sectors"}));
    let events = vec(event, 0..3).prop_map(|l| json!({"count": l.len(), "events": l}));
    let version = like(json!({"version": "3.7.3", "subversion": ""}));
    prop_oneof![
        machine().prop_map(|v| (Read::Machine("abc123".into()), v)),
        list(machine().boxed()).prop_map(|v| (Read::MachinesByMark("m".into()), v)),
        list(machine().boxed()).prop_map(|v| (Read::Candidates(Box::default()), v)),
        user.prop_map(|v| (Read::WhoAmI, v)),
        version.prop_map(|v| (Read::Version, v)),
        list(image.boxed()).prop_map(|v| (Read::Images, v)),
        list(named()).prop_map(|v| (Read::Zones, v)),
        events.prop_map(|v| (Read::ErrorEvents("abc123".into()), v)),
        list(record().boxed()).prop_map(|v| (Read::DnsByName("api.maas".into()), v)),
        list(record().boxed()).prop_map(|v| (Read::DnsRecords, v)),
        record().prop_map(|v| (Read::DnsResource(7), v)),
        list(address().boxed()).prop_map(|v| (Read::Reservation("10.0.0.1".into()), v)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_maas_shows_is_taken_as_it_is_or_not_at_all((read, shown) in asked()) {
        answers::reads(&read, &shown);
    }

    #[test]
    fn anything_at_all_may_be_answered((read, _) in asked(), shown in odd(), body in vec(any::<u8>(), 0..60)) {
        answers::reads(&read, &shown);
        answers::refuses(&Answer { status: 200, body, ..Answer::default() });
    }

    #[test]
    fn fields_that_are_new_in_maas_change_nothing((read, shown) in asked(), value in odd()) {
        answers::ignores_news(&read, &shown, &value);
    }

    #[test]
    fn one_odd_machine_hides_no_other_from_a_choice(machines in vec(machine(), 0..6)) {
        answers::offers_the_readable(&machines);
    }

    #[test]
    fn a_refusal_is_one_bounded_line_and_never_holds_the_secret(
        status in prop_oneof![100..600u16, any::<u16>()],
        html: bool,
        retry_after: Option<u64>,
        before in "(?s).{0,600}",
        after in "(?s).{0,20}",
        escaped: bool,
        form: bool,
    ) {
        let body = answers::with_secret(&before, &after, escaped, form);
        answers::refuses(&Answer { status, html, retry_after, body, ..Answer::default() });
    }

    #[test]
    fn a_url_never_leaves_the_endpoint(
        endpoint in prop_oneof![
            "https?://[a-z0-9.-]{1,12}(:[0-9]{1,6})?(/[a-zA-Z0-9.%;_-]{0,8}){0,4}/?",
            "https?://[ -~]{0,30}",
            "(?s).{0,30}",
        ],
        path in prop_oneof!["(/|\\.|%2e|%2f|\t|\n|\\\\|[a-z?#]){0,12}", "(?s).{0,30}"],
    ) {
        addresses::endpoint(&endpoint, &path);
    }

    #[test]
    fn no_error_repeats_a_key_or_a_password(before in "(?s).{0,12}", after in "(?s).{0,12}") {
        addresses::keeps_the_secret(&before, &after);
    }

    #[test]
    fn a_key_is_three_parts_and_is_shown_nowhere(
        key in prop_oneof!["[a-zA-Z0-9]{18}:[a-zA-Z0-9]{18}:[a-zA-Z0-9]{32}", "[a-z:\" \n]{0,20}"],
    ) {
        addresses::key(&key);
    }

    #[test]
    fn a_reference_that_was_shown_is_read_again_as_it_was(
        text in prop_oneof![
            "([a-zA-Z0-9.-]{1,9}(:[0-9]{0,6})?/)?[a-zA-Z0-9._/-]{0,20}(:[a-zA-Z0-9._-]{0,9})?(@sha256:[a-f0-9]{63,64})?",
            "(\\[[0-9a-f:.]{2,9}\\](:[0-9]{1,5})?|localhost|(index.)?docker.io)/[a-z/]{1,9}",
            "(a.io:0{0,1020}1|[a-z]{1,9}.io)/[a-z]{0,260}(:[a-z]{0,130})?",
            "[a-z]{230,260}",
            "[a-z:/@.0-9_-]{0,40}",
            "(?s).{0,40}",
        ],
    ) {
        registries::reference(&text);
    }

    #[test]
    fn a_legal_reference_is_taken_apart_as_it_is_written(
        registry in "[a-z]{1,8}(\\.[a-z]{2,6}){1,2}(:[1-9][0-9]{0,3})?",
        repository in "[a-z0-9]{1,6}((\\.|_|__|-{1,4})[a-z0-9]{1,4}){0,3}(/[a-z0-9]{1,4}((\\.|_|__|-{1,4})[a-z0-9]{1,4}){0,2}){0,3}",
        tag in "[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}",
        digest in option::of("sha256:[a-f0-9]{64}"),
    ) {
        registries::takes_apart(&registry, &repository, &tag, digest.as_deref());
    }

    #[test]
    fn no_reference_shows_the_password_in_it(before in "(?s).{0,12}", after in "(?s).{0,12}") {
        registries::hides_a_password(&before, &after);
    }

    #[test]
    fn no_pull_secret_is_shown(
        before in "(?s).{0,12}",
        after in "(?s).{0,12}",
        bytes in vec(any::<u8>(), 0..60),
    ) {
        registries::pull_secret(&bytes);
        registries::hides_credentials(&before, &after);
    }

    #[test]
    fn a_component_shows_the_names_it_has(names in btree_set("[a-z]{1,12}(-[a-z]{1,120}){0,3}", 0..6), first in 0..6usize) {
        let names: Vec<String> = names.into_iter().collect();
        let (imports, exports) = names.split_at(first.min(names.len()));
        let mut text = String::from("(component (instance $nothing)");
        imports.iter().for_each(|name| text += &format!(r#"(import "{name}" (func))"#));
        exports.iter().for_each(|name| text += &format!(r#"(export "{name}" (instance $nothing))"#));
        policies::shows(&wat::parse_str(text + ")").unwrap(), imports, exports);
    }

    #[test]
    fn a_broken_component_is_refused_or_shows_bounded_names(
        changes in vec((any::<Index>(), any::<u8>()), 0..4),
        cut in option::of(any::<Index>()),
        bytes in vec(any::<u8>(), 0..60),
    ) {
        let mut wasm = wat::parse_str(COMPONENT).unwrap();
        changes.iter().for_each(|(at, byte)| *at.get_mut(&mut wasm) = *byte);
        wasm.truncate(cut.map_or(wasm.len(), |at| at.index(wasm.len())));
        policies::component(&wasm);
        policies::component(&[&b"\0asm\x0d\0\x01\0"[..], &bytes].concat());
    }

    #[test]
    fn a_policy_is_limited_as_its_object_says_or_refused_by_the_name_of_the_field(
        timeout in option::of(prop_oneof!["[+-]?[0-9]{1,5}(ms|s|m|)", "[0-9]{15,25}m?s", "(?s).{0,60}"]),
        memory in option::of(prop_oneof!["[+-]?[0-9]{1,3}(Mi|M|Gi|)", "[0-9]{15,25}Mi", "(?s).{0,60}"]),
        config in odd(),
    ) {
        let object = json!({
            "apiVersion": "policy.capmaas.io/v1alpha1", "kind": "MaasPolicy", "metadata": {"name": "p"},
            "spec": {
                "kind": "Allocation", "source": {"file": {"path": "p.wasm"}}, "config": config,
                "limits": {"timeout": timeout, "memory": memory},
            },
        });
        policies::object(&object.to_string());
        policies::limits(Some(&PolicyLimits { timeout, memory }));
    }

    #[test]
    fn an_odd_policy_object_is_refused_or_read_as_it_is(
        object in like(json!({
            "kind": "Allocation", "source": {"oci": {"image": "ghcr.io/a/b", "plainHttp": true}}, "config": {"a": [1.5]},
            "mode": "Enforce", "onFailure": "Fail", "limits": {"timeout": "2s", "memory": "8Mi"}, "suspend": true,
        })),
    ) {
        let object = json!({
            "apiVersion": "policy.capmaas.io/v1alpha1", "kind": "MaasPolicy", "metadata": {"name": "p"}, "spec": object,
        });
        policies::object(&object.to_string());
    }
}
