//! `cargo xtask reference`: the pages of the reference that are generated: the help of all
//! commands, and the fields of their JSON.

use super::task::Task;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub(crate) static TASK: Task = Task {
    name: "reference",
    arguments: "",
    about: "writes commands.md and json.md, the generated pages, to target/reference",
    run,
};

/// The names of the pages.
pub(crate) const PAGES: [&str; 2] = ["commands.md", "json.md"];
/// The help of all commands, as the tests keep it.
const HELP: &str = "crates/spindles/tests/help.txt";
/// The schema of all documents, as the tests keep it.
pub(crate) const SCHEMA: &str = "docs/reference/json.schema.json";

fn run(_: &[String]) -> Result<(), String> {
    let folder = Path::new("target/reference");
    write(folder)?;
    println!("{}", folder.display());
    Ok(())
}

/// Writes the pages to a folder.
pub(crate) fn write(folder: &Path) -> Result<(), String> {
    let of = |path: &str, error: &dyn std::fmt::Display| format!("{path}: {error}");
    let read = |path: &str| fs::read_to_string(path).map_err(|error| of(path, &error));
    let schema = serde_json::from_str(&read(SCHEMA)?).map_err(|error| of(SCHEMA, &error))?;
    let texts = [read(HELP)?, json_page(&schema)];
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    for (name, text) in PAGES.iter().zip(texts) {
        fs::write(folder.join(name), text).map_err(|error| of(name, &error))?;
    }
    Ok(())
}

/// Draws the schema as a page: a section for each document, then one for each type.
fn json_page(schema: &Value) -> String {
    let mut page = format!("# JSON\n\n{}\n", text(schema));
    let empty = Map::new();
    let all = schema["$defs"].as_object().unwrap_or(&empty);
    let is_document = |name: &str| name.starts_with("spindles.");
    let documents = all.iter().filter(|(name, _)| is_document(name));
    let types = all.iter().filter(|(name, _)| !is_document(name));
    for (name, schema) in documents.chain(types) {
        write!(page, "\n## {name}\n").expect(STRINGS);
        match schema["anyOf"].as_array() {
            Some(shapes) => shapes.iter().for_each(|shape| add_shape(shape, &mut page)),
            None => add_shape(schema, &mut page),
        }
    }
    page
}

const STRINGS: &str = "strings take everything";

/// Adds a description, and the list of fields or values.
fn add_shape(schema: &Value, page: &mut String) {
    if schema.get("$ref").is_some() {
        return write!(page, "\n{}\n", kind(schema)).expect(STRINGS);
    }
    write!(page, "\n{}\n\n", text(schema)).expect(STRINGS);
    for value in schema["oneOf"].as_array().into_iter().flatten() {
        let about = described(value);
        writeln!(page, "- {}{about}", kind(value)).expect(STRINGS);
    }
    let required = schema["required"].as_array();
    let fields = schema["properties"].as_object().into_iter().flatten();
    // The introduction explains the others.
    let is_own = |name: &str| !["schema", "version", "not_given"].contains(&name);
    for (name, field) in fields.filter(|(name, _)| is_own(name)) {
        let is_required = required.is_some_and(|all| all.iter().any(|other| other == name));
        let may_lack = if is_required { "" } else { ", not always" };
        let (kind, about) = (kind(field), described(field));
        writeln!(page, "- `{name}` ({kind}{may_lack}){about}").expect(STRINGS);
    }
}

fn text(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.replace('\n', " ")
}

/// Returns `: ` and the description, if there is one.
fn described(schema: &Value) -> String {
    match text(schema) {
        text if text.is_empty() => text,
        text => format!(": {text}"),
    }
}

/// Names the kind of a value, with links to types.
fn kind(schema: &Value) -> String {
    let all = |values: &Value| {
        let values = values.as_array().into_iter().flatten().map(kind);
        values.collect::<Vec<_>>().join(" or ")
    };
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(value) = schema["const"].as_str() {
        return format!("`{value}`");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().filter_map(Value::as_str);
        let values: Vec<String> = values.map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    for key in ["anyOf", "oneOf"] {
        if schema[key].is_array() {
            return all(&schema[key]);
        }
    }
    if let Some(items) = schema["prefixItems"].as_array() {
        let items: Vec<String> = items.iter().map(kind).collect();
        return format!("list: {}", items.join(", "));
    }
    if let Some(fields) = schema["properties"].as_object() {
        // The name of the variant comes first.
        let (tags, others): (Vec<_>, Vec<_>) =
            (fields.iter()).partition(|(_, field)| field["const"].is_string());
        let tags = tags
            .iter()
            .map(|(name, tag)| format!("`{name}`: {}", kind(tag)));
        let others = others
            .iter()
            .map(|(name, field)| format!("`{name}` {}", kind(field)));
        return tags.chain(others).collect::<Vec<_>>().join(", ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) if name == "object" && schema["additionalProperties"].is_object() => {
            format!("{} by name", kind(&schema["additionalProperties"]))
        }
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join(" or ")
        }
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_becomes_a_page() {
        let schema = serde_json::json!({
            "description": "About.",
            "$defs": {
                "Kind": { "description": "A kind.", "oneOf": [
                    { "enum": ["one", "two"] },
                    { "const": "three", "description": "The\nlast." },
                    { "type": "object", "description": "More.", "properties": {
                        "zone": { "const": "four" },
                        "size": { "oneOf": [{ "const": "max" }, { "type": "integer" }] },
                        "pair": { "type": "array", "prefixItems": [
                            { "type": "string" }, { "type": "number" },
                        ] },
                    } },
                ] },
                "spindles.a": { "anyOf": [{
                    "description": "Done.",
                    "properties": {
                        "bytes": { "type": ["integer", "null"] },
                        "kinds": { "type": "array", "items": { "$ref": "#/$defs/Kind" } },
                        "schema": { "const": "spindles.a" },
                    },
                    "required": ["bytes", "schema"],
                }] },
            },
        });
        let page = "# JSON\n\nAbout.\n\n## spindles.a\n\nDone.\n\n- `bytes` (integer or null)\n\
                    - `kinds` (list of [Kind](#kind), not always)\n\n## Kind\n\nA kind.\n\n\
                    - `one`, `two`\n- `three`: The last.\n\
                    - `zone`: `four`, `pair` list: string, number, \
                    `size` `max` or integer: More.\n";
        assert_eq!(json_page(&schema), page);
    }
}
