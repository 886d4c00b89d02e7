//! The MAAS simulator as a fleet.

use maas_sim::{MachineView, Simulator};

use super::fleet::{Fleet, Host};

impl Fleet for Simulator {
    fn hosts(&self) -> Vec<Host> {
        self.machines().into_iter().map(Host::from).collect()
    }

    fn addresses(&self, fqdn: &str) -> Vec<String> {
        let records = self.dns_records().into_iter();
        records
            .filter(|record| record.fqdn.eq_ignore_ascii_case(fqdn.trim_end_matches('.')))
            .flat_map(|record| record.addresses.into_iter().flatten())
            .collect()
    }
}

impl From<MachineView> for Host {
    fn from(machine: MachineView) -> Self {
        Self {
            system_id: machine.system_id,
            hostname: machine.hostname,
            status: machine.status_name,
            power: machine.power_state,
            ip_addresses: machine.ip_addresses,
            user_data: machine.user_data,
            deploys: machine.deploys,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use maas_sim::{Inventory, Options, Simulator};

    use super::Fleet;

    #[tokio::test]
    async fn the_simulators_machines_are_hosts() {
        let started = Simulator::start(Inventory::default(), Options::default()).await;
        let simulator = Arc::new(started.expect("a simulator"));
        let hosts = Fleet::hosts(&simulator);
        assert_eq!(hosts.len(), simulator.machines().len());
        assert!(hosts.iter().all(|host| !host.system_id.is_empty() && host.deploys == 0));
        assert!(simulator.addresses("nobody.maas").is_empty());
    }
}
