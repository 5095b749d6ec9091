//! Which requests of a host a rule is for: paths. Called by `http_route`.
//! Must never take a condition that is not compared: headers, methods and queries are not.

use yaml::{Fault, Fields, Node, quote};

/// A path, or how one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMatch {
    /// Begins with `/`; without one at the end, unless it is all or exact.
    pub path: String,
    /// It is the whole path; otherwise its beginning, in whole segments.
    pub exact: bool,
}

impl PathMatch {
    /// Every path.
    #[must_use]
    pub fn all() -> Self {
        Self {
            path: "/".to_owned(),
            exact: false,
        }
    }
}

pub(super) fn read(node: &Node) -> Result<PathMatch, Fault> {
    let what = "a match (headers, methods and queries are not compared)";
    let fields = Fields::open(node, what, &["path"])?;
    let path = Fields::open(fields.required("path")?, "a path", &["type", "value"])?;
    let exact = path.map("type", |node| match node.text()? {
        "PathPrefix" => Ok(false),
        "Exact" => Ok(true),
        word => {
            let hint = "write `type: PathPrefix`, which fits whole segments, `/a` not `/ab`, or \
                        `type: Exact`";
            Err(node.fault(format!("paths cannot be matched by {}", quote(word)), hint))
        }
    })?;
    let exact = exact.unwrap_or(false);
    let value = path.map("value", plain)?;
    let value = value.unwrap_or_else(|| "/".to_owned());
    let trimmed = value.trim_end_matches('/');
    Ok(PathMatch {
        path: match (exact, trimmed) {
            (true, _) => value,
            (false, "") => "/".to_owned(),
            (false, trimmed) => trimmed.to_owned(),
        },
        exact,
    })
}

/// A path as requests have them.
pub(super) fn plain(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    let plain = |b: u8| b.is_ascii_graphic() && !b"?#\\".contains(&b);
    if !word.starts_with('/') || !word.bytes().all(plain) || word.contains("//") {
        let hint = "begin with one /, without ? and #; spaces and others as %20";
        return Err(node.fault(format!("{} is not a path", quote(word)), hint));
    }
    Ok(word.to_owned())
}
