//! Every format on a small sample, wrong lines as a table, round trips, and pieces of any length.

use super::*;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;

/// Reads a text in pieces of that length.
fn read_in(
    format: Option<&'static TraceFormat>,
    text: &[u8],
    piece: usize,
) -> Result<Vec<TraceRequest>, TraceError> {
    let mut requests = Vec::new();
    let mut reader = TraceReader::new(format);
    for piece in text.chunks(piece) {
        reader.feed(piece, &mut |request| requests.push(request))?;
    }
    reader.end(&mut |request| requests.push(request))?;
    Ok(requests)
}

fn read(text: &str) -> Result<Vec<TraceRequest>, TraceError> {
    read_in(None, text.as_bytes(), 65_536)
}

fn write(format: &str, requests: &[TraceRequest]) -> Result<String, WriteError> {
    let mut writer = TraceWriter::new(named(format).unwrap()).unwrap();
    let mut text = Vec::new();
    for request in requests {
        writer.put(request, &mut text)?;
    }
    writer.end(&mut text);
    Ok(String::from_utf8(text).unwrap())
}

/// Every format with a sample and the requests in it, in our own format.
const SAMPLES: &[(&str, &str, &str)] = &[
    (
        "spindles",
        include_str!("own.trace"),
        include_str!("own.trace"),
    ),
    (
        "spindles",
        include_str!("own_gaps.trace"),
        include_str!("own_gaps.trace"),
    ),
    (
        "requests",
        include_str!("requests.csv"),
        include_str!("requests.trace"),
    ),
    (
        "blkparse",
        include_str!("blkparse.txt"),
        include_str!("blkparse.trace"),
    ),
    (
        "fio-iolog-2",
        include_str!("fio_2.log"),
        include_str!("fio_2.trace"),
    ),
    (
        "fio-iolog-3",
        include_str!("fio_3.log"),
        include_str!("fio_3.trace"),
    ),
    ("msr", include_str!("msr.csv"), include_str!("msr.trace")),
    (
        "disksim",
        include_str!("disksim.txt"),
        include_str!("disksim.trace"),
    ),
];

#[test]
fn every_format_has_a_sample_and_reads_it() {
    for format in FORMATS {
        assert!(
            SAMPLES.iter().any(|(name, ..)| *name == format.name),
            "{}",
            format.name
        );
    }
    for (name, sample, own) in SAMPLES {
        let requests = read(sample).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(write("spindles", &requests).unwrap(), *own, "{name}");
        // The beginning shows the format.
        let mut reader = TraceReader::new(None);
        reader.feed(sample.as_bytes(), &mut |_| {}).unwrap();
        assert_eq!(reader.format().unwrap().name, *name);
        // The pieces that the bytes come in make no difference, nor do ends of Windows.
        let format = named(name);
        for piece in [1, 2, 7, 64] {
            assert_eq!(read_in(format, sample.as_bytes(), piece).unwrap(), requests);
        }
        let windows = sample.replace('\n', "\r\n");
        assert_eq!(read(&windows).unwrap(), requests, "{name}");
    }
}

/// Written traces are read as the same requests.
#[test]
fn written_traces_are_read_back() {
    for (_, sample, _) in SAMPLES {
        let requests = read(sample).unwrap();
        let own = write("spindles", &requests).unwrap();
        assert_eq!(read(&own).unwrap(), requests);
    }
    let requests = read(include_str!("requests.csv")).unwrap();
    let again = write("requests", &requests).unwrap();
    assert_eq!(read(&again).unwrap(), requests);
    // The gap after the last request is the only thing that is lost.
    let (head, last) = include_str!("requests.csv")
        .trim_end()
        .rsplit_once(',')
        .unwrap();
    assert_eq!(again, format!("{head},0\n"));
    assert_ne!(last, "0");
}

#[test]
fn requests_that_a_format_lacks_are_not_written() {
    let gap = |operation, bytes, response_ns| TraceRequest {
        when: When::After(0),
        operation,
        offset_bytes: 0,
        bytes,
        client: 0,
        response_ns,
    };
    let read = TraceOperation::Read;
    for (request, why) in [
        (gap(read, 512, None), Unwritable::NoResponse),
        (gap(read, 100, Some(1)), Unwritable::Sectors),
        (
            gap(TraceOperation::Flush, 0, Some(1)),
            Unwritable::Operation("flush"),
        ),
        (
            TraceRequest {
                when: When::At(0),
                ..gap(read, 512, Some(1))
            },
            Unwritable::Times,
        ),
    ] {
        let error = write("requests", &[gap(read, 512, Some(1)), request]).unwrap_err();
        assert_eq!(error, WriteError { request: 2, why });
        assert!(error.to_string().starts_with("request 2 "));
    }
    for format in FORMATS {
        assert_eq!(TraceWriter::new(format).is_some(), format.is_written());
    }
}

/// A text, and the error that it gives.
const WRONG: &[(&str, &str)] = &[
    ("", "line 1: the trace ends without a request"),
    ("\n\n", "line 2: the trace ends without a request"),
    ("hello\n", "line 1: no known format begins like this"),
    (
        "\u{1f}\u{8b}\u{8}\n",
        "line 1: no known format begins like this",
    ),
    (
        "# spindles trace 1",
        "line 1: the trace was cut off in this line",
    ),
    (
        "# spindles trace 1\n",
        "line 1: the trace ends without a request",
    ),
    (
        "# spindles trace 2\n",
        "line 1: the trace begins with '# spindles trace 2': known is # sp",
    ),
    (
        "# spindles trace 1\ntime,operation\n",
        "line 2: the column time does not belong there",
    ),
    (
        "# spindles trace 1\ntime_ns,operation,offset,bytes,depth,response_ns\n",
        "line 2: the column depth does not belong there: a header is time_ns,operation,offset,",
    ),
    (
        "# spindles trace 1\ntime_ns,operation,offset,bytes,client\n",
        "line 2: the column nothing does not belong there",
    ),
    (
        "# spindles trace 1\ngap_ns,operation,offset,bytes,client,response_ns,more\n",
        "line 2: the column more does not belong there",
    ),
    (
        "@0,read,0,512,0",
        "line 3: the trace was cut off in this line: record it again, or remove",
    ),
    (
        "@0,read,0,512\n",
        "line 3: 4 fields, and a line has these: time_ns,operation",
    ),
    (
        "@0,read,0,512,0,,\n",
        "line 3: 7 fields, and a line has these",
    ),
    (
        "@0,copy,0,512,0,\n",
        "line 3: the operation is copy: one of read, write, flush, trim, zero",
    ),
    (
        "@0,,0,512,0,\n",
        "line 3: the operation is nothing: one of read",
    ),
    (
        "@-5,read,0,512,0,\n",
        "line 3: time_ns is -5: a number from 0 on is possible",
    ),
    (
        "@0,read,-4096,512,0,\n",
        "line 3: offset is -4096: a number from 0 on",
    ),
    (
        "@0,read,0,-1,0,\n",
        "line 3: bytes is -1: a number from 0 on",
    ),
    (
        "@0,read,0,512,0,-1\n",
        "line 3: response_ns is -1: a number from 0 on",
    ),
    (
        "@18446744073709551616,read,0,1,0,\n",
        "line 3: time_ns is 18446744073709551616: bytes and",
    ),
    (
        "@0,read,0,512,4294967296,\n",
        "line 3: client is 4294967296: bytes and nanoseconds",
    ),
    (
        "@1.5,read,0,512,0,\n",
        "line 3: time_ns is 1.5: give a number",
    ),
    (
        "@,read,0,512,0,\n",
        "line 3: time_ns is nothing: give a number",
    ),
    ("@0,read,4k,512,0,\n", "line 3: offset is 4k: give a number"),
    (
        "@0,read,18446744073709551615,1,0,\n",
        "line 3: 1 bytes at 18446744073709551615 end beyond",
    ),
    (
        "@0,read,0,0,0,\n",
        "line 3: a read of 0 bytes: give at least 1",
    ),
    (
        "@0,flush,0,8,0,\n",
        "line 3: a flush has no place: give 0 bytes, not 8",
    ),
    (
        "@9,read,0,512,0,\n4,read,0,512,0,\n",
        "line 4: it was sent 5 ns before the request of an earlier line: sort the trace by time",
    ),
    (
        "operation,first_sector\n",
        "line 1: the column nothing does not belong there",
    ),
    (
        "operation,first_sector,sectors,response_ms,gap_us\n",
        "line 1: the column response_ms does not belong there",
    ),
    (
        "%T,0,1,1,1\n",
        "line 2: the operation is T: one of R, W is possible",
    ),
    ("%R,0,1,1\n", "line 2: 4 fields"),
    (
        "%R,0,1,-1.5,1\n",
        "line 2: response_us is -1.5: a number from 0 on",
    ),
    (
        "%R,36028797018963968,1,1,1\n",
        "line 2: first_sector is 36028797018963968: bytes and",
    ),
    (
        "%R,0,1,1.2.3,1\n",
        "line 2: response_us is 1.2.3: give a number",
    ),
    (
        "fio version 1 iolog\n",
        "line 1: the trace begins with 'fio version 1 iolog': known is 'fio",
    ),
    (
        "fio version 2 iolog of mine\n",
        "line 1: the trace begins with 'fio version 2 iolog of",
    ),
    (
        "fio version 2 iolog\na fly 0 1\n",
        "line 2: the operation is fly: one of read, write, trim",
    ),
    (
        "fio version 2 iolog\na read 0\n",
        "line 2: 3 fields, and a line has these: file, action",
    ),
    ("fio version 2 iolog\na read 0 1 2\n", "line 2: 5 fields"),
    ("fio version 2 iolog\na\n", "line 2: 1 fields"),
    ("fio version 2 iolog\na add 1\n", "line 2: 3 fields"),
    (
        "fio version 2 iolog\na read 0 4x\n",
        "line 2: the length is 4x: give a number",
    ),
    (
        "fio version 2 iolog\na wait 18446744073709551615 0\n",
        "line 2: the wait is a wait 184467",
    ),
    (
        "fio version 3 iolog\n5 a wait 9\n",
        "line 2: the operation is wait: one of read, write,",
    ),
    (
        "fio version 3 iolog\na read 0 4\n",
        "line 2: the time is a: give a number",
    ),
    (
        "fio version 3 iolog\n5 a read 0 4\n4 a read 0 4\n",
        "line 3: it was sent 1000 ns before",
    ),
    (
        "Timestamp,Hostname,DiskNumber,Type\n",
        "line 1: the column Timestamp,Hostname,DiskNumber",
    ),
    (
        "5,h,0,Read,0,512,1\n5,h,0,Erase,0,512,1\n",
        "line 2: the operation is Erase: one of Read,",
    ),
    (
        "5,h,0,Read,0,512,1\n4,h,0,Read,0,512,1\n",
        "line 2: it was sent 100 ns before",
    ),
    ("5,h,0,Read,0,512,1\n5,h,0,Read,0,512\n", "line 2: 6 fields"),
    (
        "5,h,0,Read,0,512,18446744073709551615\n",
        "line 1: ResponseTime is 18446744073709551615: ",
    ),
    (
        "0.5 0 8 8 1\n0.4 0 8 8 1\n",
        "line 2: it was sent 100000 ns before",
    ),
    ("0.5 0 8 8 1\n0.6 0 8 8\n", "line 2: 4 fields"),
    (
        "0.5 0 8 8 1\n0.6 0 8 8 x\n",
        "line 2: the operation is x: one of 0 (write), 1 (read)",
    ),
    (
        "0.5 0 8 8 1\n0.6 0 -8 8 1\n",
        "line 2: the block is -8: a number from 0 on",
    ),
    (
        "0.5 0 8 0 1\n",
        "line 1: a read of 0 bytes: give at least 1",
    ),
    (
        "8,0 1 1 0.5 9 Q R 8 + 8 [x]\n8,0 1 2 0.4 9 Q R 8 + 8 [x]\n",
        "line 2: it was sent 1000",
    ),
    (
        "8,0 1 1 0.5 9 Q R 8 + 8 [x]\n8,16 1 2 0.6 9 Q R 8 + 8 [x]\n",
        "line 2: the request is for",
    ),
    (
        "8,0 1 1 0.5 9 Q R 8 + 8 [x]\n8,0 1 2 0.6 9 K R 8 + 8\n",
        "line 2: the operation is K: one",
    ),
    (
        "8,0 1 1 0.5 9 Q R 8 + 8 [x]\n8,0 1 2 0.6 9 Q Y 8 + 8\n",
        "line 2: the operation is Y: one",
    ),
    (
        "8,0 1 1 0.5 9 Q R 8 + 8 [x]\n8,0 1 2\n",
        "line 2: 3 fields, and a line has these: device",
    ),
    (
        "8,0 1 1 0.5 9 G R 8 + 8 [x]\n",
        "line 1: the trace ends without a request",
    ),
    (
        "8,0 1 1 0.5 9 Q R 8 + 8 [x]\n8,0 1 2 0.6 9 Q",
        "line 2: the trace was cut off",
    ),
];

#[test]
fn wrong_traces_are_refused_with_their_line() {
    let own = "# spindles trace 1\ntime_ns,operation,offset,bytes,client,response_ns\n";
    let csv = "operation,first_sector,sectors,response_us,gap_us\n";
    for (text, message) in WRONG {
        let text = match (text.strip_prefix('@'), text.strip_prefix('%')) {
            (Some(lines), _) => format!("{own}{lines}"),
            (_, Some(lines)) => format!("{csv}{lines}"),
            _ => (*text).to_string(),
        };
        let error = read(&text).expect_err(&text).to_string();
        assert!(error.starts_with(message), "{text}\n{error}\n{message}");
        // The pieces make no difference.
        let again = read_in(None, text.as_bytes(), 3).unwrap_err().to_string();
        assert_eq!(again, error);
    }
}

#[test]
fn a_line_without_end_does_not_fill_the_memory() {
    let mut reader = TraceReader::new(None);
    let fed = reader.feed(&[b'x'; 5000], &mut |_| {});
    let error = fed.unwrap_err();
    assert_eq!((error.line, &error.problem), (1, &Problem::TooLong));
    let long = format!("{}\n", "x".repeat(5000));
    assert_eq!(read(&long).unwrap_err().problem, Problem::TooLong);
}

/// blkparse: requests without an answer are passed on after a bounded number of others.
#[test]
fn unanswered_requests_wait_within_bounds() {
    let mut text = String::from("8,0 0 1 0.0 1 Q R 1000000 + 8 [x]\n");
    for number in 1..3000 {
        let sector = number * 8;
        for event in ["Q", "C"] {
            writeln!(text, "8,0 0 1 0.{number:09} 1 {event} W {sector} + 8 [x]").unwrap();
        }
    }
    let mut reader = TraceReader::new(None);
    let mut requests: Vec<TraceRequest> = vec![];
    reader
        .feed(text.as_bytes(), &mut |request| requests.push(request))
        .unwrap();
    assert_eq!(requests.len(), 3000, "the first was given up");
    assert_eq!(requests[0].response_ns, None);
    assert!(
        requests[1..]
            .iter()
            .all(|request| request.response_ns == Some(0))
    );
    reader.end(&mut |_| panic!("none is left")).unwrap();
}

#[test]
fn facts_are_those_of_all_requests() {
    let mut facts = TraceFacts::default();
    for request in read(include_str!("own.trace")).unwrap() {
        facts.add(&request);
    }
    let expected = TraceFacts {
        requests: 6,
        changes: 3,
        responses: 4,
        end_bytes: 1_048_576 + 65_536,
        largest_bytes: 65_536,
        has_gaps: false,
    };
    assert_eq!(facts, expected);
}
