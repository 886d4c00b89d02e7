//! From method, path and operation to the handler.

use crate::auth::{Caller, identify};
use crate::labels::{self, Kind};
use crate::machines::{self, Need, conditions};
use crate::params::form_value;
use crate::reply::Reply;
use crate::request::{Data, Request};
use crate::users::User;
use crate::world::World;
use crate::{account, addresses, dns, domains, events, images, networks};
use serde_json::{Value, json};

/// Methods of the resource at these segments, as MAAS's `Allow` header lists them; None is an unknown address.
fn allowed(segments: &[&str]) -> Option<&'static str> {
    Some(match segments {
        ["version"]
        | ["events"]
        | ["maas"]
        | ["fabrics"]
        | ["spaces"]
        | ["ipranges"]
        | ["vm-hosts" | "pods"] => "GET",
        ["users"]
        | ["account"]
        | ["account", "prefs", "sshkeys"]
        | ["ipaddresses"]
        | ["boot-resources"] => "POST, GET",
        ["machines"]
        | ["zones"]
        | ["resourcepools"]
        | ["tags"]
        | ["domains"]
        | ["subnets"]
        | ["dnsresources"] => "POST, GET",
        ["nodes"] | ["devices"] => "POST, GET",
        ["nodes", _, "interfaces"] => "POST, GET",
        ["machines", _] | ["nodes", _, "interfaces", _] => "POST, GET, PUT, DELETE",
        ["nodes", _]
        | ["zones", _]
        | ["resourcepool", _]
        | ["domains", _]
        | ["dnsresources", _] => "GET, PUT, DELETE",
        ["tags", _] => "POST, GET, PUT, DELETE",
        ["subnets", _] | ["boot-resources", _] | ["users", _] => "GET, PUT, DELETE",
        [
            "boot-sources" | "license-keys" | "discovery" | "dhcp-snippets" | "files"
            | "static-routes",
        ] => "POST, GET",
        _ => return None,
    })
}

/// Resources that have a handler for callers without credentials, so that those get 400 there and not 401.
fn anonymous_handler(segments: &[&str]) -> bool {
    matches!(segments, ["machines" | "nodes" | "files" | "devices"])
}

/// The region's answer; the second part says who called.
pub(crate) fn answer(world: &mut World, request: &Request) -> (Reply, String) {
    let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    if let Some(reply) = outside(request) {
        return (reply, String::new());
    }
    let Some(methods) = allowed(&segments).filter(|_| request.trailing_slash) else {
        return (
            Reply::text(404, &format!("Unknown API endpoint: {}.", request.path)),
            String::new(),
        );
    };
    if segments == ["version"] && request.method == "GET" {
        return (account::version(world), String::new());
    }
    let (user, nonce) = match identify(world, request) {
        Err(reply) => return (reply, String::new()),
        Ok(Caller::Anonymous) => return (anonymous(world, request, &segments), String::new()),
        Ok(Caller::User(user, nonce)) => (user, nonce),
    };
    let reply = checked(world, request, &user, &segments, methods);
    // What an exception undid includes the nonce.
    if reply.piston || reply.status < 400 {
        world.nonces.insert(nonce);
    }
    (reply, user.name)
}

fn checked(
    world: &mut World,
    request: &Request,
    user: &User,
    segments: &[&str],
    methods: &str,
) -> Reply {
    if !methods.split(", ").any(|m| m == request.method) {
        return Reply::method_not_allowed(methods);
    }
    if matches!(request.data, Data::BadJson) && request.method != "GET" {
        return Reply::plain(400, "Bad Request");
    }
    if let Some(format) = form_value(&request.query, "format").filter(|f| f != "json") {
        return Reply::plain(400, &format!("Invalid output format specified '{format}'."));
    }
    match dispatch(world, request, user, segments) {
        Ok(reply) | Err(reply) => reply,
    }
}

/// Addresses that are not the API's.
fn outside(request: &Request) -> Option<Reply> {
    if request.in_api() {
        return None;
    }
    Some(match request.path.as_str() {
        "/MAAS/api/version/" => Reply::custom(200, "text/plain", "2.0"),
        path if path.starts_with("/MAAS/api/1.0/") => Reply::custom(
            410,
            "text/plain",
            "The 1.0 API is no longer available. Please use API version 2.0.",
        ),
        path if path.starts_with("/MAAS/") => Reply::nginx(404, "Not Found"),
        _ => Reply::nginx(301, "Moved Permanently").header("Location", "/MAAS/r/"),
    })
}

fn anonymous(world: &World, request: &Request, segments: &[&str]) -> Reply {
    if segments == ["machines"]
        && request.method == "GET"
        && request.op.as_deref() == Some("is_registered")
    {
        return machines::list::is_registered(world, request);
    }
    if anonymous_handler(segments) {
        return Reply::unrecognised(&request.method, request.op.as_deref());
    }
    if matches!(segments, ["boot-sources" | "license-keys"]) {
        return Reply::text(403, "User is not allowed access to this API.");
    }
    Reply::plain(401, "Forbidden")
}

fn dispatch(
    world: &mut World,
    request: &Request,
    user: &User,
    segments: &[&str],
) -> Result<Reply, Reply> {
    match segments {
        ["machines"] | ["nodes"] => {
            machine_collection(world, request, user, segments[0] == "nodes")
        }
        ["machines", id] => machine(world, request, user, id),
        ["nodes", id] => match (request.method.as_str(), request.op.as_deref()) {
            ("GET", None) => {
                world.permitted(id, user, Need::View)?;
                Ok(world.machine_reply(id))
            }
            _ => machine(world, request, user, id),
        },
        ["nodes", id, "interfaces", rest @ ..]
            if request.method == "GET" && request.op.is_none() =>
        {
            machines::list::interfaces(world, user, id, rest.first().copied())
        }
        ["zones", ..] | ["resourcepools"] | ["resourcepool", _] | ["tags", ..] => {
            label(world, request, user, segments)
        }
        ["dnsresources", ..] | ["domains", ..] => names(world, request, user, segments),
        _ => rest(world, request, user, segments),
    }
}

fn machine_collection(
    world: &mut World,
    request: &Request,
    user: &User,
    nodes: bool,
) -> Result<Reply, Reply> {
    match (request.method.as_str(), request.op.as_deref()) {
        ("GET", None) => machines::list::list(world, user, request),
        ("GET", Some("is_registered")) => Ok(machines::list::is_registered(world, request)),
        ("POST", Some("set_zone")) => machines::list::set_zone(world, user, request),
        (method, op) if nodes => Err(Reply::unrecognised(method, op)),
        ("GET", Some("list_allocated")) => Ok(machines::list::list_allocated(world, user, request)),
        ("GET", Some("power_parameters")) => machines::list::power_parameters(world, user, request),
        ("POST", None) => machines::create::create(world, user, request),
        ("POST", Some("allocate")) => machines::allocate::allocate(world, user, request),
        ("POST", Some("release")) => machines::release::release_many(world, user, request),
        (method, op) => Err(Reply::unrecognised(method, op)),
    }
}

fn machine(world: &mut World, request: &Request, user: &User, id: &str) -> Result<Reply, Reply> {
    match (request.method.as_str(), request.op.as_deref()) {
        ("GET", None) => {
            world.permitted(id, user, Need::View)?;
            Ok(world.machine_reply(id))
        }
        ("PUT", None) => machines::update::update(world, user, id, request),
        ("DELETE", None) => machines::update::delete(world, user, id, request),
        ("GET", Some("query_power_state")) => machines::power::query(world, user, id),
        ("GET", Some("power_parameters")) => machines::list::power_parameters_of(world, user, id),
        ("GET", Some("get_curtin_config")) => machines::list::curtin_config(world, user, id),
        ("POST", Some("deploy")) => machines::deploy::deploy(world, user, id, request),
        ("POST", Some("release")) => machines::release::release(world, user, id, request),
        ("POST", Some("abort")) => machines::abort::abort(world, user, id, request),
        ("POST", Some("power_on")) => machines::power::power_on(world, user, id, request),
        ("POST", Some("power_off")) => machines::power::power_off(world, user, id, request),
        ("POST", Some("lock")) => conditions::lock(world, user, id, request),
        ("POST", Some("unlock")) => conditions::unlock(world, user, id, request),
        ("POST", Some("mark_broken")) => conditions::mark_broken(world, user, id, request),
        ("POST", Some("mark_fixed")) => conditions::mark_fixed(world, user, id, request),
        ("POST", Some("rescue_mode")) => conditions::rescue(world, user, id),
        ("POST", Some("exit_rescue_mode")) => conditions::exit_rescue(world, user, id),
        ("POST", Some("commission")) => conditions::commission(world, user, id, false),
        ("POST", Some("test")) => conditions::commission(world, user, id, true),
        ("POST", Some("set_workload_annotations" | "set_owner_data")) => {
            machines::annotations::set(world, user, id, request)
        }
        (method, op) => Err(Reply::unrecognised(method, op)),
    }
}

fn label(
    world: &mut World,
    request: &Request,
    user: &User,
    segments: &[&str],
) -> Result<Reply, Reply> {
    let kind = if segments[0] == "zones" { Kind::Zone } else { Kind::Pool };
    match (request.method.as_str(), request.op.as_deref(), segments) {
        ("GET", None, ["tags"]) => Ok(labels::tags(world)),
        ("POST", None, ["tags"]) => labels::create_tag(world, user, request),
        ("GET", None, ["tags", name]) => labels::read_tag(world, name),
        ("PUT", None, ["tags", name]) => labels::update_tag(world, user, name, request),
        ("DELETE", None, ["tags", name]) => labels::delete_tag(world, user, name),
        ("POST", Some("update_nodes"), ["tags", name]) => {
            labels::update_nodes(world, user, name, request)
        }
        ("GET", Some("machines" | "nodes"), ["tags", name]) => {
            labels::tag_machines(world, user, name)
        }
        (method, op, ["tags", ..]) => Err(Reply::unrecognised(method, op)),
        ("GET", None, [_]) => Ok(labels::list(world, kind)),
        ("POST", None, [_]) => labels::create(world, user, kind, request),
        ("GET", None, [_, key]) => labels::read(world, kind, key),
        ("PUT", None, [_, key]) => labels::update(world, user, kind, key, request),
        ("DELETE", None, [_, key]) => labels::delete(world, user, kind, key),
        (method, op, _) => Err(Reply::unrecognised(method, op)),
    }
}

fn names(
    world: &mut World,
    request: &Request,
    user: &User,
    segments: &[&str],
) -> Result<Reply, Reply> {
    match (request.method.as_str(), request.op.as_deref(), segments) {
        ("GET", None, ["dnsresources"]) => dns::list(world, user, request),
        ("POST", None, ["dnsresources"]) => dns::create(world, user, request),
        ("GET", None, ["dnsresources", id]) => dns::read(world, id),
        ("PUT", None, ["dnsresources", id]) => dns::update(world, user, id, request),
        ("DELETE", None, ["dnsresources", id]) => dns::delete(world, user, id),
        ("GET", None, ["domains"]) => Ok(domains::list(world)),
        ("POST", None, ["domains"]) => domains::create(world, user, request),
        ("GET", None, ["domains", key]) => domains::read(world, key),
        ("DELETE", None, ["domains", key]) => domains::delete(world, user, key),
        (method, op, _) => Err(Reply::unrecognised(method, op)),
    }
}

fn rest(
    world: &mut World,
    request: &Request,
    user: &User,
    segments: &[&str],
) -> Result<Reply, Reply> {
    match (request.method.as_str(), request.op.as_deref(), segments) {
        ("GET", Some("whoami"), ["users"]) => Ok(Reply::json(&user.json())),
        ("GET", None, ["users"]) => Ok(account::users(world)),
        ("GET", None, ["users", name]) => account::user(world, name),
        ("GET", Some("list_authorisation_tokens"), ["account"]) => Ok(account::tokens(user)),
        ("POST", Some("create_authorisation_token"), ["account"]) => {
            Ok(account::create_token(world, user, request))
        }
        ("POST", Some("delete_authorisation_token"), ["account"]) => {
            account::delete_token(world, user, request)
        }
        ("GET", None, ["account", "prefs", "sshkeys"]) => Ok(Reply::json(&json!([]))),
        ("GET", Some("get_config"), ["maas"]) => account::get_config(world, request),
        ("GET", Some("query"), ["events"]) => events::query(world, user, request),
        ("GET", None, ["ipaddresses"]) => addresses::list(world, user, request),
        ("POST", Some("reserve"), ["ipaddresses"]) => addresses::reserve(world, user, request),
        ("POST", Some("release"), ["ipaddresses"]) => addresses::release(world, user, request),
        ("GET", None, ["boot-resources"]) => images::list(world, request),
        ("GET", Some("is_importing"), ["boot-resources"]) => Ok(Reply::json(&Value::Bool(false))),
        ("GET", None, ["boot-resources", id]) => images::read(world, id),
        ("GET", None, ["subnets"]) => Ok(networks::subnets(world)),
        ("GET", None, ["subnets", spec]) => networks::subnet(world, spec),
        ("GET", Some("statistics"), ["subnets", spec]) => networks::statistics(world, spec),
        ("GET", Some("ip_addresses"), ["subnets", spec]) => networks::ip_addresses(world, spec),
        ("GET", None, ["fabrics"]) => Ok(networks::fabrics(world)),
        ("GET", None, ["spaces"]) => Ok(networks::spaces(world)),
        ("GET", None, ["ipranges"]) => Ok(networks::ip_ranges(world)),
        ("GET", None, ["boot-sources" | "license-keys"]) if !user.admin => {
            Err(Reply::text(403, "User is not allowed access to this API."))
        }
        // Things that this region has none of.
        (
            "GET",
            None,
            [
                "vm-hosts" | "pods" | "devices" | "discovery" | "boot-sources" | "license-keys"
                | "dhcp-snippets" | "files" | "static-routes",
            ],
        ) => Ok(Reply::json(&json!([]))),
        (method, op, _) => Err(Reply::unrecognised(method, op)),
    }
}
