//! A page with the look of the report: one file that asks nobody for anything, or the same from a
//! server, which adds to it.

pub use crate::figures::date;
pub use crate::svg::escape;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Three spindles of discs.
const LOGO: &str = "<svg class=\"logo\" viewBox=\"0 0 24 24\" aria-hidden=\"true\">\
    <ellipse cx=\"12\" cy=\"6\" rx=\"9\" ry=\"3\"/><path d=\"M3 6v6c0 1.7 4 3 9 3s9-1.3 9-3V6\"/>\
    <path d=\"M3 12v6c0 1.7 4 3 9 3s9-1.3 9-3v-6\"/></svg>";

/// What a file may do: nothing but its own style and script.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
    style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";

/// What every page says of itself, at its end.
const MARK: &str = "Drawn by Spindles from records alone.";

/// Whether a file is a page of a report.
pub fn is_page(contents: &[u8]) -> bool {
    contents.windows(MARK.len()).any(|it| it == MARK.as_bytes())
}

/// A page, in its parts. All but the title are HTML.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its title, as text.
    pub title: String,
    /// Its table of contents: list items. Empty: none.
    pub contents: String,
    /// What is in it.
    pub body: String,
    /// What the server adds that it comes from. `None`: it is a file by itself.
    pub served: Option<Served>,
}

/// What a server adds to a page.
#[derive(Clone, Debug)]
pub struct Served {
    /// What its own scripts and styles bear, so that no others are let in: a random word without
    /// quotes. The server names it in the Content-Security-Policy.
    pub nonce: String,
    /// Address of the page that leads to all others.
    pub home: String,
    /// More style.
    pub style: &'static str,
    /// The script of the page, in place of that of a file.
    pub script: &'static str,
    /// What stands above everything else.
    pub above: String,
}

impl Page {
    /// The whole page.
    pub fn html(&self) -> String {
        let contents = match &*self.contents {
            "" => String::new(),
            items => format!("<nav aria-label=\"Contents\"><ul>{items}</ul></nav>"),
        };
        let served = self.served.as_ref();
        let policy = served.map_or(POLICY, |_| "");
        let nonce = served.map_or(String::new(), |it| format!(" nonce=\"{}\"", it.nonce));
        let style = served.map_or("", |it| it.style);
        let script = served.map_or(SCRIPT, |it| it.script);
        let above = served.map_or("", |it| &it.above);
        let brand = format!("{LOGO}<b>Spindles</b> <span>lab report</span>");
        let brand = served.map_or(brand.clone(), |it| {
            format!("<a href=\"{}\">{brand}</a>", escape(&it.home))
        });
        let promise = served.map_or(
            "Nothing in this page asks the network for anything.",
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
