//! Checks JSON against a schema. The tests of the program use it too.

use serde_json::Value;
use std::collections::BTreeSet;

/// Supports the part of JSON Schema that our files use. Unlisted properties are errors here,
/// although readers accept those of later versions.
pub(crate) struct Checker<'a> {
    schema: &'a Value,
    /// Pointers to the properties that values contained.
    pub met: BTreeSet<String>,
    pub errors: Vec<String>,
}

impl<'a> Checker<'a> {
    /// Starts without errors.
    pub(crate) fn new(schema: &'a Value) -> Self {
        Self {
            schema,
            met: BTreeSet::new(),
            errors: Vec::new(),
        }
    }

    /// Checks a value, called `path` in errors, against the part of the schema at `at`.
    pub(crate) fn check(&mut self, at: &str, value: &Value, path: &str) {
        let schema = self.schema.pointer(at).expect("pointers are ours").clone();
        if schema == Value::Bool(true) {
            return;
        }
        let object = schema.as_object().expect("a schema is an object");
        for (keyword, wanted) in object {
            let fits = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" | "format" => true,
                "type" => is_of(value, wanted),
                "const" => value == wanted,
                "enum" => wanted.as_array().is_some_and(|all| all.contains(value)),
                "minimum" => value.as_f64() >= wanted.as_f64() || !value.is_number(),
                "maximum" => value.as_f64() <= wanted.as_f64() || !value.is_number(),
                "minItems" => {
                    let items = value.as_array().map(Vec::len);
                    items.and_then(|items| u64::try_from(items).ok()) >= wanted.as_u64()
                }
                "maxItems" => {
                    let items = value.as_array().map(Vec::len);
                    items.and_then(|items| u64::try_from(items).ok()) <= wanted.as_u64()
                }
                "required" => {
                    let mut names = wanted.as_array().into_iter().flatten();
                    names.all(|name| name.as_str().is_some_and(|name| value.get(name).is_some()))
                }
                "$ref" => {
                    self.check(&target(wanted), value, path);
                    true
                }
                "anyOf" | "oneOf" => self.check_one(&format!("{at}/{keyword}"), value, path),
                "properties" => {
                    self.check_properties(at, wanted, value, path);
                    true
                }
                "additionalProperties" => {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        self.check(&format!("{at}/{keyword}"), value, &format!("{path}.{name}"));
                    }
                    true
                }
                "prefixItems" | "items" => self.check_items(at, keyword, value, path),
                other => panic!("{at}: the keyword {other} is not known to this test"),
            };
            if !fits {
                self.errors
                    .push(format!("{path}: {value} is not {keyword} {wanted}"));
            }
        }
        if object.contains_key("properties") || object.contains_key("$ref") {
            self.check_strangers(at, value, path);
        }
    }

    /// Checks that exactly one of several schemas fits. Only its properties count as met.
    fn check_one(&mut self, at: &str, value: &Value, path: &str) -> bool {
        let count = self
            .schema
            .pointer(at)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let mut fitting = Vec::new();
        let mut errors = Vec::new();
        for index in 0..count {
            let mut trial = Checker::new(self.schema);
            trial.check(&format!("{at}/{index}"), value, path);
            if trial.errors.is_empty() {
                fitting.push(trial.met);
            } else {
                errors.extend(trial.errors);
            }
        }
        let fits_once = fitting.len() == 1;
        if !fits_once {
            self.errors.extend(errors);
        }
        self.met.extend(fitting.into_iter().flatten());
        fits_once
    }

    fn check_properties(&mut self, at: &str, wanted: &Value, value: &Value, path: &str) {
        for name in wanted
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            if let Some(value) = value.get(name) {
                let property = format!("{at}/properties/{name}");
                self.check(&property, value, &format!("{path}.{name}"));
                self.met.insert(property);
            }
        }
    }

    fn check_items(&mut self, at: &str, keyword: &str, value: &Value, path: &str) -> bool {
        let Some(values) = value.as_array() else {
            return true; // The type is another keyword.
        };
        let prefix = self.schema.pointer(&format!("{at}/prefixItems"));
        let fixed = prefix.and_then(Value::as_array).map_or(0, Vec::len);
        if keyword == "prefixItems" {
            for (index, value) in values.iter().enumerate().take(fixed) {
                self.check(&format!("{at}/prefixItems/{index}"), value, path);
            }
            return true;
        }
        if self.schema.pointer(&format!("{at}/items")) == Some(&Value::Bool(false)) {
            return values.len() <= fixed;
        }
        for value in &values[fixed.min(values.len())..] {
            self.check(&format!("{at}/items"), value, &format!("{path}[]"));
        }
        true
    }

    /// Reports properties of a value that no list contains.
    fn check_strangers(&mut self, at: &str, value: &Value, path: &str) {
        let mut known = BTreeSet::new();
        if !self.add_known(at, value, &mut known) {
            return;
        }
        // Every line has these two.
        if path == "line" {
            known.extend(["schema", "record"].map(str::to_owned));
        }
        for name in value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            if !known.contains(name) {
                self.errors
                    .push(format!("{path}.{name} is not in the schema"));
            }
        }
    }

    /// Adds the properties that a schema lists. Returns false if it allows any name.
    fn add_known(&self, at: &str, value: &Value, known: &mut BTreeSet<String>) -> bool {
        let Some(object) = self.schema.pointer(at).and_then(Value::as_object) else {
            return true;
        };
        // The branches of `anyOf` check their properties themselves, as do those of `oneOf` for
        // values that are not records.
        let is_record = value.get("record").is_some();
        if ["additionalProperties", "anyOf"]
            .iter()
            .any(|key| object.contains_key(*key))
            || object.contains_key("oneOf") && !is_record
        {
            return false;
        }
        let listed = object.get("properties").and_then(Value::as_object);
        known.extend(listed.into_iter().flatten().map(|(name, _)| name.clone()));
        if let Some(wanted) = object.get("$ref") {
            return self.add_known(&target(wanted), value, known);
        }
        // The kind of the record selects the branch of a line.
        let branches = object.get("oneOf").and_then(Value::as_array);
        let mine = branches
            .into_iter()
            .flatten()
            .enumerate()
            .find(|(_, branch)| branch.pointer("/properties/record/const") == value.get("record"));
        mine.is_none_or(|(index, _)| self.add_known(&format!("{at}/oneOf/{index}"), value, known))
    }
}

/// Converts a reference such as `#/$defs/run` to a pointer.
fn target(reference: &Value) -> String {
    let reference = reference.as_str().unwrap_or_default();
    reference.trim_start_matches('#').to_owned()
}

fn is_of(value: &Value, wanted: &Value) -> bool {
    match wanted.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        _ => (wanted.as_array().into_iter().flatten()).any(|wanted| is_of(value, wanted)),
    }
}
