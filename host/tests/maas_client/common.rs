//! A simulated region and a client of it.

use std::time::Duration;

use capmaas::maas::{ApiKey, Client, Endpoint, Options};
use capmaas_core::maas::Machine;
use capmaas_core::ownership::{Claim, OwnedMachine, Ownership, by_allocation, judge};
use capmaas_core::policy::AllocateConstraints;
use capmaas_core::{CallError, Effect, Read, Reply};
use maas_sim::{Call, CallFault, FaultAction, Inventory, Simulator};

pub(crate) const MARK: &str = "mark-1";

/// A region with the client of its administrator.
pub(crate) struct Region {
    pub(crate) maas: Simulator,
    pub(crate) client: Client,
}

impl Region {
    pub(crate) async fn start() -> Self {
        Self::with(Inventory::default()).await
    }

    pub(crate) async fn with(inventory: Inventory) -> Self {
        let maas = Simulator::start(inventory, maas_sim::Options::default()).await.unwrap();
        let client = client(&maas.url(), &maas.api_key());
        Self { maas, client }
    }

    pub(crate) async fn read(&self, read: Read) -> Reply {
        self.client.read(&read).await
    }

    /// Asks until MAAS is no longer held for down.
    pub(crate) async fn read_patiently(&self, read: Read) -> Reply {
        loop {
            match self.read(read.clone()).await {
                Reply::Failed(error) if error.retry_after.is_some() => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                other => return other,
            }
        }
    }

    pub(crate) async fn perform(&self, effect: Effect) -> Reply {
        self.client.perform(&effect, None).await
    }

    pub(crate) fn id(&self, hostname: &str) -> String {
        self.maas.machine_named(hostname).unwrap().system_id
    }

    /// What MAAS shows of a machine now.
    pub(crate) async fn machine(&self, hostname: &str) -> Machine {
        machine(self.read(Read::Machine(self.id(hostname))).await)
    }

    /// Takes this very machine.
    pub(crate) async fn allocated(&self, hostname: &str) -> OwnedMachine {
        let constraints = AllocateConstraints {
            system_id: Some(self.id(hostname)),
            ..AllocateConstraints::default()
        };
        let got = machine(self.perform(allocate(constraints)).await);
        by_allocation(&got, &claim()).expect("a machine that was just allocated is ours")
    }

    /// Takes and deploys this very machine.
    pub(crate) async fn deployed(&self, hostname: &str) -> OwnedMachine {
        let machine = self.allocated(hostname).await;
        let reply = self.client.perform(&deploy(&machine, false), Some("I2Nsb3Vk")).await;
        assert!(matches!(reply, Reply::Machine(_)), "{reply:?}");
        self.maas.advance(Duration::from_secs(400));
        machine
    }

    /// The newest call that reached MAAS.
    pub(crate) fn last_call(&self) -> Call {
        self.maas.calls().pop().expect("MAAS was called")
    }

    /// The next answers to calls of this operation are this one, and nothing is done.
    pub(crate) fn answers(&self, fault: impl FnOnce(FaultAction) -> CallFault, answer: Answer) {
        let action = FaultAction::Answer {
            status: answer.0,
            content_type: answer.1.into(),
            body: answer.2.into(),
            retry_after: None,
        };
        self.maas.add_fault(fault(action));
    }
}

/// Status, content type, body.
pub(crate) type Answer<'a> = (u16, &'a str, &'a str);

pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

pub(crate) fn options(url: &str, key: &str) -> Options {
    Options {
        endpoint: Endpoint::parse(url).unwrap(),
        key: ApiKey::parse(key).unwrap(),
        key_files: vec![],
        ca_file: None,
        insecure: false,
    }
}

pub(crate) fn client(url: &str, key: &str) -> Client {
    crypto();
    Client::new(options(url, key)).unwrap()
}

/// As the program does at its start; only the first time counts.
pub(crate) fn crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub(crate) fn claim() -> Claim {
    Claim {
        user: "admin".into(),
        mark: Some(MARK.into()),
        inherited: None,
        cluster: "blue".into(),
        namespace: "default".into(),
        machine: "blue-1".into(),
    }
}

pub(crate) fn allocate(constraints: AllocateConstraints) -> Effect {
    Effect::Allocate {
        constraints: Box::new(constraints),
        mark: MARK.into(),
        comment: "for default/blue-1".into(),
    }
}

pub(crate) fn deploy(machine: &OwnedMachine, in_memory: bool) -> Effect {
    Effect::Deploy {
        machine: machine.clone(),
        distro_series: "custom/u-2404-k8s".into(),
        in_memory,
        mark: Some(MARK.into()),
        user_data_digest: String::new(),
    }
}

pub(crate) fn release(machine: &OwnedMachine) -> Effect {
    Effect::Release { machine: machine.clone(), comment: "not needed any more".into() }
}

/// Proof for a reading that carries our annotations, whatever id it shows.
pub(crate) fn owned(reading: &Machine) -> OwnedMachine {
    let mut reading = reading.clone();
    reading.owner = Some("admin".into());
    reading.annotations = claim().annotations();
    match judge(&reading, &claim()) {
        Ownership::Ours(machine) => machine,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn machine(reply: Reply) -> Machine {
    match reply {
        Reply::Machine(machine) => *machine,
        other => panic!("no machine, but {other:?}"),
    }
}

pub(crate) fn machines(reply: Reply) -> Vec<Machine> {
    match reply {
        Reply::Machines(machines) => machines,
        other => panic!("no machines, but {other:?}"),
    }
}

pub(crate) fn failed(reply: Reply) -> CallError {
    match reply {
        Reply::Failed(error) => error,
        other => panic!("no failure, but {other:?}"),
    }
}

/// Pairs in an order that does not depend on how they were sent.
pub(crate) fn sorted(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut owned: Vec<(String, String)> =
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    owned.sort();
    owned
}

/// Asserts method, path, operation and every parameter of a call.
pub(crate) fn assert_call(call: &Call, method: &str, path: &str, parameters: &[(&str, &str)]) {
    let mut sent = call.params.clone();
    sent.sort();
    assert_eq!((call.method.as_str(), call.path.as_str()), (method, path));
    assert_eq!(sent, sorted(parameters), "parameters of {method} {path}");
}
