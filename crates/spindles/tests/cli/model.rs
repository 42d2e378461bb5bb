//! Modelled disks, from the command line.

use crate::world::World;

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
