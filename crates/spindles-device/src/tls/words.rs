//! Explains TLS errors to users: names the bad certificate and its fault, and so who must act.

use rustls::{AlertDescription as Alert, CertificateError as Flaw, Error};
use std::io;

/// Explains a TLS error. A flaw in a certificate means the other side's certificate.
#[must_use]
pub fn explain(error: &Error) -> String {
    let text = match error {
        Error::NoCertificatesPresented => {
            "it presents no certificate: give it client-cert.pem and client-key.pem of an \
             authority in ca-cert.pem"
        }
        Error::InvalidCertificate(flaw) => return of_certificate(flaw),
        Error::AlertReceived(alert) => return of_alert(*alert),
        Error::InvalidMessage(_) => "it does not speak TLS",
        Error::PeerIncompatible(_) => {
            "it offers no TLS version or cipher that this side supports: use TLS 1.2 or 1.3"
        }
        Error::InconsistentKeys(_) => "the private key is not that of the certificate",
        other => return other.to_string(),
    };
    text.to_owned()
}

/// Explains an error of a socket, which may contain a TLS error.
#[must_use]
pub fn explain_io(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    inner.map_or_else(|| error.to_string(), explain)
}

fn of_certificate(flaw: &Flaw) -> String {
    let text = match flaw {
        Flaw::UnknownIssuer | Flaw::BadSignature => {
            "its certificate is not signed by an authority in ca-cert.pem: exchange one of the \
             two"
        }
        Flaw::Expired | Flaw::ExpiredContext { .. } => {
            "its certificate has expired: renew it, or correct the clock of this machine"
        }
        Flaw::NotValidYet | Flaw::NotValidYetContext { .. } => {
            "its certificate is not valid yet: correct the clock of this machine, or make a new \
             one"
        }
        Flaw::Revoked => "ca-crl.pem revokes its certificate: make a new one",
        Flaw::ExpiredRevocationList | Flaw::ExpiredRevocationListContext { .. } => {
            "ca-crl.pem is too old to show whether its certificate is still valid: get a new \
             list from the authority"
        }
        Flaw::UnknownRevocationStatus => {
            "ca-crl.pem does not show whether its certificate is still valid: get the list of \
             the authority that signed it"
        }
        Flaw::InvalidPurpose | Flaw::InvalidPurposeContext { .. } => {
            "its certificate is for another purpose: a server needs one for TLS servers, a client \
             one for TLS clients"
        }
        Flaw::NotValidForName => "its certificate is for another name than that of the address",
        // For example, the text of `NotValidForNameContext` contains both names.
        other => return format!("its certificate is not valid: {other}"),
    };
    text.to_owned()
}

fn of_alert(alert: Alert) -> String {
    let text = match alert {
        Alert::UnknownCA => {
            "the other side does not know the authority that signed this side's certificate: \
             exchange one of the two"
        }
        Alert::CertificateRequired => "the other side requires a certificate from this side",
        Alert::CertificateExpired => {
            "the other side reports that this side's certificate has expired: renew it, or \
             correct the clocks"
        }
        Alert::CertificateRevoked => {
            "the other side reports that this side's certificate is revoked: make a new one"
        }
        Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::CertificateUnknown => {
            "the other side rejects this side's certificate"
        }
        Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity => {
            "the two sides share no TLS version or no cipher: use TLS 1.2 or 1.3"
        }
        other => return format!("the other side ended it: {other:?}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_errors_are_described_in_words() {
        let io = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        for (error, wanted) in [
            (Error::NoCertificatesPresented, "presents no certificate"),
            (
                Error::InvalidCertificate(Flaw::UnknownIssuer),
                "not signed by",
            ),
            (
                Error::AlertReceived(Alert::UnknownCA),
                "does not know the authority",
            ),
        ] {
            assert!(explain(&error).contains(wanted), "{error}");
            assert!(explain_io(&io(error)).contains(wanted), "{wanted}");
        }
        let other = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(explain_io(&other), other.to_string());
    }
}
