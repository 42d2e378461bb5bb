//! Files of one type that call each other in a circle through `self`, where imports show none.

use super::{Figure, Finding, Measure, Source, Sources};
use crate::rules::{Imports, circles};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Expr, ExprMethodCall, ExprPath, ImplItem, ImplItemFn, Item, Type};

pub(super) static MEASURE: Measure = Measure {
    name: "self_calls",
    about: "files of one type that call each other through self, in the largest circle",
    figure: Figure::Largest,
    is_kept: true,
    find,
};

fn find(sources: &Sources) -> Vec<Finding> {
    sources
        .crates()
        .into_iter()
        .flat_map(|name| of_crate(sources, name))
        .collect()
}

/// The methods of a crate, not those of traits: type, file, method.
pub(super) fn methods<'a>(
    sources: &'a Sources,
    name: &'a str,
) -> impl Iterator<Item = (String, &'a Source<'a>, &'a ImplItemFn)> {
    let files = (sources.parsed.iter()).filter(move |source| source.file.crate_name() == name);
    files.flat_map(|source| {
        let blocks = source.items.iter().filter_map(|item| match item {
            Item::Impl(block) if block.trait_.is_none() => Some(block),
            _ => None,
        });
        blocks.flat_map(move |block| {
            let methods = block.items.iter().filter_map(|item| match item {
                ImplItem::Fn(method) => Some(method),
                _ => None,
            });
            methods.filter_map(move |method| Some((type_name(&block.self_ty)?, source, method)))
        })
    })
}

fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

fn of_crate(sources: &Sources, name: &str) -> Vec<Finding> {
    let mut defined: BTreeMap<String, BTreeMap<String, &str>> = BTreeMap::new();
    for (of, source, method) in methods(sources, name) {
        let known = defined.entry(of).or_default();
        known.insert(method.sig.ident.to_string(), &source.file.path);
    }
    let mut calls: BTreeMap<&String, Imports> = BTreeMap::new();
    for (of, source, method) in methods(sources, name) {
        let (of, known) = defined.get_key_value(&of).expect("it was just put there");
        let mut named = Calls(BTreeSet::new());
        named.visit_impl_item_fn(method);
        let to = named.0.iter().filter_map(|method| known.get(method));
        let to = to.filter(|path| **path != source.file.path);
        let from = calls.entry(of).or_default();
        let from = from.entry(source.file.path.clone()).or_default();
        from.extend(to.map(|path| (*path).to_owned()));
    }
    let mut findings = Vec::new();
    for (of, mut calls) in calls {
        let all: Vec<String> = calls.values().flatten().cloned().collect();
        for path in all {
            calls.entry(path).or_default();
        }
        for circle in circles(&calls) {
            let first = circle.keys().next().expect("a circle has files");
            let source = sources
                .parsed
                .iter()
                .find(|source| source.file.path == *first);
            let file = source.expect("it was read there").file;
            let what = format!("{} files of {of} call each other", circle.len());
            findings.push(Finding::new(file, 1, what).weighing(circle.len()));
        }
    }
    findings
}

/// The methods that are called on `self` and as `Self::method`.
struct Calls(BTreeSet<String>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if let Expr::Path(receiver) = &*call.receiver
            && receiver.path.is_ident("self")
        {
            self.0.insert(call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        let segments = &path.path.segments;
        if segments.len() == 2 && segments[0].ident == "Self" {
            self.0.insert(segments[1].ident.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::figure;

    #[test]
    fn a_circle_through_self_is_found() {
        let low = (
            "crates/spindles-admin/src/a.rs",
            "impl A { fn a(&self) { if x { self.b() } } }",
        );
        let up = "impl A { fn b(&self) {} fn c(&self) { let f = || self.a(); } }";
        let down = "impl A { fn b(&self) {} fn c(&self) { self.b(); other.a(); } }";
        let path = "crates/spindles-admin/src/b.rs";
        assert_eq!(figure(&MEASURE, &[low, (path, up)]), 2);
        assert_eq!(figure(&MEASURE, &[low, (path, down)]), 0);
        let by_path = "impl A { fn b(&self) { Self::a(self) } }";
        assert_eq!(figure(&MEASURE, &[low, (path, by_path)]), 2);
    }
}
