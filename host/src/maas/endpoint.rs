use std::fmt;

use anyhow::{Context, Result, bail};
use url::Url;

/// Where the MAAS API is: `http(s)://host[:port]/…/MAAS/api/2.0/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// Takes every form people write: with and without `/MAAS`, with a trailing slash, a port, an
    /// IPv6 literal, or `/api/2.0` already there.
    ///
    /// # Errors
    /// When it is no http or https URL, or carries a user name, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let example = "for example http://maas.example.com:5240/MAAS";
        let mut url = Url::parse(text)
            .with_context(|| format!("MAAS_ENDPOINT {text:?} is not a URL ({example})"))?;
        if !url.username().is_empty() || url.password().is_some() {
            bail!("MAAS_ENDPOINT holds a user name: the key belongs into MAAS_API_KEY");
        }
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            bail!("MAAS_ENDPOINT {text:?} is not an http or https URL ({example})");
        }
        if url.query().is_some() || url.fragment().is_some() {
            bail!("MAAS_ENDPOINT {text:?} has a query or a fragment ({example})");
        }
        let segments: Vec<&str> = url.path().split('/').filter(|s| !s.is_empty()).collect();
        let mut base: Vec<&str> = match segments.as_slice() {
            [front @ .., "api", version] if version.starts_with("2") => front.to_vec(),
            [front @ .., "api"] => front.to_vec(),
            all => all.to_vec(),
        };
        if base.is_empty() {
            base.push("MAAS");
        }
        let path = format!("/{}/api/2.0/", base.join("/"));
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The URL of a path below `/api/2.0/`.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path()));
        url
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn every_form_people_write_leads_to_the_api() {
        let forms = [
            ("http://m:5240", "http://m:5240/MAAS/api/2.0/"),
            ("http://m:5240/", "http://m:5240/MAAS/api/2.0/"),
            ("http://m:5240/MAAS", "http://m:5240/MAAS/api/2.0/"),
            ("http://m:5240/MAAS/", "http://m:5240/MAAS/api/2.0/"),
            ("https://m/MAAS/api/2.0", "https://m/MAAS/api/2.0/"),
            ("https://m/MAAS/api/2.0/", "https://m/MAAS/api/2.0/"),
            ("http://[fd00::1]:5240/MAAS", "http://[fd00::1]:5240/MAAS/api/2.0/"),
            ("http://proxy/lab/MAAS", "http://proxy/lab/MAAS/api/2.0/"),
        ];
        for (form, base) in forms {
            assert_eq!(Endpoint::parse(form).unwrap().to_string(), base);
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_an_example() {
        for bad in ["", "maas:5240", "ftp://m/MAAS", "http://u:p@m/MAAS", "http://m/MAAS?x=1"] {
            assert!(Endpoint::parse(bad).is_err(), "{bad}");
        }
    }
}
