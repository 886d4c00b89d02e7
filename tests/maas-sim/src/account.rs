//! Version, users, keys and configuration.

use crate::machines::series::default_series;
use crate::params::form_value;
use crate::reply::Reply;
use crate::request::Request;
use crate::users::{Token, User};
use crate::world::World;
use serde_json::{Value, json};

/// Anonymous, and credentials are not even looked at.
pub(crate) fn version(world: &World) -> Reply {
    Reply::json(&json!({
        "capabilities": [
            "networks-management", "static-ipaddresses", "ipv6-deployment-ubuntu", "devices-management",
            "storage-deployment-ubuntu", "network-deployment-ubuntu", "bridging-interface-ubuntu",
            "bridging-automatic-ubuntu", "authenticate-api",
        ],
        "version": world.version,
        "subversion": "",
    }))
}

pub(crate) fn users(world: &World) -> Reply {
    // MAAS has a user of its own.
    let system = json!({
        "username": "MAAS", "email": "maas@localhost", "is_superuser": true, "is_local": true,
        "resource_uri": "/MAAS/api/2.0/users/MAAS/",
    });
    let mut list = vec![system];
    let mut sorted: Vec<&User> = world.users.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    list.extend(sorted.into_iter().map(User::json));
    Reply::json(&Value::Array(list))
}

pub(crate) fn user(world: &World, name: &str) -> Result<Reply, Reply> {
    world.user(name).map(|u| Reply::json(&u.json())).ok_or_else(|| Reply::not_found("User"))
}

pub(crate) fn tokens(user: &User) -> Reply {
    let list = user.tokens.iter().map(|t| json!({"name": t.name, "token": t.text()}));
    Reply::json(&Value::Array(list.collect()))
}

pub(crate) fn create_token(world: &mut World, user: &User, request: &Request) -> Reply {
    let name = form_value(request.post(), "name").unwrap_or_else(|| "MAAS consumer".into());
    let token = world.add_token(&user.name, &name);
    Reply::json(&json!({
        "token_key": token.key, "token_secret": token.secret, "consumer_key": token.consumer, "name": token.name,
    }))
}

/// The token's consumer goes with it, so its next use is "Invalid API key".
pub(crate) fn delete_token(
    world: &mut World,
    user: &User,
    request: &Request,
) -> Result<Reply, Reply> {
    let key = form_value(request.post(), "token_key")
        .ok_or_else(|| Reply::text(400, "No provided token_key!"))?;
    let Some(user) = world.users.iter_mut().find(|u| u.name == user.name) else {
        return Ok(Reply::deleted());
    };
    user.tokens.retain(|t| t.key != key);
    Ok(Reply::deleted())
}

impl World {
    pub(crate) fn add_token(&mut self, user: &str, name: &str) -> Token {
        let number = self.next_id("token");
        let token = Token::generate(&format!("{user} {number}"), name);
        if let Some(user) = self.users.iter_mut().find(|u| u.name == user) {
            user.tokens.push(token.clone());
        }
        token
    }
}

/// The settings of MAAS 3.7, in the order in which its error message lists them.
const SETTINGS: &str = "maas_name, theme, kernel_opts, enable_http_proxy, maas_proxy_port, use_peer_proxy, \
    prefer_v4_proxy, http_proxy, default_dns_ttl, upstream_dns, dnssec_validation, maas_internal_domain, dns_trusted_acl, \
    ntp_servers, ntp_external_only, allow_only_trusted_transfers, remote_syslog, maas_syslog_port, network_discovery, \
    active_discovery_interval, default_boot_interface_link_type, default_osystem, default_distro_series, \
    default_min_hwe_kernel, enable_kernel_crash_dump, default_storage_layout, commissioning_distro_series, \
    enable_third_party_drivers, windows_kms_host, enable_disk_erasing_on_release, disk_erase_with_secure_erase, \
    disk_erase_with_quick_erase, boot_images_auto_import, boot_images_no_proxy, curtin_verbose, force_v1_network_yaml, \
    enable_analytics, completed_intro, max_node_commissioning_results, max_node_testing_results, \
    max_node_installation_results, max_node_release_results, subnet_ip_exhaustion_threshold_count, \
    release_notifications, use_rack_proxy, node_timeout, prometheus_enabled, prometheus_push_gateway, \
    prometheus_push_interval, promtail_enabled, promtail_port, enlist_commissioning, maas_auto_ipmi_user, \
    maas_auto_ipmi_user_privilege_level, maas_auto_ipmi_k_g_bmc_key, maas_auto_ipmi_cipher_suite_id, \
    maas_auto_ipmi_workaround_flags, vcenter_server, vcenter_username, vcenter_password, vcenter_datacenter, \
    hardware_sync_interval, tls_cert_expiration_notification_enabled, tls_cert_expiration_notification_interval, \
    session_length, auto_vlan_creation";

/// `GET /maas/?op=get_config`: the bare value. Settings that do not matter here are null.
pub(crate) fn get_config(world: &World, request: &Request) -> Result<Reply, Reply> {
    let name =
        form_value(&request.query, "name").ok_or_else(|| Reply::text(400, "No provided name!"))?;
    if !SETTINGS.split(", ").any(|s| s == name) {
        let text =
            format!("{name} is not a valid config setting (valid settings are: {SETTINGS}).");
        return Err(Reply::model_error(&name, &text));
    }
    Ok(Reply::bare_json(&match name.as_str() {
        "maas_name" => json!("maas-sim"),
        "default_osystem" => json!("ubuntu"),
        "default_distro_series" | "commissioning_distro_series" => json!(default_series(world)),
        "default_min_hwe_kernel" | "kernel_opts" => json!(""),
        "node_timeout" => json!(30),
        "enable_http_proxy" => json!(true),
        "enable_disk_erasing_on_release" => json!(false),
        "default_storage_layout" => json!("flat"),
        _ => Value::Null,
    }))
}
