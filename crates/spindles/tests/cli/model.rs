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
