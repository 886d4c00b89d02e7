//! Workload annotations (`set_workload_annotations`, formerly `set_owner_data`).

use super::Need;
use crate::reply::Reply;
use crate::request::Request;
use crate::users::User;
use crate::world::World;
use std::collections::BTreeMap;

/// Only the owner may; being an administrator is not enough. A blank value removes the key, others stay.
pub(crate) fn set(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let machine = world.permitted(system_id, user, Need::Edit)?;
    if machine.owner.as_deref() != Some(&user.name) {
        return Err(Reply::text(409, "Cannot set workload annotation: it hasn't been acquired."));
    }
    let wanted: BTreeMap<&str, &str> = request
        .post()
        .iter()
        .filter(|(k, _)| k != "op")
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    for key in wanted.keys() {
        // A key outside [\w.-]+ is an exception that MAAS does not turn into a 400.
        if key.is_empty()
            || !key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
        {
            return Err(Reply::text(500, "Invalid character in key name"));
        }
        let length = key.chars().count();
        if length > 255 {
            return Err(Reply::model_error(
                "key",
                &format!("Ensure this value has at most 255 characters (it has {length})."),
            ));
        }
    }
    world.change(system_id, |m| {
        for (key, value) in wanted {
            if value.is_empty() {
                m.annotations.remove(key);
            } else {
                m.annotations.insert(key.into(), value.into());
            }
        }
    });
    Ok(world.machine_reply(system_id))
}
