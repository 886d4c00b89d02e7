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
    /// When it is no http or https URL, or carries a user name, a query or a fragment. The text is
    /// not repeated: it may be the key, put into the wrong variable, or hold a password.
    pub fn parse(text: &str) -> Result<Self> {
        let example = "for example http://maas.example.com:5240/MAAS";
        let mut url = Url::parse(text.trim())
            .with_context(|| format!("MAAS_ENDPOINT is not a URL ({example})"))?;
        if !url.username().is_empty() || url.password().is_some() {
            bail!("MAAS_ENDPOINT holds a user name: the key belongs into MAAS_API_KEY");
        }
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            bail!("MAAS_ENDPOINT is not an http or https URL ({example})");
        }
        if url.query().is_some() || url.fragment().is_some() {
            bail!("MAAS_ENDPOINT has a query or a fragment ({example})");
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

    /// The URL of a path below `/api/2.0/`, never of anything beside it.
    pub fn url(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        // Blanks of these kinds do not count in a URL, so that they would hide two dots.
        let path: String = path.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
        let level = |segment| if matches!(segment, "." | "..") { "" } else { segment };
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/').map(level));
        }
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
    fn no_path_climbs() {
        let endpoint = Endpoint::parse("http://m/MAAS").unwrap();
        assert_eq!(endpoint.url("zones/").as_str(), "http://m/MAAS/api/2.0/zones/");
        for path in ["../../x", ".\t./x", "%2e%2e/x", "/..", ".", "?x", "#x", "a\\..\\..\\x"] {
            let url = endpoint.url(path);
            assert!(url.as_str().starts_with("http://m/MAAS/api/2.0/"), "{path:?}: {url}");
            assert!(url.query().is_none() && url.fragment().is_none(), "{path:?}: {url}");
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_an_example() {
        for bad in ["", "maas:5240", "ftp://m/MAAS", "http://u:p@m/MAAS", "http://m/MAAS?x=1"] {
            assert!(Endpoint::parse(bad).is_err(), "{bad}");
        }
    }
}
