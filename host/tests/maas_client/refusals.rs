//! What MAAS's refusals mean, with MAAS's own words.

use capmaas_core::{Category, Effect, Read};
use maas_sim::{CallFault, FaultAction, Inventory, MachineFaults, OperatorAct};

use super::common::{
    HTML, Region, TEXT, allocate, client, deploy, failed, options, owned, release,
};

#[tokio::test]
async fn a_wrong_secret_is_refused_and_no_secret_is_ever_told() {
    let region = Region::start().await;
    let key = region.maas.api_key();
    let (front, secret) = key.rsplit_once(':').unwrap();
    let wrong = format!("{front}:WrongSecretWrongSecret");
    let stranger = client(&region.maas.url(), &wrong);
    for read in [Read::WhoAmI, Read::Zones, Read::Candidates(Box::default())] {
        let error = failed(stranger.read(&read).await);
        assert_eq!(error.category, Category::Unauthorized, "{read:?}");
        assert_eq!(error.status, Some(401));
        assert!(error.message.contains("API key"), "{error:?}");
        let shown = format!("{error:?}");
        assert!(!shown.contains(secret) && !shown.contains("WrongSecret"), "{shown}");
    }
    let shown = format!("{:?}", options(&region.maas.url(), &key));
    assert!(key.split(':').all(|part| !shown.contains(part)), "{shown}");
}

#[tokio::test]
async fn a_key_that_maas_has_forgotten_is_refused() {
    let region = Region::start().await;
    region.maas.revoke_keys("admin").unwrap();
    let error = failed(region.read(Read::WhoAmI).await);
    assert_eq!((error.category, error.status), (Category::Unauthorized, Some(401)));
    assert!(error.endpoint_wide() && !error.ambiguous());
}

#[tokio::test]
async fn being_taken_for_nobody_is_a_matter_of_the_key() {
    let region = Region::start().await;
    region.read(Read::Version).await;
    let body = "Unrecognised signature: method=GET op=None";
    region.answers(|a| CallFault::on("GET", "/machines/", a), (400, TEXT, body));
    let error = failed(region.read(Read::Candidates(Box::default())).await);
    assert_eq!((error.category, error.status), (Category::Unauthorized, Some(400)));
    region.maas.set_version("3.8.0");
    let version = region.read_patiently(Read::Version).await;
    assert_eq!(version, capmaas_core::Reply::Text("3.8.0".into()), "what was kept is forgotten");
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_told_apart_from_a_wrong_key() {
    let region = Region::start().await;
    let body =
        "Authorization Error: 'Expired timestamp: given 1 and now 2 has a greater difference'";
    region.answers(|a| CallFault::on("GET", "/zones/", a), (401, HTML, body));
    let error = failed(region.read(Read::Zones).await);
    assert_eq!(error.category, Category::Unauthorized);
    assert!(error.message.contains("timestamp"), "{error:?}");
}

#[tokio::test]
async fn a_plain_user_may_not_change_a_machine() {
    let region = Region::start().await;
    let plain = client(&region.maas.url(), &region.maas.user_api_key());
    let id = region.id("az1-small-1");
    region.maas.operator(&id, OperatorAct::Owner(Some("user".into()))).unwrap();
    region.maas.operator(&id, OperatorAct::Status("Allocated".into())).unwrap();
    let machine = owned(&region.machine("az1-small-1").await);
    let error = failed(plain.perform(&Effect::SwapOff { machine }, None).await);
    assert_eq!((error.category, error.status), (Category::Forbidden, Some(403)));
    assert!(!error.message.is_empty() && !error.ambiguous(), "{error:?}");
    let create = Effect::CreateDns { fqdn: "blue.maas".into(), ttl: 10 };
    let error = failed(plain.perform(&create, None).await);
    assert_eq!(error.category, Category::Forbidden);
    assert_eq!(error.message, "This method is reserved for admin users.");
}

#[tokio::test]
async fn a_locked_machine_is_not_released() {
    let region = Region::start().await;
    let machine = region.deployed("az1-small-1").await;
    region.maas.operator(machine.system_id(), OperatorAct::Lock).unwrap();
    let error = failed(region.perform(release(&machine)).await);
    assert_eq!(error.category, Category::Forbidden);
    assert!(error.message.contains("locked"), "{error:?}");
    let view = region.maas.machine(machine.system_id()).unwrap();
    assert_eq!(view.status_name, "Deployed");
}

#[tokio::test]
async fn a_machine_that_is_gone_cannot_be_changed() {
    let region = Region::start().await;
    let machine = region.allocated("az1-small-1").await;
    region.maas.operator(machine.system_id(), OperatorAct::Remove).unwrap();
    let error = failed(region.perform(release(&machine)).await);
    assert_eq!((error.category, error.status), (Category::NotFound, Some(404)));
    assert_eq!(error.message, "No Machine matches the given query.");
}

#[tokio::test]
async fn no_capacity_and_a_wrong_state_are_told_in_maas_s_words() {
    let region = Region::start().await;
    let mut wanted = capmaas_core::policy::AllocateConstraints::default();
    wanted.constraints.min_cpu_cores = 1000;
    let error = failed(region.perform(allocate(wanted)).await);
    assert_eq!((error.category, error.status), (Category::State, Some(409)));
    assert!(error.message.contains("No available machine matches"), "{error:?}");
    assert!(!error.ambiguous() && error.retry_after.is_none());

    let machine = region.deployed("az1-small-1").await;
    let again = deploy(&machine, false);
    let error = failed(region.client.perform(&again, Some("I2Nsb3Vk")).await);
    assert_eq!(error.category, Category::State);
    assert_eq!(error.message, "Can't deploy a machine that is in the 'Deployed' state");
}

#[tokio::test]
async fn a_busy_maas_says_when_to_come_again() {
    let region = Region::start().await;
    let action = FaultAction::Answer {
        status: 409,
        content_type: HTML.into(),
        body: "<html><body>Conflict</body></html>".into(),
        retry_after: Some(5),
    };
    region.maas.add_fault(CallFault::on_op("allocate", action).times(1));
    let error = failed(region.perform(allocate(Default::default())).await);
    assert_eq!((error.category, error.retry_after), (Category::Conflict, Some(5)));
    assert!(!error.message.contains('<'), "{error:?}");
}

#[tokio::test]
async fn parameters_that_maas_does_not_take_are_named() {
    let region = Region::start().await;
    let mut wanted = capmaas_core::policy::AllocateConstraints::default();
    wanted.constraints.tags = vec!["no-such-tag".into()];
    wanted.constraints.zones = vec!["no-such-zone".into()];
    let error = failed(region.perform(allocate(wanted)).await);
    assert_eq!((error.category, error.status), (Category::BadRequest, Some(400)));
    let message = &error.message;
    assert!(message.contains("tags: No such tag(s): 'no-such-tag'."), "{message}");
    assert!(message.contains("zone: No such zone(s): no-such-zone."), "{message}");
}

#[tokio::test]
async fn a_subnet_without_addresses_is_trouble_of_the_server() {
    let text = "
subnets: [{name: tiny, cidr: 10.9.0.0/24, auto: 10.9.0.10-10.9.0.10}]
images: [custom/u-2404-k8s]
machines:
  - {hostname: one, cores: 4, memory: 8192}
  - {hostname: two, cores: 4, memory: 8192}
";
    let region = Region::with(Inventory::from_yaml(text).unwrap()).await;
    region.deployed("one").await;
    let machine = region.allocated("two").await;
    let reply = region.client.perform(&deploy(&machine, false), Some("I2Nsb3Vk")).await;
    let error = failed(reply);
    assert_eq!((error.category, error.status), (Category::Server, Some(503)));
    assert_eq!(error.message, "No more IPs available in subnet: 10.9.0.0/24.");
    assert!(error.ambiguous(), "look before trying again");
}

#[tokio::test]
async fn a_rack_that_is_away_is_trouble_of_the_server() {
    let region = Region::start().await;
    let machine = region.allocated("az1-small-1").await;
    let faults = MachineFaults { no_rack: true, ..MachineFaults::default() };
    region.maas.operator(machine.system_id(), OperatorAct::Faults(faults)).unwrap();
    let reply = region.client.perform(&deploy(&machine, false), Some("I2Nsb3Vk")).await;
    let error = failed(reply);
    assert_eq!((error.category, error.status), (Category::Server, Some(500)));
    assert!(error.message.starts_with("Error determining BMC task queue"), "{error:?}");
}

#[tokio::test]
async fn a_region_that_is_down_behind_its_proxy_is_unavailable() {
    let region = Region::start().await;
    let machine = region.allocated("az1-small-1").await;
    let page = "<html><head><title>502 Bad Gateway</title></head></html>";
    for status in [502, 503, 504] {
        region.maas.clear_faults();
        region.answers(|a| CallFault::on("*", "/", a).any_method(), (status, HTML, page));
        // Clients that have not met it yet: what follows is held back.
        let fresh = || client(&region.maas.url(), &region.maas.api_key());
        let error = failed(fresh().read(&Read::Zones).await);
        assert_eq!((error.category, error.status), (Category::Unavailable, Some(status)));
        assert!(!error.message.contains('<'), "{error:?}");
        let error = failed(fresh().perform(&release(&machine), None).await);
        assert_eq!(error.category, Category::Unavailable);
        assert!(error.ambiguous(), "it may have been carried out before the proxy gave up");
    }
}

trait AnyMethod {
    fn any_method(self) -> Self;
}

impl AnyMethod for CallFault {
    fn any_method(self) -> Self {
        Self { method: None, ..self }
    }
}

#[tokio::test]
async fn a_long_refusal_is_cut_and_free_of_control_characters() {
    let region = Region::start().await;
    let body = format!("first\u{1b}[31m line\n{}", "word ".repeat(10_000));
    region.answers(|a| CallFault::on("GET", "/zones/", a), (500, TEXT, &body));
    let error = failed(region.read(Read::Zones).await);
    assert!(error.message.starts_with("first[31m line word"), "{error:?}");
    assert!(error.message.chars().count() <= 500);
}
