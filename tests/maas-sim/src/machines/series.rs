//! Which image `distro_series` means. There is no `osystem` parameter: MAAS ignores it.

use super::Machine;
use crate::params::form_value;
use crate::reply::Reply;
use crate::request::Pairs;
use crate::world::World;

#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) osystem: String,
    pub(crate) release: String,
    pub(crate) kernel: String,
    /// Whether the image can run in memory.
    pub(crate) memory: bool,
}

const UBUNTU: [(&str, &str); 5] = [
    ("bionic", "18.04"),
    ("focal", "20.04"),
    ("jammy", "22.04"),
    ("noble", "24.04"),
    ("resolute", "26.04"),
];

/// Ubuntu's number of a release name.
pub(crate) fn ubuntu_version(release: &str) -> &str {
    UBUNTU.iter().find(|(name, _)| *name == release).map_or("24.04", |(_, version)| *version)
}

/// The image that a machine is deployed with when none is named: the newest Ubuntu.
pub(crate) fn default_series(world: &World) -> String {
    let ubuntu = world.images.iter().filter_map(|(_, i)| i.name.strip_prefix("ubuntu/"));
    ubuntu.max_by_key(|release| ubuntu_version(release)).unwrap_or("noble").to_owned()
}

pub(crate) fn choose(world: &World, machine: &Machine, form: &Pairs) -> Result<Choice, Reply> {
    let asked = form_value(form, "distro_series").unwrap_or_default();
    if asked.matches('/').count() > 1 {
        return Err(Reply::text(500, "too many values to unpack (expected 2)"));
    }
    let name = resolve(world, &asked).ok_or_else(|| invalid(world, &asked))?;
    let (osystem, release) = name.split_once('/').unwrap_or(("ubuntu", &name));
    let architecture = machine.architecture.split('/').next().unwrap_or("");
    let image = world.images.iter().map(|(_, i)| i).find(|i| i.name == name);
    let image = image.ok_or_else(|| invalid(world, &asked))?;
    if !image.architectures.iter().any(|a| a == architecture) {
        return Err(if osystem == "ubuntu" {
            Reply::form("hwe_kernel", &format!("{release} has no kernels available."))
        } else {
            let text = format!(
                "Deployment operating system {name} is unavailable for {}.",
                machine.architecture
            );
            Reply::text(400, &text)
        });
    }
    // Other systems are installed from an Ubuntu in memory, whose kernel is shown.
    let version = if osystem == "ubuntu" {
        ubuntu_version(release).to_owned()
    } else {
        ubuntu_version(&default_series(world)).to_owned()
    };
    let kernel = kernel(machine, form, &name, &version)?;
    let memory = ["squashfs", "root-tgz", "root-txz"].contains(&image.filetype.as_str());
    Ok(Choice { osystem: osystem.into(), release: release.into(), kernel, memory })
}

fn resolve(world: &World, asked: &str) -> Option<String> {
    let names = || world.images.iter().map(|(_, i)| i.name.as_str());
    let by_alias =
        |text: &str| UBUNTU.iter().find(|(_, v)| *v == text).map(|(n, _)| format!("ubuntu/{n}"));
    match asked.split_once('/') {
        None if asked.is_empty() || asked == "ubuntu" => {
            Some(format!("ubuntu/{}", default_series(world)))
        }
        None => {
            let by_release = names()
                .find(|n| n.split_once('/').is_some_and(|(_, r)| r == asked))
                .map(str::to_owned);
            by_release.or_else(|| by_alias(asked))
        }
        Some(("ubuntu", release)) => by_alias(release).or_else(|| Some(asked.to_owned())),
        Some(_) => Some(asked.to_owned()),
    }
    .filter(|name| names().any(|n| n == name))
}

fn invalid(world: &World, asked: &str) -> Reply {
    let mut names: Vec<String> =
        world.images.iter().map(|(_, i)| format!("'{}'", i.name)).collect();
    names.push("''".into());
    names.sort();
    let list = names.join(", ");
    Reply::form(
        "distro_series",
        &format!("'{asked}' is not a valid distro_series.  It should be one of: {list}."),
    )
}

/// Only `ga-…` and `hwe-…` are looked at; anything else is ignored and the release's own kernel taken.
fn kernel(machine: &Machine, form: &Pairs, name: &str, version: &str) -> Result<String, Reply> {
    let asked = form_value(form, "hwe_kernel").unwrap_or_default();
    let Some((_, of)) = asked.split_once('-').filter(|(kind, _)| ["ga", "hwe"].contains(kind))
    else {
        return Ok(format!("ga-{version}"));
    };
    if of.split('-').next() == Some(version) {
        return Ok(asked);
    }
    let text = format!("{asked} is not available for {name} on {}.", machine.architecture);
    Err(Reply::form("hwe_kernel", &text))
}
