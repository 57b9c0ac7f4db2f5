//! [`Authority`] signs [`ClientCertificate`]s and revocation lists: valid ones, and those that a
//! gateway must refuse.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

/// A certificate for a client, still to be changed.
pub struct ClientCertificate(pub CertificateParams);

impl ClientCertificate {
    /// With this common name, good for an hour.
    pub fn named(common: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Self(params).good(-3600, 3600)
    }

    /// With an alternative name that is a host's.
    pub fn dns(mut self, name: &str) -> Self {
        let name = SanType::DnsName(name.try_into().unwrap());
        self.0.subject_alt_names.push(name);
        self
    }

    /// With an alternative name that is an e-mail address.
    pub fn email(mut self, address: &str) -> Self {
        let name = SanType::Rfc822Name(address.try_into().unwrap());
        self.0.subject_alt_names.push(name);
        self
    }

    /// From and until so many seconds from now.
    pub fn good(mut self, from: i64, until: i64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let at = |seconds: i64| {
            let seconds = now.as_secs().checked_add_signed(seconds).unwrap();
            date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
        };
        (self.0.not_before, self.0.not_after) = (at(from), at(until));
        self
    }

    /// For something else than clients.
    pub fn for_servers(mut self) -> Self {
        self.0.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self
    }

    /// With this number.
    pub fn number(mut self, number: u64) -> Self {
        self.0.serial_number = Some(SerialNumber::from(number));
        self
    }
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Signs a certificate.
    pub fn sign(&self, client: &ClientCertificate) -> Arc<CertifiedKey> {
        let key = KeyPair::generate().unwrap();
        let certificate = client.0.signed_by(&key, &self.issuer).unwrap();
        certified(certificate.der().clone(), &key)
    }

    /// Signs one and writes it into two PEM files.
    pub fn write(&self, client: &ClientCertificate, cert: &Path, key: &Path) {
        let pair = KeyPair::generate().unwrap();
        let certificate = client.0.signed_by(&pair, &self.issuer).unwrap();
        std::fs::write(cert, certificate.pem()).unwrap();
        std::fs::write(key, pair.serialize_pem()).unwrap();
    }

    /// A list of the numbers that are revoked, good until so many seconds from now.
    pub fn revoking(&self, numbers: &[u64], until: i64) -> String {
        let dates = ClientCertificate::named("").good(-7200, until).0;
        let revoked = |number: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*number),
            revocation_time: dates.not_before,
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: dates.not_before,
            next_update: dates.not_after,
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: numbers.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

pub fn self_signed(client: &ClientCertificate) -> Arc<CertifiedKey> {
    let key = KeyPair::generate().unwrap();
    let certificate = client.0.self_signed(&key).unwrap();
    certified(certificate.der().clone(), &key)
}

fn certified(der: rustls::pki_types::CertificateDer<'static>, key: &KeyPair) -> Arc<CertifiedKey> {
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = default_provider();
    Arc::new(CertifiedKey::from_der(vec![der], private, &provider).unwrap())
}
