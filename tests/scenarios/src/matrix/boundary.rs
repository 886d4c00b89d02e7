//! Where the controller calls somebody: the same name for it in every run of a story.

use std::collections::BTreeMap;
use std::fmt;

use gate::{Call, Side};
use serde_json::Value;

/// One call of a story: whom, what, and the how manieth of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boundary {
    /// Whom the call is meant for.
    pub side: Side,
    /// Method, path and operation without names and ids, and for a patch the fields that it writes.
    pub call: String,
    /// Its place among equal calls, from 0.
    pub ordinal: usize,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Kubernetes => "k8s ",
            Side::Maas => "maas",
        };
        write!(f, "{side} {} #{}", self.call, self.ordinal + 1)
    }
}

impl Boundary {
    /// Whether the call can change anything.
    pub fn writes(&self) -> bool {
        !self.call.starts_with("GET ")
    }
}

/// How many equal calls count as places of their own: looking again and again is one place.
fn most(side: Side, writes: bool) -> usize {
    match (side, writes) {
        (Side::Maas, true) => 3,
        (Side::Kubernetes, true) => 2,
        (_, false) => 1,
    }
}

/// The places of these calls, in the order of their first occurrence.
pub fn boundaries(calls: &[Call]) -> Vec<Boundary> {
    let mut seen: BTreeMap<(Side, String), usize> = BTreeMap::new();
    let mut found = Vec::new();
    for call in calls {
        let Some(name) = name_of(call) else { continue };
        let count = seen.entry((call.side, name.clone())).or_default();
        if *count < most(call.side, call.writes()) {
            found.push(Boundary { side: call.side, call: name, ordinal: *count });
        }
        *count += 1;
    }
    found
}

/// What a call is called. None for streams, and for what Cluster API asks of a workload cluster through the same gate.
pub fn name_of(call: &Call) -> Option<String> {
    if call.watches() {
        return None;
    }
    match call.side {
        Side::Maas => Some(of_maas(call)),
        Side::Kubernetes => of_kubernetes(call),
    }
}

fn of_maas(call: &Call) -> String {
    let path = call.path().trim_start_matches("/MAAS/api/2.0/");
    let mut parts = path.split('/').filter(|p| !p.is_empty());
    let mut name = format!("{} {}", call.method, parts.next().unwrap_or_default());
    parts.for_each(|_| name.push_str("/{}"));
    let query = call.target.split_once('?').map_or("", |(_, query)| query);
    let mut words: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| if pair.starts_with("op=") { pair } else { key(pair) })
        .collect();
    words.sort_unstable();
    words.dedup();
    if !words.is_empty() {
        name.push_str(&format!(" {}", words.join(",")));
    }
    // Whether a machine is asked for alone or with others is a matter of the moment.
    if name == "GET machines id" { "GET machines/{}".into() } else { name }
}

fn key(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default()
}

fn of_kubernetes(call: &Call) -> Option<String> {
    let mut parts = call.path().split('/').filter(|p| !p.is_empty()).peekable();
    match parts.next()? {
        "api" => drop(parts.next()?),
        "apis" => drop((parts.next()?, parts.next()?)),
        _ => return None,
    }
    if parts.peek() == Some(&"namespaces") {
        parts.nth(1);
    }
    let resource = parts.next()?;
    let named = if parts.next().is_some() { "/{}" } else { "" };
    let sub = parts.next().map(|s| format!("/{s}")).unwrap_or_default();
    let fields = written(call);
    if resource == "nodes" && fields != " spec.providerID" {
        return None;
    }
    Some(format!("{} {resource}{named}{sub}{fields}", call.method))
}

/// The fields that a patch writes, down to where they say what it is for.
fn written(call: &Call) -> String {
    if call.method != "PATCH" || call.path().ends_with("/status") {
        return String::new();
    }
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    let mut fields = Vec::new();
    let keys = |value: &Value, front: &str, fields: &mut Vec<String>| {
        let names = value.as_object().into_iter().flat_map(|o| o.iter());
        fields.extend(names.map(|(k, v)| {
            let minus = if v.is_null() { "-" } else { "" };
            format!("{minus}{front}{}", k.trim_start_matches("capmaas.io/"))
        }));
    };
    keys(&body["metadata"]["annotations"], "", &mut fields);
    keys(&body["spec"], "spec.", &mut fields);
    if let Some(list) = body["metadata"]["finalizers"].as_array() {
        fields.push(if list.is_empty() { "-finalizers".into() } else { "finalizers".to_owned() });
    }
    if fields.is_empty() { String::new() } else { format!(" {}", fields.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(side: Side, method: &str, target: &str, body: &str) -> Call {
        Call {
            number: 0,
            side,
            method: method.into(),
            target: target.into(),
            body: body.to_owned().into(),
            status: None,
            act: None,
        }
    }

    #[test]
    fn names_and_ids_do_not_make_another_call() {
        let of = |target| name_of(&call(Side::Maas, "POST", target, "")).expect("a name");
        let one = of("/MAAS/api/2.0/machines/abc/?op=deploy");
        assert_eq!(one, of("/MAAS/api/2.0/machines/xyz/?op=deploy"));
        assert_eq!(one, "POST machines/{} op=deploy");
    }

    #[test]
    fn a_machine_is_looked_at_alone_or_with_others() {
        let of = |target| name_of(&call(Side::Maas, "GET", target, ""));
        assert_eq!(of("/MAAS/api/2.0/machines/?id=abc&id=xyz"), of("/MAAS/api/2.0/machines/abc/"));
        assert_ne!(of("/MAAS/api/2.0/machines/?agent_name=a"), of("/MAAS/api/2.0/machines/abc/"));
    }

    #[test]
    fn a_patch_is_named_after_what_it_writes() {
        let path = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/n/maasmachines/w";
        let body =
            r#"{"metadata":{"annotations":{"capmaas.io/a":null}},"spec":{"providerID":"p"}}"#;
        let name = name_of(&call(Side::Kubernetes, "PATCH", path, body));
        assert_eq!(name.as_deref(), Some("PATCH maasmachines/{} -a,spec.providerID"));
    }

    #[test]
    fn polling_is_one_place() {
        let read = call(Side::Maas, "GET", "/MAAS/api/2.0/machines/?id=abc", "");
        let write = call(Side::Maas, "POST", "/MAAS/api/2.0/machines/?op=allocate", "");
        let found = boundaries(&[read.clone(), write.clone(), read, write]);
        assert_eq!(found.iter().filter(|b| b.writes()).count(), 2);
        assert_eq!(found.len(), 3);
    }
}
