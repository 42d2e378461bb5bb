//! The address of the metrics page.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};

/// Parses `PORT` of this machine, or `HOST:PORT`. The error is a message for people.
pub(super) fn parse(text: &str, allow_plaintext: bool) -> Result<SocketAddr, String> {
    let address = if let Ok(port) = text.parse() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
    } else if text.contains(':') && !text.contains('/') {
        let found = text.to_socket_addrs().map(|mut found| found.next());
        let found = found.map_err(|error| format!("{text}: {error}"))?;
        found.ok_or_else(|| format!("{text}: there is no such host"))?
    } else {
        return Err(format!(
            "--metrics: {text:?} is not an address: give PORT, such as 9805, or HOST:PORT, such as \
             127.0.0.1:9805"
        ));
    };
    if !address.ip().is_loopback() && !allow_plaintext {
        return Err(format!(
            "--metrics: {address}: other machines can reach it, and nothing is encrypted: give \
             --allow-plaintext if the network is safe, or only a PORT, {}, which only this machine \
             reaches",
            address.port()
        ));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_forms_are_parsed() {
        for (text, wanted) in [
            ("9100", Some("127.0.0.1:9100")),
            ("[::1]:9100", Some("[::1]:9100")),
            ("0.0.0.0:9100", None),
            ("127.0.0.1", None),
            ("unix:/run/a", None),
            ("65536", None),
            ("", None),
        ] {
            let wanted = wanted.map(|wanted| wanted.parse().expect("an address"));
            assert_eq!(parse(text, false).ok(), wanted, "{text}");
        }
        assert!(parse("0.0.0.0:9100", true).is_ok());
    }
}
