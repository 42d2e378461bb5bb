//! Fields that every module of their crate can write.

use super::{Figure, Finding, Measure, Sources};
use syn::{Fields, Item, Visibility};

pub(super) static MEASURE: Measure = Measure {
    name: "open_fields",
    about: "pub(crate) fields",
    figure: Figure::Sum,
    is_kept: true,
    find,
};

fn find(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &sources.parsed {
        for item in &source.items {
            let Item::Struct(structure) = item else {
                continue;
            };
            let fields = match &structure.fields {
                Fields::Named(fields) => &fields.named,
                Fields::Unnamed(fields) => &fields.unnamed,
                Fields::Unit => continue,
            };
            for field in fields {
                if let Visibility::Restricted(visibility) = &field.vis
                    && visibility.path.is_ident("crate")
                {
                    let line = visibility.pub_token.span.start().line;
                    let what = format!("a field of {}", structure.ident);
                    findings.push(Finding::new(source.file, line, what));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::figure;

    #[test]
    fn only_fields_of_the_crate_count() {
        let text = "struct A { pub(crate) a: u8, pub b: u8, c: u8, pub(super) d: u8 }\n\
                    struct B(pub(crate) u8);";
        let files = [("crates/spindles-admin/src/a.rs", text)];
        assert_eq!(figure(&MEASURE, &files), 2);
    }
}
