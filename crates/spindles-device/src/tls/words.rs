//! Explains TLS errors to users: names the bad certificate and its fault, and so who must act.

use rustls::{AlertDescription as Alert, CertificateError as Flaw, Error};
use std::io;

/// Explains a TLS error. A flaw in a certificate means the other side's certificate.
#[must_use]
pub fn explain(error: &Error) -> String {
    let text = match error {
        Error::NoCertificatesPresented => {
            "it shows no certificate: give it client-cert.pem and client-key.pem of an authority \
             in ca-cert.pem"
        }
        Error::InvalidCertificate(flaw) => return of_certificate(flaw),
        Error::AlertReceived(alert) => return of_alert(*alert),
        Error::InvalidMessage(_) => "what it says is no TLS",
        Error::PeerIncompatible(_) => {
            "it has no version of TLS, or no cipher, that can be used: TLS 1.2 and 1.3 can"
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
            "its certificate is not signed by an authority in ca-cert.pem: one of the two is to be \
             exchanged"
        }
        Flaw::Expired | Flaw::ExpiredContext { .. } => {
            "its certificate has expired: it needs a new one, or this machine the right time"
        }
        Flaw::NotValidYet | Flaw::NotValidYetContext { .. } => {
            "its certificate is not valid yet: this machine needs the right time, if not it a new \
             one"
        }
        Flaw::Revoked => "its certificate is taken back by ca-crl.pem: it needs a new one",
        Flaw::ExpiredRevocationList | Flaw::ExpiredRevocationListContext { .. } => {
            "ca-crl.pem is too old to say whether its certificate still holds: get a new one from \
             the authority"
        }
        Flaw::UnknownRevocationStatus => {
            "ca-crl.pem does not say whether its certificate still holds: get the list of the \
             authority that signed it"
        }
        Flaw::InvalidPurpose | Flaw::InvalidPurposeContext { .. } => {
            "its certificate is for another purpose: a server needs one for TLS servers, a client \
             one for TLS clients"
        }
        Flaw::NotValidForName => "its certificate has another name than it is asked by",
        // For example, the text of `NotValidForNameContext` contains both names.
        other => return format!("its certificate does not hold: {other}"),
    };
    text.to_owned()
}

fn of_alert(alert: Alert) -> String {
    let text = match alert {
        Alert::UnknownCA => {
            "the other side knows no authority that signed the certificate of this side: one of \
             the two is to be exchanged"
        }
        Alert::CertificateRequired => "the other side wants a certificate of this side",
        Alert::CertificateExpired => {
            "the other side says that the certificate of this side has expired: this side needs a \
             new one, or one of the two machines the right time"
        }
        Alert::CertificateRevoked => {
            "the other side says that the certificate of this side was taken back: this side needs \
             a new one"
        }
        Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::CertificateUnknown => {
            "the other side does not take the certificate of this side"
        }
        Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity => {
            "the other side has no version of TLS, or no cipher, in common with this: TLS 1.2 and \
             1.3 can be used"
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
            (Error::NoCertificatesPresented, "shows no certificate"),
            (
                Error::InvalidCertificate(Flaw::UnknownIssuer),
                "not signed by",
            ),
            (Error::AlertReceived(Alert::UnknownCA), "knows no authority"),
        ] {
            assert!(explain(&error).contains(wanted), "{error}");
            assert!(explain_io(&io(error)).contains(wanted), "{wanted}");
        }
        let other = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(explain_io(&other), other.to_string());
    }
}
