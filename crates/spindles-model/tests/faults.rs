//! Wrong input: a fault that names the place and the remedy; never a panic.

use spindles_model::{Draw, DriveTexts, World, parse_drive, parse_preset, parse_requests, preset};

const FIXED: &str = "name = \"x\"\nkind = \"fixed\"\n";

fn preset_fault(lines: &str, says: &[&str]) {
    let fault = parse_preset("x.toml", &format!("{FIXED}{lines}")).unwrap_err();
    let text = fault.to_string();
    assert!(text.starts_with("x.toml"), "{text}");
    for part in says {
        assert!(text.contains(part), "{text}: lacks {part}");
    }
}

#[test]
fn faults_of_presets_name_the_place_and_the_remedy() {
    let number = |rest: &str| format!("sectors = {{ value = 100{rest} }}");
    preset_fault("sectors = 100", &["sectors", "no source", "how ="]);
    preset_fault(&number(""), &["sectors", "no source"]);
    preset_fault(&number(", how = \"sheet\", source = \" \""), &["no source"]);
    let sourced = ", how = \"sheet\", source = \"s\"";
    preset_fault(
        &number(&format!(", low = 101{sourced}")),
        &["low 101, value 100"],
    );
    preset_fault(
        &number(&format!(", high = 99{sourced}")),
        &["low <= value <= high"],
    );
    preset_fault(
        &number(", how = \"guess\", source = \"s\""),
        &["'guess'", "assumed"],
    );
    preset_fault(&number(&format!(", hihg = 1{sourced}")), &["'high'"]);
    preset_fault("sectrs = 1", &["sectrs", "Did you mean 'sectors'"]);
    preset_fault(
        "read_latency_ms = { value = -1, how = \"sheet\", source = \"s\" }",
        &["0 to"],
    );
    preset_fault(
        "sectors = { value = nan, how = \"sheet\", source = \"s\" }",
        &["expected"],
    );
    preset_fault("year = -5", &["year", "such as 1996"]);
    preset_fault("[", &["not valid TOML"]);
    let unknown = parse_preset("x.toml", "name = \"x\"\nkind = \"flsh\"").unwrap_err();
    assert!(
        unknown.to_string().contains("mechanical, fixed"),
        "{unknown}"
    );
    let switch = "name = \"x\"\nkind = \"mechanical\"\n\
        write_back = { value = \"all\", how = \"sheet\", source = \"s\" }";
    let fault = parse_preset("x.toml", switch).unwrap_err().to_string();
    assert!(fault.contains("none, appending, any"), "{fault}");
    let mut parameters = preset("wdc-wd400bb").unwrap();
    let fault = parameters.set("writeback", "any").unwrap_err().to_string();
    assert!(fault.contains("Did you mean 'write_back'"), "{fault}");
}

fn zone(first: u32, last: u32, more: &str) -> String {
    format!(
        "[[mechanics.zone]]\nfirst_cylinder = {first}\nlast_cylinder = {last}\n\
         sectors_per_track = 10\nused_sectors_per_track = 10\nfirst_angle_sectors = 0\n\
         track_skew_sectors = 0.5\ncylinder_skew_sectors = 1{more}\n"
    )
}

fn drive(zones: &str, seek: &str, extents: &str) -> Result<(), String> {
    let drive = format!(
        "name = \"d\"\nsectors = 200\n[mechanics]\nrpm = 6000\nsurfaces = 1\n\
         head_switch_ms = 1\n{zones}[buffer]\nsegments = 2\n[bus]\n[overhead_ms]\n"
    );
    let texts = DriveTexts {
        folder: "d",
        drive: &drive,
        seek,
        extents,
    };
    parse_drive(&texts)
        .map(drop)
        .map_err(|fault| fault.to_string())
}

const SEEK: &str = "cylinders,ms\n1,1\n";
const EXTENTS: &str = "first_sector,sectors,zone,place\n0,100,0,0\n100,100,1,0\n";

#[test]
fn faults_of_drive_folders_name_the_line() {
    let good = zone(0, 9, "") + &zone(10, 19, "");
    assert_eq!(drive(&good, SEEK, EXTENTS), Ok(()));
    let says = |found: Result<(), String>, parts: &[&str]| {
        let text = found.unwrap_err();
        for part in parts {
            assert!(text.contains(part), "{text}: lacks {part}");
        }
    };
    let overlap = zone(0, 9, "") + &zone(9, 19, "");
    says(
        drive(&overlap, SEEK, EXTENTS),
        &["zone]] 1", "cylinder 9", "Start it at 10"],
    );
    says(drive(&zone(5, 4, ""), SEEK, EXTENTS), &["zone]] 0"]);
    says(
        drive(&zone(0, 9, "\nsectors = 1"), SEEK, EXTENTS),
        &["zone]] 0", "sectors"],
    );
    says(drive("", SEEK, EXTENTS), &["zone", "missing"]);
    says(
        drive(&good, "cylinders,ms\n1,-1\n", EXTENTS),
        &["seek.csv: line 2", "-1"],
    );
    says(
        drive(&good, "cylinders,ms\n2,1\n1,2\n", EXTENTS),
        &["seek.csv: line 3"],
    );
    says(
        drive(&good, "cylinders,ms\n", EXTENTS),
        &["seek.csv", "at least one point"],
    );
    says(drive(&good, "1,1\n", EXTENTS), &["the header cylinders,ms"]);
    let head = "first_sector,sectors,zone,place\n";
    for (rows, parts) in [
        ("0,100,0,0\n", &["100 sectors; 200 expected"][..]),
        (
            "0,100,0,0\n90,110,1,0\n",
            &["line 3", "90 sectors; 100 expected"],
        ),
        ("0,100,0,0\n110,100,1,0\n", &["line 3", "110 sectors"]),
        ("0,100,0,0\n100,100,2,0\n", &["line 3", "a zone below 2"]),
        (
            "0,100,0,90\n100,100,1,0\n",
            &["line 2", "cylinders of the zone"],
        ),
        ("0,100,0\n", &["line 2", "4 fields"]),
        ("0,18446744073709551615,0,0\n", &["line 2"]),
        ("0,100,0,18446744073709551615\n", &["line 2"]),
        ("0,-1,0,0\n", &["line 2", "not '-1'"]),
    ] {
        says(drive(&good, SEEK, &format!("{head}{rows}")), parts);
    }
}

#[test]
fn faults_of_requests_name_the_line() {
    let head = "operation,first_sector,sectors,response_us,gap_us\n";
    for (row, part) in [
        ("X,1,1,1,1", "R or W"),
        ("R,1,1,-1,1", "out of range"),
        ("R,a,1,1,1", "not 'a'"),
        ("R,1,1,1", "5 fields"),
        ("R,1,1,nan,1", "out of range"),
    ] {
        let text = format!("{head}R,1,1,1,1\n{row}\n");
        let fault = parse_requests("r.csv", &text).unwrap_err().to_string();
        assert!(
            fault.starts_with("r.csv: line 3") && fault.contains(part),
            "{fault}"
        );
    }
}

#[test]
fn a_million_zones_are_refused() {
    let zones: String = (0..70_000).map(|index| zone(index, index, "")).collect();
    let text = drive(&zones, SEEK, EXTENTS).unwrap_err();
    assert!(text.contains("more than 65536 rows"), "{text}");
}

#[test]
fn faults_of_flash_drives_name_the_place_and_the_remedy() {
    let parse = |key: &str, value: &str| {
        let numbers = [
            ("sectors", "51200"),
            ("channels", "4"),
            ("dies_per_channel", "2"),
            ("map_kib", "4"),
            ("page_kib", "16"),
            ("pages_per_block", "64"),
            ("spare_percent", "10"),
            ("buffer_kib", "1024"),
            ("page_read_ms", "0.05"),
            ("page_program_ms", "0.5"),
            ("block_erase_ms", "3"),
            ("channel_mb_s", "400"),
            ("read_rate_mb_s", "500"),
            ("write_rate_mb_s", "500"),
        ];
        let line = |(name, number): (&str, &str)| {
            let number = if name == key { value } else { number };
            format!("{name} = {{ value = {number}, how = \"assumed\", source = \"s\" }}\n")
        };
        let left = numbers
            .into_iter()
            .filter(|(name, _)| *name != key || value != "none");
        let lines: String = left.map(line).collect();
        let text = format!("name = \"mine\"\nkind = \"flash\"\n{lines}");
        let parameters = parse_preset("mine.toml", &text)?;
        let mut world = World::new();
        world.add_disk(&parameters, &Draw::seeded(1), &[]).map(drop)
    };
    assert_eq!(parse("", ""), Ok(()));
    for (key, value, parts) in [
        ("spare_percent", "0", &["Use 1 to 900"][..]),
        ("pages_per_block", "0", &["Use 1 to 65536"]),
        (
            "pages_per_block",
            "128",
            &["spare_percent", "two blocks", "16.0 percent"],
        ),
        ("page_kib", "2", &["a multiple of map_kib, 4"]),
        ("page_kib", "18", &["a multiple of map_kib, 4"]),
        ("buffer_kib", "8", &["page_kib, 16"]),
        ("sectors", "7", &["map_kib, 4"]),
        ("channels", "65", &["Use 1 to 64"]),
        (
            "channel_mb_s",
            "none",
            &["missing", "value, how and source"],
        ),
    ] {
        let text = parse(key, value).unwrap_err().to_string();
        assert!(text.starts_with("mine"), "{text}");
        for part in parts {
            assert!(text.contains(part), "{key} = {value}: {text}");
        }
    }
}
