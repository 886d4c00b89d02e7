//! Zones, resource pools and tags.

use crate::params::{form_value, form_values};
use crate::reply::Reply;
use crate::request::Request;
use crate::users::User;
use crate::world::World;
use serde_json::{Value, json};

/// A zone or a pool.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) description: String,
}

impl Label {
    pub(crate) fn new(id: u64, name: &str, description: &str) -> Self {
        Self { id, name: name.into(), description: description.into() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) comment: String,
    pub(crate) definition: String,
    pub(crate) kernel_opts: String,
}

impl Tag {
    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "definition": self.definition,
            "comment": self.comment,
            "kernel_opts": self.kernel_opts,
            "resource_uri": format!("/MAAS/api/2.0/tags/{}/", self.name),
        })
    }
}

pub(crate) fn zone_json(zone: &Label) -> Value {
    let uri = format!("/MAAS/api/2.0/zones/{}/", zone.name);
    json!({"id": zone.id, "name": zone.name, "description": zone.description, "resource_uri": uri})
}

pub(crate) fn pool_json(pool: &Label) -> Value {
    let uri = format!("/MAAS/api/2.0/resourcepool/{}/", pool.id);
    json!({"id": pool.id, "name": pool.name, "description": pool.description, "resource_uri": uri})
}

/// The two kinds differ in little: names, ids in the address, and who says 403 how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Zone,
    Pool,
}

impl Kind {
    fn of(self, world: &mut World) -> &mut Vec<Label> {
        match self {
            Kind::Zone => &mut world.zones,
            Kind::Pool => &mut world.pools,
        }
    }

    fn json(self, label: &Label) -> Value {
        match self {
            Kind::Zone => zone_json(label),
            Kind::Pool => pool_json(label),
        }
    }

    fn admin(self, user: &User) -> Result<(), Reply> {
        match (user.admin, self) {
            (true, _) => Ok(()),
            (false, Kind::Zone) => Err(Reply::admins_only()),
            (false, Kind::Pool) => Err(Reply::forbidden()),
        }
    }

    fn missing(self) -> Reply {
        Reply::not_found(if self == Kind::Zone { "Zone" } else { "ResourcePool" })
    }

    /// Zones go by name, pools by id or name.
    fn find(self, world: &mut World, key: &str) -> Option<usize> {
        self.of(world)
            .iter()
            .position(|l| l.name == key || (self == Kind::Pool && l.id.to_string() == key))
    }
}

/// `^\w[ \w-]*$`
fn valid_name(name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    name.starts_with(word) && name.chars().all(|c| word(c) || c == ' ' || c == '-')
}

pub(crate) fn list(world: &mut World, kind: Kind) -> Reply {
    let mut labels = kind.of(world).clone();
    labels.sort_by(|a, b| a.name.cmp(&b.name));
    Reply::json(&Value::Array(labels.iter().map(|l| kind.json(l)).collect()))
}

pub(crate) fn create(
    world: &mut World,
    user: &User,
    kind: Kind,
    request: &Request,
) -> Result<Reply, Reply> {
    kind.admin(user)?;
    let fields = request.fields();
    let name = form_value(&fields, "name").unwrap_or_default();
    check_name(world, kind, &name, None)?;
    let id = world.next_id(if kind == Kind::Zone { "zone" } else { "pool" });
    let label = Label::new(id, &name, &form_value(&fields, "description").unwrap_or_default());
    kind.of(world).push(label.clone());
    Ok(Reply::json(&kind.json(&label)))
}

fn check_name(world: &mut World, kind: Kind, name: &str, but: Option<usize>) -> Result<(), Reply> {
    if name.is_empty() {
        return Err(Reply::form("name", "This field is required."));
    }
    if !valid_name(name) {
        return Err(Reply::form("name", "Enter a valid value."));
    }
    if kind.of(world).iter().enumerate().any(|(i, l)| l.name == name && Some(i) != but) {
        let what = if kind == Kind::Zone { "Physical zone" } else { "Resource pool" };
        return Err(Reply::form("name", &format!("{what} with this Name already exists.")));
    }
    Ok(())
}

pub(crate) fn read(world: &mut World, kind: Kind, key: &str) -> Result<Reply, Reply> {
    let found = kind.find(world, key).ok_or_else(|| kind.missing())?;
    Ok(Reply::json(&kind.json(&kind.of(world)[found])))
}

pub(crate) fn update(
    world: &mut World,
    user: &User,
    kind: Kind,
    key: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    kind.admin(user)?;
    let found = kind.find(world, key).ok_or_else(|| kind.missing())?;
    let fields = request.fields();
    let name = form_value(&fields, "name").filter(|n| !n.is_empty());
    if let Some(name) = &name {
        check_name(world, kind, name, Some(found))?;
    }
    let label = &mut kind.of(world)[found];
    let old = label.name.clone();
    label.description =
        form_value(&fields, "description").unwrap_or_else(|| label.description.clone());
    label.name = name.unwrap_or_else(|| label.name.clone());
    let label = label.clone();
    move_machines(world, kind, &old, &label.name);
    Ok(Reply::json(&kind.json(&label)))
}

fn move_machines(world: &mut World, kind: Kind, from: &str, to: &str) {
    for machine in &mut world.machines {
        let place = if kind == Kind::Zone { &mut machine.zone } else { &mut machine.pool };
        if place == from {
            *place = to.into();
        }
    }
}

/// Deleting an unknown zone is a success; one with machines gives them to `default`. Pools are stricter.
pub(crate) fn delete(
    world: &mut World,
    user: &User,
    kind: Kind,
    key: &str,
) -> Result<Reply, Reply> {
    kind.admin(user)?;
    let Some(found) = kind.find(world, key) else {
        return if kind == Kind::Zone { Ok(Reply::deleted()) } else { Err(kind.missing()) };
    };
    let name = kind.of(world)[found].name.clone();
    if name == "default" {
        let what =
            if kind == Kind::Zone { "zone is the default zone" } else { "is the default pool" };
        return Err(Reply::text(400, &format!("This {what}, it cannot be deleted.")));
    }
    if kind == Kind::Pool && world.machines.iter().any(|m| m.pool == name) {
        return Err(Reply::text(400, "Pool has machines in it, it cannot be deleted."));
    }
    kind.of(world).remove(found);
    move_machines(world, kind, &name, "default");
    Ok(Reply::deleted())
}

pub(crate) fn tags(world: &World) -> Reply {
    Reply::json(&Value::Array(world.tags.iter().map(Tag::json).collect()))
}

pub(crate) fn create_tag(
    world: &mut World,
    user: &User,
    request: &Request,
) -> Result<Reply, Reply> {
    if !user.admin {
        return Err(Reply::forbidden());
    }
    let fields = request.fields();
    let text = |key: &str| form_value(&fields, key).unwrap_or_default();
    let tag = Tag {
        name: text("name"),
        comment: text("comment"),
        definition: text("definition"),
        kernel_opts: text("kernel_opts"),
    };
    check_tag(world, &tag, None)?;
    world.tags.push(tag.clone());
    Ok(Reply::json(&tag.json()))
}

fn check_tag(world: &World, tag: &Tag, but: Option<&str>) -> Result<(), Reply> {
    let length = tag.name.chars().count();
    let valid = tag.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let wrong = |text: &str| Err(Reply::form("name", text));
    if length == 0 {
        return wrong("This field is required.");
    }
    if !valid {
        return wrong("Enter a valid value.");
    }
    if length > 256 {
        return wrong(&format!("Ensure this value has at most 256 characters (it has {length})."));
    }
    if but != Some(&tag.name) && world.tags.iter().any(|t| t.name == tag.name) {
        return wrong("Tag with this Name already exists.");
    }
    // Definitions are XPath expressions that nothing here evaluates; only what cannot be one is refused.
    if tag.definition.contains("///")
        || tag.definition.matches('[').count() != tag.definition.matches(']').count()
    {
        return Err(Reply::form("definition", "Invalid xpath expression: Invalid expression"));
    }
    Ok(())
}

fn tag_position(world: &World, name: &str) -> Result<usize, Reply> {
    world.tags.iter().position(|t| t.name == name).ok_or_else(|| Reply::not_found("Tag"))
}

pub(crate) fn read_tag(world: &World, name: &str) -> Result<Reply, Reply> {
    Ok(Reply::json(&world.tags[tag_position(world, name)?].json()))
}

pub(crate) fn update_tag(
    world: &mut World,
    user: &User,
    name: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    if !user.admin {
        return Err(Reply::forbidden());
    }
    let found = tag_position(world, name)?;
    let fields = request.fields();
    let mut tag = world.tags[found].clone();
    for (key, place) in [
        ("name", &mut tag.name),
        ("comment", &mut tag.comment),
        ("definition", &mut tag.definition),
        ("kernel_opts", &mut tag.kernel_opts),
    ] {
        if let Some(value) = form_value(&fields, key) {
            *place = value;
        }
    }
    check_tag(world, &tag, Some(name))?;
    for machine in &mut world.machines {
        for held in machine.tags.iter_mut().filter(|t| *t == name) {
            held.clone_from(&tag.name);
        }
    }
    world.tags[found] = tag.clone();
    Ok(Reply::json(&tag.json()))
}

pub(crate) fn delete_tag(world: &mut World, user: &User, name: &str) -> Result<Reply, Reply> {
    if !user.admin {
        return Err(Reply::forbidden());
    }
    let found = tag_position(world, name)?;
    world.tags.remove(found);
    for machine in &mut world.machines {
        machine.tags.retain(|t| t != name);
    }
    Ok(Reply::deleted())
}

/// `op=update_nodes`: counts what was asked for and exists, not what changed. Unknown ids are ignored.
pub(crate) fn update_nodes(
    world: &mut World,
    user: &User,
    name: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    tag_position(world, name)?;
    if !user.admin {
        return Err(Reply::forbidden());
    }
    let (mut added, mut removed) = (0, 0);
    let (add, remove) = (form_values(request.post(), "add"), form_values(request.post(), "remove"));
    for machine in &mut world.machines {
        if add.contains(&machine.system_id) {
            added += 1;
            if !machine.tags.iter().any(|t| t == name) {
                machine.tags.push(name.into());
            }
        }
        if remove.contains(&machine.system_id) {
            removed += 1;
            machine.tags.retain(|t| t != name);
        }
    }
    Ok(Reply::json(&json!({"added": added, "removed": removed})))
}

/// `op=machines` and `op=nodes`.
pub(crate) fn tag_machines(world: &World, user: &User, name: &str) -> Result<Reply, Reply> {
    tag_position(world, name)?;
    let tagged =
        world.machines.iter().filter(|m| m.viewable(user) && m.tags.iter().any(|t| t == name));
    Ok(Reply::json(&Value::Array(tagged.map(|m| world.machine_json(m)).collect())))
}
