//! `op=deploy`.

use super::timeline::Step;
use super::{Machine, Need, series};
use crate::params::{form_value, stringbool};
use crate::reply::Reply;
use crate::request::{Pairs, Request};
use crate::status::Status;
use crate::users::User;
use crate::world::World;

/// What the installer says on its way, by the share of the deployment's time.
const MESSAGES: [(f64, &str); 5] = [
    (0.08, "Performing PXE boot"),
    (0.15, "Loading ephemeral"),
    (0.30, "Installing OS"),
    (0.70, "Configuring OS"),
    (0.85, "Rebooting"),
];

pub(crate) fn deploy(
    world: &mut World,
    user: &User,
    system_id: &str,
    request: &Request,
) -> Result<Reply, Reply> {
    let form = request.post();
    let machine = world.permitted(system_id, user, Need::Edit)?;
    let ephemeral = stringbool(form, "ephemeral_deploy")?.unwrap_or(false);
    let hw_sync = stringbool(form, "enable_hw_sync")?.unwrap_or(false);
    check_options(user, form)?;
    if machine.status != Status::Ready && machine.status != Status::Allocated {
        let text =
            format!("Can't deploy a machine that is in the '{}' state", machine.status.label());
        return Err(Reply::text(409, &text));
    }
    let choice = series::choose(world, machine, form)?;
    if ephemeral && !choice.memory {
        // MAAS looks the architecture up among those that can run in memory, and the KeyError is all one sees.
        return Err(Reply::text(500, &format!("'{}'", machine.architecture)));
    }
    if machine.faults.no_network || machine.interfaces.is_empty() {
        return Err(Reply::model_error("network", "Node must be configured to use a network"));
    }
    if machine.faults.no_rack {
        return Err(no_rack(machine));
    }
    if machine.status == Status::Ready {
        world.acquire(system_id, user, &form_value(form, "agent_name").unwrap_or_default(), form);
    }
    world.add_user_event(system_id, user, "User starting deployment", form);
    world.change(system_id, |m| {
        m.osystem = choice.osystem;
        m.distro_series = choice.release;
        m.hwe_kernel = Some(choice.kernel);
        m.min_hwe_kernel = Some(String::new());
        m.ephemeral_deploy = ephemeral;
        m.enable_hw_sync = hw_sync;
        m.user_data = form_value(form, "user_data").filter(|u| !u.is_empty());
    });
    start(world, system_id)
}

/// From Allocated to Deploying, also by `op=power_on`. The reply is made before the addresses are claimed.
pub(crate) fn start(world: &mut World, system_id: &str) -> Result<Reply, Reply> {
    world.set_status(system_id, Status::Deploying);
    world.add_event(system_id, crate::events::Level::Info, "Deploying", "", "");
    let result = world.next_id("result");
    world.change(system_id, |m| {
        m.netboot = true;
        m.installation_result = Some(result);
    });
    let reply = world.machine_reply(system_id);
    if let Err(text) = world.claim_auto(system_id) {
        // After the commit: the deployment is taken back, and its traces stay.
        world.free_auto(system_id);
        world.set_status(system_id, Status::Allocated);
        world.add_event(
            system_id,
            crate::events::Level::Error,
            "Unable to power control the node",
            &text,
            "",
        );
        return Err(Reply::text(503, &text));
    }
    world.change(system_id, |m| m.deploys += 1);
    plan(world, system_id);
    Ok(reply)
}

fn plan(world: &mut World, system_id: &str) {
    let Some(machine) = world.machine_mut(system_id) else {
        return;
    };
    machine.steps.clear();
    if let Some(text) = machine.faults.bmc_error.clone() {
        world.plan(system_id, vec![(0.0, Step::DeployFailed(text))]);
        return;
    }
    let managed = machine.power_managed();
    let error = fails(machine);
    let hangs = error.is_none() && hang(machine);
    let timings = &world.timings;
    let total = timings.deploy;
    let mut steps = vec![];
    if managed {
        steps.push((timings.power_on.min(total), Step::Power("on")));
    }
    let until = if error.is_some() || hangs { 0.6 } else { 1.0 };
    steps.extend(
        MESSAGES
            .iter()
            .filter(|(share, _)| *share < until)
            .map(|(s, text)| (s * total, Step::Message(text))),
    );
    if let Some(error) = error {
        steps.push((0.6 * total, Step::DeployFailed(error)));
    } else if hangs || total > timings.deploy_timeout {
        steps.push((
            timings.deploy_timeout,
            Step::DeployFailed("time-out during deployment".into()),
        ));
    } else {
        steps.push((0.85 * total, Step::Installed));
        steps.push((total, Step::Deployed));
    }
    world.plan(system_id, steps);
}

fn fails(machine: &mut Machine) -> Option<String> {
    if machine.faults.first_deploys_fail == 0 {
        return None;
    }
    machine.faults.first_deploys_fail -= 1;
    let usual = "Installation failed (refer to the installation log for more information).";
    Some(machine.faults.deploy_error.clone().unwrap_or_else(|| usual.into()))
}

fn hang(machine: &mut Machine) -> bool {
    let hangs = machine.faults.first_deploys_hang > 0;
    machine.faults.first_deploys_hang = machine.faults.first_deploys_hang.saturating_sub(1);
    hangs
}

pub(crate) fn no_rack(machine: &Machine) -> Reply {
    Reply::text(500, &format!("Error determining BMC task queue for machine {}", machine.system_id))
}

fn check_options(user: &User, form: &Pairs) -> Result<(), Reply> {
    let kvm = stringbool(form, "install_kvm")?.unwrap_or(false)
        || stringbool(form, "register_vmhost")?.unwrap_or(false);
    if kvm && !user.admin {
        return Err(Reply::text(403, "Only administratros can deploy VM hosts"));
    }
    if kvm {
        return Err(Reply::text(501, "The simulator knows no VM hosts."));
    }
    if stringbool(form, "install_rackd")?.unwrap_or(false) {
        return Err(Reply::text(
            400,
            "Deploying a machine as a rackd has been disabled and it's not supported anymore.",
        ));
    }
    check_bridge_type(form)
}

/// MAAS 3.7 leaves the place-holder in the text.
pub(crate) fn check_bridge_type(form: &Pairs) -> Result<(), Reply> {
    match form_value(form, "bridge_type").as_deref() {
        None | Some("" | "standard" | "ovs") => Ok(()),
        Some(_) => Err(Reply::form(
            "bridge_type",
            "'%(value)s' is not a valid bridge_type.  It should be one of: 'standard', 'ovs'.",
        )),
    }
}
