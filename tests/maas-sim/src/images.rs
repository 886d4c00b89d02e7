//! Boot resources: reading only.

use crate::inventory::Image;
use crate::machines::series::ubuntu_version;
use crate::params::form_value;
use crate::reply::Reply;
use crate::request::Request;
use crate::world::World;
use serde_json::{Map, Value, json};

/// One resource for each architecture and kernel of an image; an uploaded `custom/x` is listed as `x`.
fn resources(world: &World) -> Vec<(u64, &Image, Value)> {
    let mut out = vec![];
    for (number, image) in &world.images {
        let release = image.name.split('/').nth(1).unwrap_or("");
        let uploaded = image.name.starts_with("custom/");
        let kernels = if uploaded { vec!["generic"] } else { vec!["ga", "hwe"] };
        let variants =
            image.architectures.iter().flat_map(|a| kernels.iter().map(move |k| (a, *k)));
        for (i, (architecture, kernel)) in (0..).zip(variants) {
            let id = number * 10 + i;
            let mut value = match uploaded {
                true => json!({
                    "type": "Uploaded", "name": release, "title": release, "base_image": "ubuntu/noble",
                    "architecture": format!("{architecture}/generic"), "subarches": "generic",
                }),
                false => {
                    let kernel = format!("{kernel}-{}", ubuntu_version(release));
                    json!({
                        "type": "Synced", "name": image.name, "architecture": format!("{architecture}/{kernel}"),
                        "kflavor": "generic", "platform": "generic", "supported_platforms": "generic",
                        "subarches": format!("generic,{kernel}"),
                    })
                }
            };
            value["id"] = json!(id);
            value["last_deployed"] = Value::Null;
            value["resource_uri"] = json!(format!("/MAAS/api/2.0/boot-resources/{id}/"));
            out.push((id, image, value));
        }
    }
    out
}

pub(crate) fn list(world: &World, request: &Request) -> Result<Reply, Reply> {
    let kind = match form_value(&request.query, "type").as_deref() {
        None | Some("" | "all") => None,
        Some("synced") => Some("Synced"),
        Some("uploaded") => Some("Uploaded"),
        Some(other) => {
            return Err(Reply::text(400, &format!("'{other}' is not a valid boot resource type")));
        }
    };
    let wanted =
        resources(world).into_iter().filter(|(_, _, v)| kind.is_none_or(|k| v["type"] == k));
    Ok(Reply::json(&Value::Array(wanted.map(|(_, _, v)| v).collect())))
}

pub(crate) fn read(world: &World, id: &str) -> Result<Reply, Reply> {
    let found = resources(world).into_iter().find(|(n, _, _)| n.to_string() == id);
    let (_, image, mut value) = found.ok_or_else(|| Reply::not_found("BootResource"))?;
    let kinds: Vec<&str> = match image.name.starts_with("custom/") {
        true => vec![&image.filetype],
        false => vec!["boot-kernel", "boot-initrd", "squashfs"],
    };
    let mut files = Map::new();
    for kind in &kinds {
        let sha = crate::users::letters(&format!("{} {kind}", image.name), 64, b"0123456789abcdef");
        let file = json!({
            "filename": kind, "filetype": kind, "sha256": sha, "filename_on_disk": &sha[..7], "size": 512,
            "complete": true,
        });
        files.insert((*kind).into(), file);
    }
    let set = json!({
        "version": "20260801", "label": "stable", "size": 512 * kinds.len(), "complete": true, "files": files,
    });
    value["sets"] = json!({ "20260801": set });
    Ok(Reply::json(&value))
}
