//! Events, which also give machines their `status_message`.

use crate::params::{form_value, form_values, int};
use crate::reply::Reply;
use crate::request::{Pairs, Request};
use crate::users::User;
use crate::world::World;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Audit,
    Debug,
    Info,
    Warning,
    Error,
    Critical,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        use Level::{Audit, Critical, Debug, Error, Info, Warning};
        [Audit, Debug, Info, Warning, Error, Critical].into_iter().find(|l| l.name() == text)
    }

    fn name(self) -> &'static str {
        match self {
            Level::Audit => "AUDIT",
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
            Level::Critical => "CRITICAL",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) at: Duration,
    pub(crate) node: String,
    pub(crate) level: Level,
    pub(crate) kind: String,
    pub(crate) description: String,
    /// What a machine shows as `status_action`.
    pub(crate) action: String,
    /// Empty for the system's own events.
    pub(crate) user: String,
}

impl Event {
    /// As a machine's `status_message` shows it.
    pub(crate) fn message(&self) -> String {
        if self.description.is_empty() {
            self.kind.clone()
        } else {
            format!("{} - {}", self.kind, self.description)
        }
    }
}

impl World {
    pub(crate) fn add_event(
        &mut self,
        node: &str,
        level: Level,
        kind: &str,
        description: &str,
        action: &str,
    ) {
        self.add_event_at(self.now(), node, level, kind, description, action);
    }

    pub(crate) fn add_event_at(
        &mut self,
        at: Duration,
        node: &str,
        level: Level,
        kind: &str,
        description: &str,
        action: &str,
    ) {
        let id = self.next_id("event");
        self.events.push(Event {
            id,
            at,
            node: node.into(),
            level,
            kind: kind.into(),
            description: description.into(),
            action: action.into(),
            user: String::new(),
        });
    }

    /// The DEBUG event of a user's doing, with the comment of the call.
    pub(crate) fn add_user_event(&mut self, node: &str, user: &User, kind: &str, form: &Pairs) {
        let comment = form_value(form, "comment").filter(|c| !c.is_empty());
        let description = comment
            .map_or_else(|| format!("({})", user.name), |c| format!("({}) - {c}", user.name));
        self.add_event(node, Level::Debug, kind, &description, "");
        if let Some(event) = self.events.last_mut() {
            event.user.clone_from(&user.name);
        }
    }

    pub(crate) fn newest_event(&self, node: &str) -> Option<&Event> {
        self.events.iter().rfind(|e| e.node == node && e.level >= Level::Info)
    }

    fn event_json(&self, event: &Event) -> Value {
        json!({
            "id": event.id,
            "node": event.node,
            "hostname": self.machine(&event.node).map_or("", |m| &m.hostname),
            "level": event.level.name(),
            "type": event.kind,
            "description": event.description,
            "created": self.clock.event_date(event.at),
            "username": if event.user.is_empty() { "unknown" } else { &event.user },
        })
    }

    fn event_matches(&self, event: &Event, user: &User, query: &Pairs) -> bool {
        let Some(machine) = self.machine(&event.node) else {
            return false;
        };
        let any = |key: &str, test: &dyn Fn(&str) -> bool| {
            let wanted = form_values(query, key);
            wanted.is_empty() || wanted.iter().any(|w| test(w))
        };
        // Events of machines that one may not see are left out, without a word.
        machine.viewable(user)
            && any("id", &|w| machine.system_id == w)
            && any("hostname", &|w| machine.hostname == w)
            && any("mac_address", &|w| {
                machine.interfaces.iter().any(|i| i.mac.eq_ignore_ascii_case(w))
            })
            && any("zone", &|w| machine.zone == w)
            && any("pool", &|w| machine.pool == w)
            && any("domain", &|w| self.domain_of(machine) == w)
            && any("agent_name", &|w| machine.agent_name == w)
            && any("owner", &|w| event.user == w)
    }
}

/// `GET /events/?op=query`: newest first.
pub(crate) fn query(world: &World, user: &User, request: &Request) -> Result<Reply, Reply> {
    let query = &request.query;
    let level = match form_value(query, "level").filter(|l| !l.is_empty()) {
        None => Level::Info,
        Some(name) => Level::parse(&name)
            .ok_or_else(|| Reply::text(400, &format!("Unrecognised log level: {name}")))?,
    };
    let limit = int(query, "limit")?.unwrap_or(100);
    if limit > 1000 {
        let text = format!("Requested number of events {limit} is greater than limit: 1000");
        return Err(Reply::text(400, &text));
    }
    let (after, before) = (int(query, "after")?, int(query, "before")?);
    if after.is_some() && before.is_some() {
        let text = "There is undetermined behaviour when both `after` and `before` are specified.";
        return Err(Reply::text(400, text));
    }
    let id = |e: &Event| i64::try_from(e.id).unwrap_or(i64::MAX);
    // AUDIT stands alone: those events only; the others are a minimum.
    let level_fits = |e: &Event| {
        if level == Level::Audit { e.level == Level::Audit } else { e.level >= level }
    };
    let wanted = |e: &&Event| {
        level_fits(e)
            && after.is_none_or(|a| id(e) > a)
            && before.is_none_or(|b| id(e) < b)
            && world.event_matches(e, user, query)
    };
    // A limit of nought or less gives one event all the same.
    let limit = usize::try_from(limit.max(1)).unwrap_or(1);
    let found: Vec<&Event> = world.events.iter().rev().filter(wanted).take(limit).collect();
    let (next, prev) = links(request, &found);
    let list: Vec<Value> = found.iter().map(|e| world.event_json(e)).collect();
    Ok(Reply::json(
        &json!({"count": list.len(), "events": list, "next_uri": next, "prev_uri": prev}),
    ))
}

/// `next_uri` leads to newer events, `prev_uri` to older ones; without any event there is no older one.
fn links(request: &Request, found: &[&Event]) -> (String, Option<String>) {
    let mut kept = form_urlencoded::Serializer::new(String::new());
    // Of a repeated key MAAS keeps the last.
    for (i, (key, value)) in request.query.iter().enumerate() {
        let last = !request.query[i + 1..].iter().any(|(k, _)| k == key);
        if last && key != "after" && key != "before" {
            kept.append_pair(key, value);
        }
    }
    let base = format!("/MAAS/api/2.0/events/?{}", kept.finish());
    match (found.first(), found.last()) {
        (Some(newest), Some(oldest)) => {
            (format!("{base}&after={}", newest.id), Some(format!("{base}&before={}", oldest.id)))
        }
        _ => (base, None),
    }
}
