//! A page in the style of the report: one file without network requests, or the same from a server
//! that adds to it.

pub use crate::figures::date;
pub use crate::svg::escape;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// A stack of discs.
const LOGO: &str = "<svg class=\"logo\" viewBox=\"0 0 24 24\" aria-hidden=\"true\">\
    <ellipse cx=\"12\" cy=\"6\" rx=\"9\" ry=\"3\"/><path d=\"M3 6v6c0 1.7 4 3 9 3s9-1.3 9-3V6\"/>\
    <path d=\"M3 12v6c0 1.7 4 3 9 3s9-1.3 9-3v-6\"/></svg>";

/// A page from a file may only use its own style and script.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
    style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";

/// Text at the end of every page, by which pages are recognised.
const MARK: &str = "Drawn by Spindles from records alone.";

/// Returns true if a file is a page of a report.
pub fn is_page(contents: &[u8]) -> bool {
    contents
        .windows(MARK.len())
        .any(|window| window == MARK.as_bytes())
}

/// The parts of a page. All but the title are HTML.
#[derive(Clone, Debug)]
pub struct Page {
    /// Title, as plain text.
    pub title: String,
    /// List items of the table of contents; empty for a page without contents.
    pub contents: String,
    /// Contents of the page.
    pub body: String,
    /// Additions of the server. `None` if the page is a file.
    pub served: Option<Served>,
}

/// Additions of a server to a page.
#[derive(Clone, Debug)]
pub struct Served {
    /// Nonce of the page's own scripts and styles, which admits only these: a random word without
    /// quotes. The server names it in the Content-Security-Policy.
    pub nonce: String,
    /// Address of the page that links to all others.
    pub home: String,
    /// Additional style.
    pub style: &'static str,
    /// Script of the page, instead of the one for files.
    pub script: &'static str,
    /// HTML above everything else.
    pub above: String,
}

impl Page {
    /// Assembles the whole page.
    pub fn html(&self) -> String {
        let contents = match &*self.contents {
            "" => String::new(),
            items => format!("<nav aria-label=\"Contents\"><ul>{items}</ul></nav>"),
        };
        let served = self.served.as_ref();
        let policy = served.map_or(POLICY, |_| "");
        let nonce = served.map_or(String::new(), |served| {
            format!(" nonce=\"{}\"", served.nonce)
        });
        let style = served.map_or("", |served| served.style);
        let script = served.map_or(SCRIPT, |served| served.script);
        let above = served.map_or("", |served| &served.above);
        let brand = format!("{LOGO}<b>Spindles</b> <span>lab report</span>");
        let brand = served.map_or(brand.clone(), |served| {
            format!("<a href=\"{}\">{brand}</a>", escape(&served.home))
        });
        let promise = served.map_or(
            "This page uses no network.",
            |_| "This server only reads them.",
        );
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n{policy}\
             <title>{}</title>\n<style{nonce}>\n{STYLE}{style}</style>\n</head>\n<body>\n\
             <header><p class=\"brand\">{brand}</p>{contents}</header>\n\
             <main>\n{above}{}</main>\n\
             <footer><p>{MARK} {promise}</p></footer>\n\
             <script{nonce}>\n{script}</script>\n</body>\n</html>\n",
            escape(&self.title),
            self.body,
        )
    }
}
