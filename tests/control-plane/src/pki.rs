//! Certificates and keys, made in-process: nothing of them outlives a run.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

/// A certificate and its private key, both PEM.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// The certificate.
    pub(crate) certificate: String,
    /// The private key (PKCS#8).
    pub(crate) key: String,
}

/// A certificate authority of one API server.
pub(crate) struct Authority {
    pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority with this common name.
    ///
    /// # Errors
    /// Only when no key can be generated.
    pub(crate) fn new(common_name: &str) -> Result<Self> {
        let key = KeyPair::generate().context("generate a CA key")?;
        let mut params = params(common_name, None)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = params.self_signed(&key).context("sign a CA")?;
        let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
        Ok(Self { pair, issuer: Issuer::new(params, key) })
    }

    /// The authority's own certificate and key.
    #[must_use]
    pub(crate) fn pair(&self) -> &Pair {
        &self.pair
    }

    /// A serving certificate for `localhost` and `127.0.0.1`.
    ///
    /// # Errors
    /// Only when no key can be generated.
    pub(crate) fn serving(&self) -> Result<Pair> {
        let mut params = params("localhost", None)?;
        // `new` sorts addresses from names by itself
        params.subject_alt_names =
            CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?
                .subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// A client certificate for a user and, if given, a group.
    ///
    /// # Errors
    /// Only when no key can be generated.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = params(user, group)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Pair> {
        let key = KeyPair::generate().context("generate a key")?;
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let certificate = params.signed_by(&key, &self.issuer).context("sign")?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// The key pair that signs service-account tokens: `certificate` holds the public key.
///
/// # Errors
/// Only when no key can be generated.
pub(crate) fn service_account_keys() -> Result<Pair> {
    let key = KeyPair::generate().context("generate a service-account key")?;
    Ok(Pair { certificate: key.public_key_pem(), key: key.serialize_pem() })
}

fn params(common_name: &str, organization: Option<&str>) -> Result<CertificateParams> {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name = name;
    // far enough that Cluster API never thinks of a rotation
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2099, 1, 1);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}
