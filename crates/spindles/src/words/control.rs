//! Why a server performs no operation.

use spindles_serve::control::{BadRequest, OPERATIONS_MAX, REQUEST_BYTES_MAX, VERSION, WAIT_MAX};

/// The array is served for reading only.
pub(crate) const READ_ONLY: &str =
    "the array is served for reading only: stop it, and serve it without --read-only";

/// The operation names no member.
pub(crate) const NO_MEMBER: &str = "fail: give the device of the member, or its position";

/// Returns the exit status and the text for a client that sent no valid request.
pub(crate) fn refused(request: &BadRequest) -> (u8, String) {
    let text = match request {
        BadRequest::Busy => {
            let text = format!(
                "the array's server already runs {OPERATIONS_MAX} commands, and none ended \
                 within {} s: end one, or try again",
                WAIT_MAX.as_secs()
            );
            return (1, text);
        }
        BadRequest::TooLong => {
            format!("this is not an operation: it is longer than {REQUEST_BYTES_MAX} bytes")
        }
        BadRequest::Invalid(error) => format!("this is not an operation: {error}"),
        BadRequest::CommandLine => "the server accepts operations, not the command lines of \
                                    older versions of spindles: use the server's version"
            .to_owned(),
        BadRequest::Version(version) => format!(
            "the server speaks version {VERSION} of the protocol, not {version}: use the \
             server's version of spindles"
        ),
    };
    (2, text)
}

/// The text for a relative name, which would mean another device in the server's folder.
pub(crate) fn relative(device: &str) -> String {
    format!("{device}: the server requires absolute device names")
}

/// The text for an operation on the array with another UUID.
pub(crate) fn other_array(name: &str, asked: &str) -> String {
    format!("this server has array '{name}', not the one with the UUID {asked}")
}

/// The text for an array that has failed.
pub(crate) fn has_failed(name: &str) -> String {
    format!(
        "array '{name}' has failed, so the server runs no commands on it: `spindles status` says \
         why; bring back the missing members, then stop the server, and serve the array again"
    )
}

/// The text for a device at which the array itself appears.
pub(crate) fn is_itself(device: &str) -> String {
    format!("{device} is the array itself: take another device")
}
