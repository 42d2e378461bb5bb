//! Serves one connection: reads a single request and sends the answer.

use crate::request;
use crate::response::Response;
use crate::routes::Site;
use crate::server::Limits;
use std::io::{self, Read as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Unread input is drained before closing, up to this many bytes and this long. Otherwise the
/// kernel would reset the connection and the answer could be lost.
const REST_BYTES_MAX: u64 = 1 << 20;
const REST_TIME: Duration = Duration::from_secs(1);

/// Answers the one request of a connection.
pub(crate) fn answer(mut stream: TcpStream, site: &Site, limits: &Limits) {
    // Only this client is affected by an error: it gets no answer.
    drop(answered(&mut stream, site, limits));
}

fn answered(stream: &mut TcpStream, site: &Site, limits: &Limits) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(limits.write))?;
    let (response, head_only) = match request::read(stream, limits.head) {
        Ok(request) => (site.answer(&request), request.head_only),
        Err(refusal) => match Response::refusal(refusal) {
            Some(response) => (response, false),
            None => return Ok(()),
        },
    };
    response.send(stream, head_only)?;
    stream.shutdown(Shutdown::Write)?;
    read_the_rest(stream)
}

fn read_the_rest(stream: &mut TcpStream) -> io::Result<()> {
    let deadline = Instant::now() + REST_TIME;
    let mut left_bytes = REST_BYTES_MAX;
    let mut piece = [0; 4096];
    while left_bytes > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            read => left_bytes = left_bytes.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX)),
        }
    }
    Ok(())
}
