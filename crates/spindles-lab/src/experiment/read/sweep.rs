//! Lists in a workload: it runs once for each value, or for each combination of values of several
//! lists.

use super::raw::RawWorkload;
use toml::{Spanned, Value};

/// A key with a list, and its values.
type Axis = (String, Vec<Spanned<Value>>);

/// Expands the workload into one for each combination of the values in its lists, each with its own
/// name.
pub(super) fn expand(raw: &RawWorkload) -> Vec<RawWorkload> {
    let axes = axes(raw);
    let mut all = vec![raw.clone()];
    for (key, values) in axes {
        all = all
            .iter()
            .flat_map(|one| values.iter().map(|value| with(one, &key, value)))
            .collect();
    }
    all
}

fn axes(raw: &RawWorkload) -> Vec<Axis> {
    let keys = [
        ("size", &raw.size),
        ("chunk", &raw.chunk),
        ("in_flight", &raw.in_flight),
        ("operations", &raw.operations),
        ("reads", &raw.reads),
        ("arrivals", &raw.arrivals),
        ("nodes", &raw.nodes),
    ];
    let keys = keys.into_iter();
    let mut axes: Vec<Axis> = keys
        .filter_map(|(key, value)| Some((key.to_owned(), list(value.as_ref()?)?)))
        .collect();
    let parameters = raw.parameters.iter().flat_map(Spanned::get_ref);
    axes.extend(parameters.filter_map(|(key, value)| Some((key.clone(), list(value)?))));
    axes
}

/// Returns the values of a non-empty list.
fn list(value: &Spanned<Value>) -> Option<Vec<Spanned<Value>>> {
    let Value::Array(values) = value.get_ref() else {
        return None;
    };
    let spanned = |one: &Value| Spanned::new(value.span(), one.clone());
    (!values.is_empty()).then(|| values.iter().map(spanned).collect())
}

fn with(raw: &RawWorkload, key: &str, value: &Spanned<Value>) -> RawWorkload {
    let mut one = raw.clone();
    let name = one.name.as_ref().unwrap_or(&one.kind);
    let text = match value.get_ref() {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    one.name = Some(Spanned::new(
        name.span(),
        format!("{} {key} {text}", name.get_ref()),
    ));
    match key {
        "size" if one.size.is_some() => one.size = Some(value.clone()),
        "chunk" if one.chunk.is_some() => one.chunk = Some(value.clone()),
        "in_flight" => one.in_flight = Some(value.clone()),
        "operations" => one.operations = Some(value.clone()),
        "reads" => one.reads = Some(value.clone()),
        "arrivals" => one.arrivals = Some(value.clone()),
        "nodes" if one.nodes.is_some() => one.nodes = Some(value.clone()),
        _ => {
            let parameters = one.parameters.as_mut().expect("its list is among them");
            parameters.get_mut().insert(key.to_owned(), value.clone());
        }
    }
    one
}
