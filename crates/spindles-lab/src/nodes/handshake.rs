//! How the two ends show each other that they know the token: each answers the other's challenge, the
//! controller first, so that a stranger learns nothing from an agent. Whoever is not known is told little and
//! waited for shortly.

use super::token::{NONCE_BYTES, Nonces, Side, Token};
use super::wire::{
    Reply, Request, STRANGER_BYTES_MAX, VERSION, WireError, from_hex, receive, send, to_hex,
};
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// How long either waits for what the other says before they know each other.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Greets a controller: whether it may ask for something.
///
/// # Errors
/// Why it may not.
pub(super) fn greet(stream: &mut TcpStream, token: &Token, cpus: u32) -> Result<(), String> {
    limit(stream, ANSWER_TIME)?;
    let Request::Hello { version, nonce } = hear(stream)? else {
        return Err("it does not begin with a hello".to_owned());
    };
    let ours = random()?;
    let nonces = Nonces {
        controller: nonce_of(&nonce)?,
        agent: ours,
    };
    // Versions are no secret: who has another one is told so.
    say(
        stream,
        &Reply::Challenge {
            version: VERSION,
            nonce: to_hex(&ours),
        },
    )?;
    if version != VERSION {
        return Err(format!("it speaks version {version}, we speak {VERSION}"));
    }
    let Request::Proof { proof } = hear(stream)? else {
        return Err("it does not prove that it knows the token".to_owned());
    };
    let proof = from_hex(&proof).unwrap_or_default();
    if !token.is_proof(Side::Controller, &nonces, &proof) {
        let why = "the token is another one".to_owned();
        // It may be gone already.
        let _gone = say(stream, &Reply::Failed { why: why.clone() });
        return Err(why);
    }
    let proof = to_hex(&token.proof(Side::Agent, &nonces));
    say(stream, &Reply::Welcome { proof, cpus })
}

/// Introduces a controller to an agent: how many CPUs it has.
///
/// # Errors
/// What is wrong, and the remedy.
pub(super) fn introduce(stream: &mut TcpStream, token: &Token) -> Result<u32, String> {
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
    let Reply::Challenge { version, nonce } = hear(stream)? else {
        return Err(STRANGE.to_owned());
    };
    if version != VERSION {
        return Err(format!(
            "its agent speaks version {version} and this program {VERSION}: use the same spindles on both"
        ));
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
            return Err(format!(
                "it refuses us: {why}: give both ends a file with the same token"
            ));
        }
        _ => return Err(STRANGE.to_owned()),
    };
    let proof = from_hex(&proof).unwrap_or_default();
    if !token.is_proof(Side::Agent, &nonces, &proof) {
        return Err(
            "it does not know the token: somebody else answers there, or give both ends a file with \
             the same token"
                .to_owned(),
        );
    }
    Ok(cpus)
}

const STRANGE: &str = "what answers there is no agent: start `spindles lab agent` there";

/// How long one read or write may take.
pub(super) fn limit(stream: &TcpStream, time: Duration) -> Result<(), String> {
    stream
        .set_read_timeout(Some(time))
        .and_then(|()| stream.set_write_timeout(Some(time)))
        .and_then(|()| stream.set_nodelay(true))
        .map_err(|error| error.to_string())
}

fn hear<T: serde::de::DeserializeOwned>(stream: &mut TcpStream) -> Result<T, String> {
    let mut bounded = Bounded {
        stream,
        ends: std::time::Instant::now() + ANSWER_TIME,
    };
    receive(&mut bounded, STRANGER_BYTES_MAX).map_err(|error| match error {
        WireError::Broken(error) if is_late(&error) => "it says nothing".to_owned(),
        other => other.to_string(),
    })
}

fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// A frame that comes byte by byte does not take longer.
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

fn say<T: serde::Serialize>(stream: &mut TcpStream, message: &T) -> Result<(), String> {
    send(stream, message).map_err(|error| error.to_string())
}

/// Bytes that nobody can guess.
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

    /// Both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    fn token(byte: u8) -> Token {
        Token::of_bytes(&[byte; 32])
    }

    /// What both ends say.
    fn meet(controller: u8, agent: u8) -> (Result<u32, String>, Result<(), String>) {
        let (mut near, mut far) = pair();
        std::thread::scope(|scope| {
            let greeted = scope.spawn(move || greet(&mut far, &token(agent), 3));
            let introduced = introduce(&mut near, &token(controller));
            drop(near);
            (introduced, greeted.join().unwrap())
        })
    }

    #[test]
    fn those_who_know_the_token_meet() {
        assert_eq!(meet(1, 1), (Ok(3), Ok(())));
        let (introduced, greeted) = meet(1, 2);
        let error = introduced.unwrap_err();
        assert!(error.contains("the token is another one"), "{error}");
        assert!(greeted.is_err());
    }

    /// What an agent makes of a stranger that sends these bytes and closes.
    fn stranger(bytes: &[u8]) -> (String, Vec<u8>) {
        let (mut near, mut far) = pair();
        near.write_all(bytes).unwrap();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let error = greet(&mut far, &token(1), 3).unwrap_err();
        drop(far);
        let mut heard = Vec::new();
        // A reset is an end as well.
        let _reset = near.read_to_end(&mut heard);
        (error, heard)
    }

    fn frames(requests: &[Request]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for request in requests {
            send(&mut bytes, request).unwrap();
        }
        bytes
    }

    #[test]
    fn strangers_are_told_nothing() {
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
            (frames(&[Request::Ping]), "does not begin with a hello"),
            (frames(&[hello(VERSION, "00")]), "another length"),
            (frames(&[hello(VERSION + 1, &nonce)]), "speaks version 2"),
            (
                frames(&[hello(VERSION, &nonce), Request::Ping]),
                "does not prove",
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

    /// One that knows no token can't pass for an agent by sending back what it was sent.
    #[test]
    fn a_mirror_is_no_agent() {
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
            introduce(&mut near, &token(1)).unwrap_err()
        });
        assert!(error.contains("does not know the token"), "{error}");
    }
}
