//! DNS records and reserved addresses.

use capmaas_core::maas::{DnsAddress, DnsResource, ReservedAddress};
use capmaas_core::ownership::OwnedMachine;
use capmaas_core::{Effect, Read, Reply};

use super::common::{Region, assert_call, failed, release};

const NAME: &str = "blue-a1b2c3.maas";

fn create() -> Effect {
    Effect::CreateDns { fqdn: NAME.into(), ttl: 10 }
}

fn set(id: u64, addresses: &[&str]) -> Effect {
    let addresses = addresses.iter().map(|a| (*a).to_owned()).collect();
    Effect::SetDnsAddresses { id, addresses, ttl: 30 }
}

fn one(reply: Reply) -> DnsResource {
    match reply {
        Reply::Dns(mut records) if records.len() == 1 => records.remove(0),
        other => panic!("not one record, but {other:?}"),
    }
}

/// The address that MAAS gave the machine with its deployment.
fn address_of(region: &Region, machine: &OwnedMachine) -> String {
    region.maas.machine(machine.system_id()).unwrap().ip_addresses.remove(0)
}

#[tokio::test]
async fn a_record_begins_empty_and_is_found_by_name_and_id() {
    let region = Region::start().await;
    assert_eq!(region.read(Read::DnsByName(NAME.into())).await, Reply::Dns(vec![]));
    let record = one(region.perform(create()).await);
    let sent = [("fqdn", NAME), ("address_ttl", "10"), ("ip_addresses", "")];
    assert_call(&region.last_call(), "POST", "/dnsresources/", &sent);
    assert_eq!((record.fqdn.as_str(), record.ttl), (NAME, Some(10)));
    assert_eq!(record.addresses, []);
    assert_eq!(one(region.read(Read::DnsByName(NAME.into())).await), record);
    assert_eq!(one(region.read(Read::DnsResource(record.id)).await), record);
    assert_eq!(region.read(Read::DnsResource(record.id + 1)).await, Reply::Dns(vec![]));
    let twice = failed(region.perform(create()).await);
    assert!(twice.message.contains("Labels must be unique"), "{twice:?}");
}

#[tokio::test]
async fn addresses_go_as_one_value_parted_by_spaces() {
    let region = Region::start().await;
    let ip = address_of(&region, &region.deployed("az1-small-1").await);
    let id = one(region.perform(create()).await).id;
    let record = one(region.perform(set(id, &[ip.as_str(), "192.0.2.7"])).await);
    let both = format!("{ip} 192.0.2.7");
    let sent = [("ip_addresses", both.as_str()), ("address_ttl", "30")];
    assert_call(&region.last_call(), "PUT", &format!("/dnsresources/{id}/"), &sent);
    assert_eq!(record.ttl, Some(30));
    assert_eq!(record.ips(), [ip.as_str(), "192.0.2.7"]);
    let address = |ip: &str, reserved| DnsAddress { ip: ip.into(), reserved };
    assert!(record.addresses.contains(&address(&ip, false)), "a machine's own");
    assert!(record.addresses.contains(&address("192.0.2.7", true)), "one MAAS did not know");
    let emptied = one(region.perform(set(id, &[])).await);
    assert_eq!(emptied.addresses, []);
}

#[tokio::test]
async fn the_row_of_a_released_machine_is_no_address() {
    let region = Region::start().await;
    let owned = region.deployed("az1-small-1").await;
    let ip = address_of(&region, &owned);
    let id = one(region.perform(create()).await).id;
    region.perform(set(id, &[&ip])).await;
    region.perform(release(&owned)).await;
    region.maas.advance(std::time::Duration::from_secs(60));
    assert_eq!(region.maas.dns_records()[0].addresses, [None], "MAAS keeps a row without address");
    assert_eq!(one(region.read(Read::DnsResource(id)).await).addresses, []);
}

#[tokio::test]
async fn deleting_a_record_that_is_gone_is_done_too() {
    let region = Region::start().await;
    let id = one(region.perform(create()).await).id;
    assert_eq!(region.perform(Effect::DeleteDns { id }).await, Reply::Completed);
    assert_call(&region.last_call(), "DELETE", &format!("/dnsresources/{id}/"), &[]);
    assert!(region.maas.dns_records().is_empty());
    assert_eq!(region.perform(Effect::DeleteDns { id }).await, Reply::Completed);
}

#[tokio::test]
async fn an_address_left_reserved_is_found_and_given_back() {
    let region = Region::start().await;
    let id = one(region.perform(create()).await).id;
    region.perform(set(id, &["192.0.2.7"])).await;
    region.perform(set(id, &[])).await;
    assert_eq!(region.maas.reserved_addresses(), ["192.0.2.7"]);
    let ip = || "192.0.2.7".to_owned();
    let reserved = Reply::Reserved(ReservedAddress { ip: ip() });
    assert_eq!(region.read(Read::Reservation(ip())).await, reserved);
    assert_eq!(region.read(Read::Reservation("192.0.2.8".into())).await, Reply::Absent);
    let freed = region.perform(Effect::ReleaseAddress { ip: ip() }).await;
    assert_eq!(freed, Reply::Completed);
    assert_call(&region.last_call(), "POST", "/ipaddresses/?op=release", &[("ip", "192.0.2.7")]);
    assert!(region.maas.reserved_addresses().is_empty());
    assert_eq!(region.read(Read::Reservation(ip())).await, Reply::Absent);
}
