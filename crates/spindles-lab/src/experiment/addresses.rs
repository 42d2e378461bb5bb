//! Names of nodes, and addresses of this machine.

use std::net::{IpAddr, Ipv6Addr};

/// Parses an IP address. Accepts version 6 in brackets, as it is written before a port.
#[must_use]
pub fn ip_address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

/// Checks the name of a node, which ssh gets as its destination: `node3`, `root@10.0.0.2`.
///
/// # Errors
/// If the name could be an option of ssh, or has a port.
pub fn node_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@.-_:%".contains(c);
    let has_port = text.matches(':').count() == 1;
    if text.is_empty() || text.starts_with('-') || !text.chars().all(plain) || has_port {
        return Err(format!(
            "\"{text}\" is not the name of a node: give HOST or USER@HOST, and a port with ssh = \
             \"ssh -p PORT\" or --ssh"
        ));
    }
    Ok(text.to_owned())
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
    fn node_names_are_neither_options_nor_ports() {
        for text in ["node3", "root@10.0.0.2", "fd00::2", "fe80::1%eth0"] {
            assert_eq!(node_name(text), Ok(text.to_owned()));
        }
        for text in ["", "-oProxyCommand=x", "a b", "a;b", "node3:22", "$(x)"] {
            let error = node_name(text).unwrap_err();
            assert!(error.contains("not the name of a node"), "{error}");
        }
    }
}
