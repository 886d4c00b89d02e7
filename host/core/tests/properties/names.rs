//! Names and ids, as users and MAAS write them.

use capmaas_core::maas::{Image, Version};
use capmaas_core::{Effect, Read, Step, image, provider_id};

use crate::judgement::{is_name, speaks_decently};
use crate::world::{World, clusters};

pub(crate) fn provider_id(zone: &str, id: &str) {
    let text = provider_id::format(zone, id);
    assert_eq!(provider_id::system_id(&text), Some(id), "{text:?}");
}

pub(crate) fn provider_id_of_others(text: &str) {
    let Some(id) = provider_id::system_id(text) else {
        let ours = text.starts_with("maas:///");
        assert!(!ours || text.ends_with('/'), "{text:?} names a machine");
        return;
    };
    assert!(text.starts_with("maas:///") && text.ends_with(id), "{text:?}");
    assert!(!id.is_empty() && !id.contains('/'), "{id:?}");
    provider_id("", id);
}

pub(crate) fn image(wanted: &str, listed: &[String]) {
    let listing = |names: &[String]| {
        let image = |n: &String| Image { name: n.clone(), architecture: "amd64/generic".into() };
        names.iter().map(image).collect::<Vec<_>>()
    };
    let images = listing(listed);
    for name in listed.iter().filter(|n| !n.is_empty() && !n.ends_with('/')) {
        let series = name.rsplit('/').next().unwrap_or(name).to_owned();
        for form in [name.clone(), series, format!("custom/{name}")] {
            assert_eq!(image::missing(&form, &images), None, "{form:?} of {listed:?}");
        }
    }
    let problem = image::missing(wanted, &images);
    let series = wanted.rsplit('/').next().unwrap_or_default();
    if series.is_empty() {
        assert!(problem.is_some(), "nothing is no image: {wanted:?}");
    }
    let mut reversed = listed.to_vec();
    reversed.reverse();
    assert_eq!(image::missing(wanted, &listing(&reversed)), problem);
    if let Some(problem) = problem {
        assert!(problem.chars().count() <= 2000, "{problem}");
        assert!(!problem.chars().any(char::is_control), "{problem:?}");
    }
}

pub(crate) fn version((major, minor, patch): (u32, u32, u32), rest: &str) {
    let read = Version::parse(&format!("{major}.{minor}.{patch}{rest}"));
    assert_eq!(read, Some(Version(major, minor, patch)));
    assert_eq!(Version::parse(&format!("{major}.{minor}{rest}")), Some(Version(major, minor, 0)));
    let newer = Version(major, minor, patch.saturating_add(1));
    assert!(!Version(major, minor, patch).deploys_to_memory() || newer.deploys_to_memory());
}

pub(crate) fn version_text(text: &str) {
    if let Some(Version(major, minor, _)) = Version::parse(text) {
        let bare = |part: Option<&str>| {
            let digits: String =
                part.unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().ok()
        };
        let mut parts = text.split('.');
        assert_eq!((bare(parts.next()), bare(parts.next())), (Some(major), Some(minor)));
    }
}

/// A cluster in domain `maas` whose endpoint the user gave.
pub(crate) fn endpoint(host: &str) {
    let mut world = World::with_cluster();
    clusters::endpoint(&mut world, host);
    let told = world.reconcile_cluster();
    let done = told.done().unwrap();
    speaks_decently(done);
    let bare = host.trim_end_matches('.');
    let published = world.kube.maas_cluster().unwrap().spec.control_plane_endpoint;
    assert_eq!(told.asked(), host.is_empty(), "a name is asked for where none is given");
    if host.is_empty() {
        return;
    }
    if let Some(published) = published {
        assert_eq!(published.host, host);
    }
    let address = bare.parse::<std::net::IpAddr>().is_ok();
    let inside = !address && is_name(bare) && bare.to_ascii_lowercase().ends_with(".maas");
    let looked = |s: &Step<_>| matches!(s, Step::Read(Read::DnsByName(_)));
    assert_eq!(told.steps.iter().any(looked), inside, "{host:?}");
    for step in &told.steps {
        match step {
            Step::Do(Effect::CreateDns { fqdn, .. }) | Step::Read(Read::DnsByName(fqdn)) => {
                assert!(inside, "{host:?} is not in the domain");
                assert_eq!(fqdn, bare, "another record than the one that was given");
            }
            Step::Do(Effect::DeleteDns { .. }) => panic!("a given record is never deleted"),
            _ => {}
        }
    }
}
