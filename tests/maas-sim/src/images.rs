//! Boot resources: reading only.

use crate::inventory::Image;
use crate::machines::series::ubuntu_version;
use crate::params::form_value;
use crate::reply::Reply;
use crate::request::Request;
use crate::world::World;
use serde_json::{Map, Value, json};

/// One resource for each architecture of an image; an uploaded `custom/x` is listed as `x`.
fn resources(world: &World) -> Vec<(u64, &Image, Value)> {
    let mut out = vec![];
    for (number, image) in &world.images {
        for (i, architecture) in (0..).zip(&image.architectures) {
            let id = number * 10 + i;
            let uploaded = image.name.starts_with("custom/");
            let release = image.name.split('/').nth(1).unwrap_or("");
            let kernel = format!("ga-{}", ubuntu_version(release));
            let mut value = json!({
                "id": id,
                "type": if uploaded { "Uploaded" } else { "Synced" },
                "name": if uploaded { release } else { &image.name },
                "architecture": if uploaded { format!("{architecture}/generic") } else { format!("{architecture}/{kernel}") },
                "last_deployed": null,
                "resource_uri": format!("/MAAS/api/2.0/boot-resources/{id}/"),
            });
            if uploaded {
                value["title"] = json!(release);
                value["base_image"] = json!("ubuntu/noble");
                value["subarches"] = json!("generic");
            } else {
                value["kflavor"] = json!("generic");
                value["platform"] = json!("generic");
                value["subarches"] = json!(format!("generic,{kernel}"));
                value["supported_platforms"] = json!("generic");
            }
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
            return Err(Reply::text(
                400,
                &format!("'{other}' is not a valid boot resource type"),
            ));
        }
    };
    let wanted = resources(world)
        .into_iter()
        .filter(|(_, _, v)| kind.is_none_or(|k| v["type"] == k));
    Ok(Reply::json(&Value::Array(
        wanted.map(|(_, _, v)| v).collect(),
    )))
}

pub(crate) fn read(world: &World, id: &str) -> Result<Reply, Reply> {
    let found = resources(world)
        .into_iter()
        .find(|(n, _, _)| n.to_string() == id);
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
