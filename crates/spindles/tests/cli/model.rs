//! Modelled disks, and devices at their pace, from the command line.

use crate::world::{MIB, World};
use std::fs;
use std::time::{Duration, Instant};

/// A disk that takes 20 ms for a read or a write.
const SLOW: &str = r#"
name = "slow"
kind = "fixed"
sectors = { value = 131072, how = "assumed", source = "the test" }
read_rate_mb_s = { value = 1000, how = "assumed", source = "the test" }
read_latency_ms = { value = 20, how = "assumed", source = "the test" }
write_latency_ms = { value = 20, how = "assumed", source = "the test" }
"#;

#[test]
fn every_preset_is_listed_and_shown() {
    let world = World::new("", 0);
    let list = world.json("model list");
    let models = list["models"].as_array().expect("a list");
    assert!(models.len() >= 17);
    for model in models {
        let name = model["name"].as_str().expect("a name");
        world.does("model list").prints([name]);
        let shown = world.json(&format!("model show {name}"));
        for number in shown["numbers"].as_array().expect("a list") {
            let part = |key: &str| number[key].as_f64().expect("a number");
            assert!(part("low") <= part("value") && part("value") <= part("high"));
            assert_ne!(number["source"], "", "{name}");
        }
    }
    world.does("model show exos-x18-18tb").prints([
        "rate_outer_mb_s",
        "260 to 275",
        "track_skew_ms",
        "inferred",
    ]);
}

/// The page has the portrait and every number with its bounds. Another program's file stays.
#[test]
fn a_page_shows_the_portrait_of_a_model() {
    let world = World::new("", 0);
    world
        .does("model show exos-x18-18tb --html @exos.html")
        .prints("Page: ");
    let page = world.text("exos.html");
    for part in [
        "Seek curve",
        "Rate by place",
        "seek_average_read_ms",
        ">7.4<",
        "Ultrastar HC310",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("Responses"), "nothing was measured");
    world.ok("model show pci-32-33 --html @exos.html");
    assert!(
        !world.text("exos.html").contains("Seek curve"),
        "a link has no portrait"
    );
    world.put("notes.html", "mine");
    world.refuses(
        "model show exos-x18-18tb --html @notes.html",
        1,
        &["move it away"],
    );
    assert_eq!(world.text("notes.html"), "mine");
}

/// With measured requests the page shows both distributions.
#[test]
fn a_page_shows_measured_and_modelled_responses() {
    let drive = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/predict/drives/dec-rz26"
    );
    if !std::path::Path::new(drive).exists() {
        return println!("SKIPPED: {drive} is not here");
    }
    let world = World::new("", 0);
    world.ok(&format!("model show {drive} --html @drive.html"));
    let page = world.text("drive.html");
    for part in ["Responses", "demerit", "measured", "modelled"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn wrong_models_are_refused_with_their_place() {
    let world = World::new("", 0);
    world.refuses("model show exos-x18", 2, &["Did you mean 'exos-x18-18tb'"]);
    world.put(
        "mine.toml",
        "name = \"mine\"\nkind = \"fixed\"\nsectors = 100\n",
    );
    world.refuses(
        "model show mine.toml",
        2,
        &["mine.toml: sectors", "no source"],
    );
    let number = "{ value = 100, how = \"assumed\", source = \"me\" }";
    let text = format!(
        "name = \"mine\"\nkind = \"fixed\"\nsectors = {number}\nread_rate_mb_s = {number}\n"
    );
    world.put("mine.toml", &text);
    world
        .does("model show mine.toml")
        .prints(["mine: fixed", "assumed"]);
}

/// An array on paced members is slow, and an ordinary one on the same files without the pace.
#[test]
fn an_array_on_paced_members_is_as_slow_as_their_model() {
    let world = World::new("a b c d", 64 * MIB);
    world.put("slow.toml", SLOW);
    world.put("in", [7; 16384]);
    let paced = |file: &str| format!("paced:{}:{}", world.full("slow.toml"), world.full(file));
    let [a, b, c, d] = ["a", "b", "c", "d"].map(paced);
    let array = format!("raid5({a},{b},{c})");
    (world.run_words(&["create", "pool", &array]).ok()).prints("array 'pool' created");
    let began = Instant::now();
    let copied = world.run_words(&["copy", "in", &format!("array:{a},{b},{c}")]);
    copied.ok();
    assert!(
        began.elapsed() >= Duration::from_millis(40),
        "open and write"
    );
    let began = Instant::now();
    (world.run_words(&["rebuild", "--onto", &d, &a, &c]).ok()).prints("member 1 is active again");
    assert!(
        began.elapsed() >= Duration::from_millis(40),
        "read and write"
    );
    world.does("status a c d").prints("healthy");
    world.does("copy array:a,c,d out");
    assert_eq!(
        fs::read(world.full("out")).expect("copied")[..16384],
        [7; 16384]
    );
}

#[test]
fn impossible_paces_are_refused_with_a_remedy() {
    let world = World::new("a", 64 * MIB);
    world.put("slow.toml", SLOW.replace("131072", "2048"));
    let refused = |device: &str, texts: &[&str]| {
        let run = world.run_words(&["create", "pool", &format!("raid0({device},mem:64M)")]);
        run.fails(1, texts);
    };
    let slow = world.full("slow.toml");
    refused("paced:exos-x18:a", &["Did you mean 'exos-x18-18tb'"]);
    refused("paced::a", &["give the name of a model"]);
    refused("paced:sata-600:a", &["is a link"]);
    refused(
        "paced:exos-x18-18tb:mem:64M",
        &["neither a file nor a device"],
    );
    refused("paced:exos-x18-18tb:absent", &["absent"]);
    let part = format!("paced:{slow}:slice(a,0,1048576)");
    refused(&format!("paced:{slow}:a"), &["the model 1048576", &part]);
    let part = "give the part a pace: paced:exos-x18-18tb:slice(a,64s)";
    refused("slice(paced:exos-x18-18tb:a,64s)", &[part]);
    assert_eq!(world.read("a"), vec![0; 64 << 20]);
}
