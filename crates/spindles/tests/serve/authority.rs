//! A private certificate authority for tests of TLS.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use std::fs;
use std::path::Path;

/// A certificate authority.
pub(crate) struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut about = CertificateParams::default();
        about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        about.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let own = about.self_signed(&key).expect("a certificate");
        Self(Issuer::new(about, key), own.pem())
    }

    /// Writes only its certificate: for a client that can verify the server, but shows no
    /// certificate.
    pub(crate) fn certify(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join("ca-cert.pem"), &self.1).expect("it is written");
    }

    /// Writes a signed certificate and its key.
    pub(crate) fn sign(&self, folder: &Path, who: &str, serial: u64) {
        self.certify(folder);
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut about = CertificateParams::new(names).expect("names");
        about.serial_number = Some(serial.into());
        about.extended_key_usages = vec![match who {
            "server" => ExtendedKeyUsagePurpose::ServerAuth,
            _ => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        let key = KeyPair::generate().expect("a key");
        let signed = about.signed_by(&key, &self.0).expect("a certificate");
        let write = |what: &str, text: &str| {
            fs::write(folder.join(format!("{who}-{what}.pem")), text).expect("it is written");
        };
        write("cert", &signed.pem());
        write("key", &key.serialize_pem());
    }

    /// Writes a list that revokes a certificate.
    pub(crate) fn revoke(&self, folder: &Path, serial: u64) {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2124, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.0).expect("a list");
        let list = list.pem().expect("PEM");
        fs::write(folder.join("ca-crl.pem"), list).expect("it is written");
    }
}
