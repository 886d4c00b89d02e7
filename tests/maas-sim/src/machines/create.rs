//! `POST /machines/` without an operation: a machine is added, in status New.

use crate::inventory::{HardwareSpec, MachineFaults, MachineSpec};
use crate::params::{form_value, form_values};
use crate::reply::Reply;
use crate::request::Request;
use crate::status::Status;
use crate::users::User;
use crate::world::World;

pub(crate) fn create(world: &mut World, _user: &User, request: &Request) -> Result<Reply, Reply> {
    let form = request.post();
    let mut faults: Vec<(String, Vec<String>)> = vec![];
    let Some(architecture) = form_value(form, "architecture").filter(|a| !a.is_empty()) else {
        return Err(Reply::form("architecture", "This field is required."));
    };
    let power_type = form_value(form, "power_type").unwrap_or_default();
    let macs = form_values(form, "mac_addresses");
    for mac in &macs {
        if let Some(other) =
            world.machines.iter().find(|m| m.interfaces.iter().any(|i| &i.mac == mac))
        {
            let text = format!("MAC address {mac} already in use on {}.", other.hostname);
            faults.push(("mac_addresses".into(), vec![text]));
            if power_type == "manual" {
                let text = "Can't set power type to manual without network interfaces".into();
                faults.push(("power_type".into(), vec![text]));
            }
        }
    }
    let hostname = form_value(form, "hostname").filter(|h| !h.is_empty());
    if let Some(name) = &hostname
        && world.machines.iter().any(|m| &m.hostname == name)
    {
        faults.push(("hostname".into(), vec!["Node with this Hostname already exists.".into()]));
    }
    if !faults.is_empty() {
        return Err(Reply::forms(&faults));
    }
    let hostname = hostname.unwrap_or_else(|| pet_name(world));
    let system_id = world.add_machine(MachineSpec {
        system_id: None,
        hostname,
        cores: 0,
        memory: 0,
        disk: 0,
        architecture: if architecture.contains('/') {
            architecture
        } else {
            format!("{architecture}/generic")
        },
        zone: "default".into(),
        pool: "default".into(),
        tags: vec![],
        power_type,
        power: Some("unknown".into()),
        status: Status::New.label().into(),
        owner: None,
        more_subnets: vec![],
        mac: macs.first().cloned(),
        hardware: HardwareSpec::default(),
        faults: MachineFaults::default(),
    });
    world.change(&system_id, |m| m.commissioned = false);
    Ok(world.machine_reply(&system_id))
}

/// MAAS names nameless machines after an adjective and an animal.
fn pet_name(world: &World) -> String {
    const ADJECTIVES: [&str; 8] =
        ["calm", "eager", "fond", "golden", "keen", "merry", "proud", "witty"];
    const ANIMALS: [&str; 8] = ["ape", "bat", "crow", "deer", "heron", "lynx", "otter", "wren"];
    let all = ANIMALS
        .iter()
        .flat_map(|animal| ADJECTIVES.iter().map(move |adjective| format!("{adjective}-{animal}")));
    let free = |name: &String| !world.machines.iter().any(|m| &m.hostname == name);
    all.into_iter().find(free).unwrap_or_else(|| format!("machine-{}", world.machines.len() + 1))
}
