//! `/sim/`: JSON, without credentials, for demonstrations and for tests in other languages.

use crate::faults::CallFault;
use crate::inventory::Image;
use crate::operator::OperatorAct;
use crate::reply::Reply;
use crate::world::World;
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

const HELP: &str = "\
GET    /sim/machines            all machines, with agent_name and user_data
GET    /sim/machines/ID         one (ID or host name)
POST   /sim/machines/ID         an act: \"lock\", {\"status\": \"Broken\"}, {\"power\": \"error\"}, {\"owner\": null}, …
GET    /sim/dns                 DNS resources
GET    /sim/addresses           addresses reserved by users
GET    /sim/calls               calls; DELETE forgets them
GET    /sim/faults              faults of calls; POST adds one, DELETE removes all
GET    /sim/clock               simulated seconds; POST {\"advance\": 60} moves it
POST   /sim/version             {\"version\": \"3.6.5\"}
POST   /sim/images              {\"name\": \"custom/x\"}; DELETE with the same body removes it
GET    /sim/keys                API keys by user; POST {\"user\": \"admin\"} replaces one, DELETE with that body revokes it
";

#[derive(Deserialize)]
struct Advance {
    advance: f64,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct UserName {
    user: String,
}

pub(crate) fn answer(world: &mut World, method: &str, path: &str, body: &[u8]) -> Reply {
    let segments: Vec<&str> =
        path.trim_start_matches("/sim").split('/').filter(|s| !s.is_empty()).collect();
    if segments.is_empty() {
        return Reply::custom(200, "text/plain; charset=utf-8", HELP);
    }
    match control(world, method, &segments, body) {
        Ok(Some(value)) => Reply::json(&value),
        Ok(None) => Reply::custom(404, "text/plain; charset=utf-8", HELP),
        Err(error) => Reply::custom(400, "text/plain; charset=utf-8", &format!("{error:#}\n")),
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T> {
    serde_json::from_slice(body).context("the body is not what this takes")
}

fn control(
    world: &mut World,
    method: &str,
    segments: &[&str],
    body: &[u8],
) -> Result<Option<Value>> {
    let done = || Ok(Some(json!({"done": true})));
    match (method, segments) {
        ("GET", ["machines"]) => Ok(Some(json!(world.machine_views()))),
        ("GET", ["machines", key]) => {
            let id = system_id(world, key)?;
            Ok(world.machine(&id).map(|m| json!(world.view(m))))
        }
        ("POST", ["machines", key]) => {
            let id = system_id(world, key)?;
            world.operator(&id, read::<OperatorAct>(body)?)?;
            world.tick();
            Ok(Some(world.machine(&id).map_or(Value::Null, |m| json!(world.view(m)))))
        }
        ("GET", ["dns"]) => Ok(Some(json!(world.dns_views()))),
        ("GET", ["addresses"]) => Ok(Some(json!(world.reserved()))),
        ("GET", ["calls"]) => Ok(Some(json!(world.calls))),
        ("DELETE", ["calls"]) => {
            world.calls.clear();
            done()
        }
        ("GET", ["faults"]) => {
            let all =
                world.faults.all().iter().map(|(f, seen)| json!({"fault": f, "matched": seen}));
            Ok(Some(Value::Array(all.collect())))
        }
        ("POST", ["faults"]) => {
            world.faults.add(read::<CallFault>(body)?);
            done()
        }
        ("DELETE", ["faults"]) => {
            world.faults.clear();
            done()
        }
        ("GET" | "POST", ["clock"]) => {
            if method == "POST" {
                let by = Duration::try_from_secs_f64(read::<Advance>(body)?.advance)
                    .context("advance")?;
                world.clock.advance(by);
                world.tick();
            }
            Ok(Some(json!({"seconds": world.now().as_secs_f64()})))
        }
        _ => settings(world, method, segments, body),
    }
}

fn settings(
    world: &mut World,
    method: &str,
    segments: &[&str],
    body: &[u8],
) -> Result<Option<Value>> {
    match (method, segments) {
        ("POST", ["version"]) => world.version = read::<Version>(body)?.version,
        ("POST", ["images"]) => world.add_image(read::<Image>(body)?),
        ("DELETE", ["images"]) => world.remove_image(&read::<Image>(body)?.name),
        ("GET", ["keys"]) => {
            let keys = world.users.iter().map(|u| {
                let keys: Vec<String> = u.tokens.iter().map(crate::users::Token::text).collect();
                (u.name.clone(), json!(keys))
            });
            return Ok(Some(Value::Object(keys.collect())));
        }
        ("POST", ["keys"]) => {
            let user = read::<UserName>(body)?.user;
            return Ok(Some(json!({"user": user, "api_key": world.replace_key(&user)?})));
        }
        ("DELETE", ["keys"]) => world.revoke_keys(&read::<UserName>(body)?.user)?,
        _ => return Ok(None),
    }
    Ok(Some(json!({"done": true})))
}

fn system_id(world: &World, key: &str) -> Result<String> {
    let found = world.machines.iter().find(|m| m.system_id == key || m.hostname == key);
    found.map(|m| m.system_id.clone()).ok_or_else(|| anyhow!("there is no machine {key}"))
}
