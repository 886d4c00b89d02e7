//! Whether MAAS has the image a machine wants.

use crate::maas::Image;
use crate::text::bounded;

/// Why an image cannot be deployed, if that is certain from the list of images.
///
/// MAAS lists a custom image under its bare name, and resolves aliases such as `22.04` itself; so
/// only a name that no rule explains counts as missing.
pub fn missing(wanted: &str, images: &[Image]) -> Option<String> {
    let series = wanted.rsplit('/').next().unwrap_or(wanted);
    let alias = series.starts_with(|c: char| c.is_ascii_digit());
    let fits = |image: &Image| match wanted.split_once('/') {
        _ if series.is_empty() || image.name.is_empty() => false,
        Some(("custom", name)) => image.name == name,
        Some(_) => image.name == wanted,
        None => image.name == wanted || image.name.rsplit('/').next() == Some(wanted),
    };
    if alias || images.iter().any(fits) {
        return None;
    }
    let mut names: Vec<&str> = images.iter().map(|i| i.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|n| !n.is_empty());
    let have = if names.is_empty() { "none at all".to_owned() } else { names.join(", ") };
    let (wanted, have) = (bounded(wanted, 120), bounded(&have, 500));
    Some(format!("MAAS has no image {wanted:?} (it has {have}); import it or correct spec.image"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> Vec<Image> {
        ["ubuntu/noble", "u-2404-k8s"]
            .map(|name| Image { name: name.into(), architecture: "amd64/generic".into() })
            .to_vec()
    }

    #[test]
    fn every_form_that_maas_resolves_is_taken() {
        for form in ["ubuntu/noble", "noble", "custom/u-2404-k8s", "u-2404-k8s", "24.04"] {
            assert_eq!(missing(form, &images()), None, "{form}");
        }
    }

    #[test]
    fn b061_every_form_of_a_name_is_told_from_a_name_that_maas_does_not_have() {
        let images = ["ubuntu/focal", "ubuntu/jammy", "u-2204", "u-2204-0", "windows/win2022"]
            .map(|name| Image { name: name.into(), architecture: "amd64/generic".into() });
        let known = ["focal", "ubuntu/jammy", "custom/u-2204", "u-2204-0", "windows/win2022"];
        for form in known {
            assert_eq!(missing(form, &images), None, "{form}");
        }
        for form in ["ubuntu", "ubuntu/noble", "custom/jammy", "u-2204-1", "windows/jammy"] {
            let problem = missing(form, &images).expect(form);
            assert!(problem.contains("it has u-2204, u-2204-0, ubuntu/focal"), "{problem}");
        }
    }

    #[test]
    fn no_name_is_no_image() {
        let nameless = [Image { name: String::new(), architecture: String::new() }];
        for form in ["", "custom/", "ubuntu/"] {
            assert!(missing(form, &nameless).is_some(), "{form:?}");
        }
    }

    #[test]
    fn a_missing_image_is_named_with_what_there_is() {
        let problem = missing("custom/u-2204", &images()).unwrap();
        assert!(problem.contains("custom/u-2204") && problem.contains("ubuntu/noble"), "{problem}");
    }
}
