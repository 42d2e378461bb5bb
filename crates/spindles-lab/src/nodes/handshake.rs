//! The handshake: each end proves that it knows the token by answering the other's challenge. The
//! controller proves first, so that a stranger learns nothing from an agent. An unauthenticated
//! peer gets short frames and short timeouts.

use super::token::{NONCE_BYTES, Nonces, Side, Token};
use super::wire::{
    Reply, Request, SAME, STRANGER_BYTES_MAX, VERSION, WireError, from_hex, in_words, receive,
    send, to_hex,
};
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// How long each end waits for a message of the handshake.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Why a handshake failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unmet {
    /// Other connections occupy the agent; it may be free soon.
    Busy,
    /// The connection ended: an agent flooded by strangers closes connections without a reason.
    Closed,
    /// Any other reason, with the remedy.
    Wrong(String),
}

impl From<String> for Unmet {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "others have all connections that its agent takes",
            Self::Closed => "the connection was closed",
            Self::Wrong(why) => why,
        })
    }
}

/// Authenticates a controller. Calls `keep` once the controller has proved that it knows the token;
/// `keep` returns true if there is a place for it.
///
/// # Errors
/// Why the controller is refused.
pub(super) fn greet(
    stream: &mut TcpStream,
    token: &Token,
    cpus: u32,
    keep: &dyn Fn() -> bool,
) -> Result<(), Unmet> {
    limit(stream, ANSWER_TIME)?;
    let Request::Hello { version, nonce } = hear(stream)? else {
        return Err(wrong(
            "it does not introduce itself: it is no `spindles lab run`",
        ));
    };
    let ours = random()?;
    let nonces = Nonces {
        controller: nonce_of(&nonce)?,
        agent: ours,
    };
    // Versions are no secret: a controller of another version learns ours.
    say(
        stream,
        &Reply::Challenge {
            version: VERSION,
            nonce: to_hex(&ours),
        },
    )?;
    if version != VERSION {
        return Err(Unmet::Wrong(format!(
            "it speaks version {version}, and this program {VERSION}: {SAME}"
        )));
    }
    let Request::Proof { proof } = hear(stream)? else {
        return Err(wrong("it does not show that it knows the token"));
    };
    let proof = from_hex(&proof).unwrap_or_default();
    if !token.is_proof(Side::Controller, &nonces, &proof) {
        let why = "the token is another one".to_owned();
        // The peer may be gone already.
        let _gone = say(stream, &Reply::Failed { why: why.clone() });
        return Err(Unmet::Wrong(why));
    }
    if !keep() {
        let _gone = say(stream, &Reply::Busy);
        return Err(Unmet::Busy);
    }
    let proof = to_hex(&token.proof(Side::Agent, &nonces));
    say(stream, &Reply::Welcome { proof, cpus })
}

/// Authenticates to an agent. Returns its number of CPUs.
///
/// # Errors
/// The reason of the failure, and the remedy.
pub(super) fn introduce(stream: &mut TcpStream, token: &Token) -> Result<u32, Unmet> {
    limit(stream, ANSWER_TIME)?;
    let ours = random()?;
    let nonce = to_hex(&ours);
    say(
        stream,
        &Request::Hello {
            version: VERSION,
            nonce,
        },
    )?;
    let (version, nonce) = match hear(stream)? {
        Reply::Challenge { version, nonce } => (version, nonce),
        Reply::Busy => return Err(Unmet::Busy),
        _ => return Err(wrong(STRANGE)),
    };
    if version != VERSION {
        return Err(Unmet::Wrong(format!(
            "its agent speaks version {version} and this program {VERSION}: {SAME}"
        )));
    }
    let nonces = Nonces {
        controller: ours,
        agent: nonce_of(&nonce)?,
    };
    let proof = to_hex(&token.proof(Side::Controller, &nonces));
    say(stream, &Request::Proof { proof })?;
    let (proof, cpus) = match hear(stream)? {
        Reply::Welcome { proof, cpus } => (proof, cpus),
        Reply::Failed { why } => {
            return Err(Unmet::Wrong(format!(
                "it refuses us: {why}: give both ends a file with the same token"
            )));
        }
        Reply::Busy => return Err(Unmet::Busy),
        _ => return Err(wrong(STRANGE)),
    };
    let proof = from_hex(&proof).unwrap_or_default();
    if !token.is_proof(Side::Agent, &nonces, &proof) {
        return Err(wrong(
            "it does not know the token: give both ends a file with the same token, and check that \
             the address is the agent's",
        ));
    }
    Ok(cpus)
}

const STRANGE: &str =
    "another program answers there, not an agent: start `spindles lab agent` there";

fn wrong(why: &str) -> Unmet {
    Unmet::Wrong(why.to_owned())
}

/// Sets the time that a read or a write may take.
pub(super) fn limit(stream: &TcpStream, time: Duration) -> Result<(), String> {
    stream
        .set_read_timeout(Some(time))
        .and_then(|()| stream.set_write_timeout(Some(time)))
        .and_then(|()| stream.set_nodelay(true))
        .map_err(|error| error.to_string())
}

fn hear<T: serde::de::DeserializeOwned>(stream: &mut TcpStream) -> Result<T, Unmet> {
    let mut bounded = Bounded {
        stream,
        ends: std::time::Instant::now() + ANSWER_TIME,
    };
    receive(&mut bounded, STRANGER_BYTES_MAX).map_err(|error| match error {
        WireError::Broken(error) if is_late(&error) => {
            Unmet::Wrong(format!("it says nothing for {} s", ANSWER_TIME.as_secs()))
        }
        WireError::Closed | WireError::Broken(_) => Unmet::Closed,
        other => Unmet::Wrong(other.to_string()),
    })
}

fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Limits the time of a whole frame, even if it arrives byte by byte.
struct Bounded<'a> {
    stream: &'a mut TcpStream,
    ends: std::time::Instant,
}

impl io::Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let now = std::time::Instant::now();
        let rest = self.ends.saturating_duration_since(now);
        if rest.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(rest))?;
        self.stream.read(into)
    }
}

fn say<T: serde::Serialize>(stream: &mut TcpStream, message: &T) -> Result<(), Unmet> {
    send(stream, message).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Unmet::Closed,
        _ => Unmet::Wrong(in_words(&error)),
    })
}

/// Returns unpredictable bytes.
pub(super) fn random<const BYTES: usize>() -> Result<[u8; BYTES], String> {
    let mut bytes = [0; BYTES];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| "there are no random numbers".to_owned())?;
    Ok(bytes)
}

fn nonce_of(text: &str) -> Result<[u8; NONCE_BYTES], String> {
    let bytes = from_hex(text).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "its challenge has another length".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    /// Returns both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    fn token(byte: u8) -> Token {
        Token::of_bytes(&[byte; 32])
    }

    /// Runs a handshake and returns the results of both ends.
    fn meet(controller: u8, agent: u8, has_place: bool) -> (Result<u32, Unmet>, Result<(), Unmet>) {
        let (mut near, mut far) = pair();
        std::thread::scope(|scope| {
            let greeted = scope.spawn(move || greet(&mut far, &token(agent), 3, &|| has_place));
            let introduced = introduce(&mut near, &token(controller));
            drop(near);
            (introduced, greeted.join().unwrap())
        })
    }

    #[test]
    fn peers_with_the_same_token_connect() {
        assert_eq!(meet(1, 1, true), (Ok(3), Ok(())));
        assert_eq!(meet(1, 1, false), (Err(Unmet::Busy), Err(Unmet::Busy)));
        let (introduced, greeted) = meet(1, 2, true);
        let error = introduced.unwrap_err().to_string();
        assert!(error.contains("the token is another one"), "{error}");
        assert!(greeted.is_err());
    }

    /// Returns the agent's error and its output for a stranger that sends these bytes and closes.
    fn stranger(bytes: &[u8]) -> (String, Vec<u8>) {
        let (mut near, mut far) = pair();
        near.write_all(bytes).unwrap();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let error = greet(&mut far, &token(1), 3, &|| true).unwrap_err();
        drop(far);
        let mut heard = Vec::new();
        // A reset ends the connection as well.
        let _reset = near.read_to_end(&mut heard);
        (error.to_string(), heard)
    }

    fn frames(requests: &[Request]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for request in requests {
            send(&mut bytes, request).unwrap();
        }
        bytes
    }

    #[test]
    fn strangers_learn_nothing() {
        let hello = |version, nonce: &str| Request::Hello {
            version,
            nonce: nonce.to_owned(),
        };
        let nonce = to_hex(&[5; NONCE_BYTES]);
        let odd = Request::Proof {
            proof: "00".to_owned(),
        };
        for (bytes, words) in [
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "are the most"),
            (Vec::new(), "closed"),
            (frames(&[Request::Ping]), "does not introduce itself"),
            (frames(&[hello(VERSION, "00")]), "another length"),
            (frames(&[hello(VERSION + 1, &nonce)]), "speaks version 3"),
            (
                frames(&[hello(VERSION, &nonce), Request::Ping]),
                "does not show that it knows",
            ),
            (
                frames(&[hello(VERSION, &nonce), odd]),
                "the token is another one",
            ),
        ] {
            let (error, heard) = stranger(&bytes);
            assert!(error.contains(words), "{error}");
            assert!(!String::from_utf8_lossy(&heard).contains("welcome"));
        }
    }

    /// A peer without the token can't pose as an agent by echoing the controller's messages.
    #[test]
    fn a_reflected_proof_is_refused() {
        let (mut near, mut far) = pair();
        let error = std::thread::scope(|scope| {
            scope.spawn(move || {
                let Request::Hello { nonce, .. } = hear(&mut far).unwrap() else {
                    panic!("no hello");
                };
                let version = VERSION;
                say(&mut far, &Reply::Challenge { version, nonce }).unwrap();
                let Request::Proof { proof } = hear(&mut far).unwrap() else {
                    panic!("no proof");
                };
                say(&mut far, &Reply::Welcome { proof, cpus: 1 }).unwrap();
            });
            introduce(&mut near, &token(1)).unwrap_err().to_string()
        });
        assert!(error.contains("does not know the token"), "{error}");
    }
}
