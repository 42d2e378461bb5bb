//! Any text is read as a trace or refused with a line of it. The pieces that it comes in make no
//! difference, requests fit 64 bits in order of time, and our own format holds all of them.

use spindles_workload::trace::{
    TraceError, TraceFormat, TraceReader, TraceRequest, TraceWriter, When, named,
};

/// Reads bytes as a trace of a format, behind one of its beginnings.
pub fn check(format: &str, begins: &[&str], data: &[u8]) {
    let format = named(format).expect("a row");
    let Some((mode, data)) = data.split_first() else {
        return;
    };
    let begin = begins[usize::from(*mode) % begins.len()];
    let mut text = begin.as_bytes().to_vec();
    text.extend_from_slice(data);
    if mode & 0x80 != 0 {
        text.push(b'\n');
    }
    let read = read(format, &text, 4096);
    assert_eq!(read, self::read(format, &text, 1 + usize::from(mode & 7)));
    match read {
        Err(error) => {
            let lines = text.split(|byte| *byte == b'\n').count();
            assert!(
                (1..=u64::try_from(lines).unwrap()).contains(&error.line),
                "{error}"
            );
            assert!(!error.to_string().contains(char::is_control));
        }
        Ok(requests) => check_requests(&requests),
    }
}

fn read(
    format: &'static TraceFormat,
    text: &[u8],
    piece: usize,
) -> Result<Vec<TraceRequest>, TraceError> {
    let mut requests = Vec::new();
    let mut reader = TraceReader::new(Some(format));
    for piece in text.chunks(piece) {
        reader.feed(piece, &mut |request| requests.push(request))?;
    }
    reader.end(&mut |request| requests.push(request))?;
    Ok(requests)
}

fn check_requests(requests: &[TraceRequest]) {
    assert!(!requests.is_empty());
    let mut last_ns = 0;
    for request in requests {
        assert!(request.offset_bytes.checked_add(request.bytes).is_some());
        if let When::At(at_ns) = request.when {
            assert!(at_ns >= last_ns);
            last_ns = at_ns;
        }
    }
    let own = named("spindles").expect("a row");
    let mut writer = TraceWriter::new(own).expect("it is written");
    let mut text = Vec::new();
    for request in requests {
        writer.put(request, &mut text).expect("it holds all");
    }
    writer.end(&mut text);
    assert_eq!(read(own, &text, 4096).as_deref(), Ok(requests));
}
