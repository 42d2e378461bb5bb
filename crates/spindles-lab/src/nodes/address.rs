//! The address of a node: `10.0.0.2`, `node3:7200`, `[fd00::2]:7117`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The default port of agents.
pub const PORT: u16 = 7117;

/// The address of a node's agent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeAddress {
    /// A host name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Parses an IP address. Accepts version 6 in brackets, as it is written before a port.
#[must_use]
pub fn ip_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

impl FromStr for NodeAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "\"{text}\" is no address of a node: give HOST or HOST:PORT, such as \
                 10.0.0.2:{PORT}"
            )
        };
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or_else(wrong)?),
            };
            (host, port)
        } else if text.parse::<Ipv6Addr>().is_ok() {
            (text, None)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| wrong()))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
        if host.is_empty() || port == 0 || !host.chars().all(plain) {
            return Err(wrong());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ipv6_addresses_take_brackets() {
        for text in ["fd77::3", "[fd77::3]", "10.0.0.2"] {
            let shown = text.trim_matches(['[', ']']);
            assert_eq!(ip_address(text).unwrap().to_string(), shown);
        }
        for text in ["", "[10.0.0.2]", "[fd77::3", "fd77::3]", "[]", "node3"] {
            assert_eq!(ip_address(text), None, "{text}");
        }
    }

    #[test]
    fn node_addresses_parse_and_print() {
        for (text, shown) in [
            ("10.0.0.2", "10.0.0.2:7117"),
            ("node3:7200", "node3:7200"),
            ("[fd00::2]:7200", "[fd00::2]:7200"),
            ("[fd00::2]", "[fd00::2]:7117"),
            ("fd00::2", "[fd00::2]:7117"),
        ] {
            assert_eq!(text.parse::<NodeAddress>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            ":7117",
            "a b",
            "a:0",
            "a:port",
            "[fd00::2",
            "[fd00::2]7",
            "a:1:2",
        ] {
            let error = text.parse::<NodeAddress>().unwrap_err();
            assert!(error.contains("no address of a node"), "{error}");
        }
    }
}
