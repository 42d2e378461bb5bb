//! `folder:PATH`: a file of our own in a folder, and so whatever file system is mounted there.

use super::{Kind, Needs, Raw};
use crate::scratch::Scratch;
use std::path::Path;

pub(super) static KIND: Kind = Kind {
    name: "folder",
    syntax: "folder:PATH",
    summary: "a file made in that folder, and removed: for comparing mounted file systems",
    exists: false,
    claims: |text| text.starts_with("folder:") || Path::new(text).is_dir(),
    check: |text| match path(text) {
        "" => Err("the folder is missing: write folder:PATH".to_owned()),
        _ => Ok(()),
    },
    needs: |_| Ok(Needs::default()),
    prepare: |text, site| {
        let folder = Path::new(path(text));
        let wrong = |error| format!("{}: can't make a file there: {error}", folder.display());
        let scratch = Scratch::new(folder).map_err(wrong)?;
        let file = scratch.sparse("target", site.size_bytes).map_err(wrong)?;
        Ok(Box::new(Raw {
            name: file.to_string_lossy().into_owned(),
            options: site.open.clone(),
            _scratch: Some(scratch),
        }))
    },
};

fn path(text: &str) -> &str {
    text.strip_prefix("folder:").unwrap_or(text)
}
