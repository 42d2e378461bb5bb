//! Functions that do not fit a screen.

use super::{Figure, Finding, Measure, Sources};
use crate::repo::File;
use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, ItemMod, Signature};

pub(super) static MEASURE: Measure = Measure {
    name: "long_functions",
    about: "functions over 70 lines",
    figure: Figure::Sum,
    is_kept: true,
    find,
};

const LINES_MAX: usize = 70;

fn find(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &sources.parsed {
        let mut functions = Functions {
            file: source.file,
            findings: &mut findings,
        };
        for item in &source.items {
            functions.visit_item(item);
        }
    }
    findings
}

struct Functions<'a> {
    file: &'a File,
    findings: &'a mut Vec<Finding>,
}

impl Functions<'_> {
    fn look(&mut self, signature: &Signature, block: &Block) {
        let start = signature.fn_token.span.start().line;
        let span: Span = block.brace_token.span.close();
        let lines = span.end().line + 1 - start;
        if lines > LINES_MAX {
            let what = format!("{} has {lines} lines", signature.ident);
            self.findings.push(Finding::new(self.file, start, what));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !super::is_test(&syn::Item::Mod(module.clone())) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.look(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.look(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::figure;

    #[test]
    fn functions_and_methods_are_found_and_tests_are_not() {
        let of = |lines: usize| {
            let body = "    g();\n".repeat(lines - 2);
            let function = format!("fn f() {{\n{body}}}\n");
            let text = format!(
                "{function}impl A {{\n{function}}}\n#[cfg(test)]\nmod tests {{\n{function}}}\n"
            );
            figure(&MEASURE, &[("crates/spindles-admin/src/a.rs", &text)])
        };
        assert_eq!((of(70), of(71)), (0, 2));
    }
}
