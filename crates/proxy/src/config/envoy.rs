//! The Envoy that serves in the sidecar's place. Read once per file. Must never look whether its
//! program is there.

use std::path::Path;

use model::{Envoy, XdsVariant};
use yaml::{Fault, Fields, Node};

use super::sections;

pub(super) const KEYS: &[&str] = &["program", "folder", "xds", "accessLog", "stats"];

/// What the kernel takes as the path of a unix socket, less the longest name in the folder.
const FOLDER_BYTES_MAX: usize = 107 - "/admin.sock".len();

/// Keys that are about bytes which Envoy moves, or about a process that hands them over.
const ELSEWHERE: [(&str, &str); 3] = [
    ("handover", "remove it: a sidecar with Envoy is replaced"),
    ("accessLog", "write `accessLog: true` in `envoy`"),
    ("opaquePorts", "remove it: the control plane knows them"),
];

pub(super) fn read(fields: &Fields<'_>, origin: &Path) -> Result<Option<Envoy>, Fault> {
    let Some(node) = fields.optional("envoy") else {
        return Ok(None);
    };
    let own = Fields::open(node, "Envoy", KEYS)?;
    let switch = |key| Ok(own.map(key, Node::switch)?.unwrap_or_default());
    let variants = [
        ("delta", XdsVariant::Delta),
        ("stateOfTheWorld", XdsVariant::StateOfTheWorld),
    ];
    let envoy = Envoy {
        program: sections::path(own.required("program")?, origin)?,
        folder: folder(own.required("folder")?, origin)?,
        xds: own
            .map("xds", |node| node.choice(&variants))?
            .unwrap_or_default(),
        access_log: switch("accessLog")?,
        stats: switch("stats")?,
    };
    check_beside(fields, node).map(|()| Some(envoy))
}

fn folder(node: &Node, origin: &Path) -> Result<std::path::PathBuf, Fault> {
    let path = sections::path(node, origin)?;
    let length = path.as_os_str().len();
    if length <= FOLDER_BYTES_MAX {
        return Ok(path);
    }
    let hint = format!("choose one of at most {FOLDER_BYTES_MAX}, since sockets are in it");
    Err(node.fault(format!("the path has {length} bytes"), hint))
}

/// What goes with an Envoy.
fn check_beside(fields: &Fields<'_>, node: &Node) -> Result<(), Fault> {
    if fields.optional("control").is_none() {
        let hint = "add `control`, or let the sidecar serve itself";
        return Err(node.fault("`envoy` is told what to do by a control plane", hint));
    }
    for (key, hint) in ELSEWHERE {
        if let Some(other) = fields.optional(key) {
            return Err(other.fault(format!("`{key}` is not for a sidecar with `envoy`"), hint));
        }
    }
    Ok(())
}
