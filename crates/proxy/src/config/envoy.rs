//! The Envoy that serves in the sidecar's place. Read once per file. Must never look whether its
//! program is there.

use std::path::Path;

use model::{ControlPlane, Envoy, Trust, XdsVariant};
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

pub(super) fn read(
    fields: &Fields<'_>,
    control: Option<&ControlPlane>,
    origin: &Path,
) -> Result<Option<Envoy>, Fault> {
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
    check_beside(fields, control, node).map(|()| Some(envoy))
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
fn check_beside(
    fields: &Fields<'_>,
    control: Option<&ControlPlane>,
    node: &Node,
) -> Result<(), Fault> {
    let Some(control) = control else {
        let hint = "add `control`, or let the sidecar serve itself";
        return Err(node.fault("`envoy` is told what to do by a control plane", hint));
    };
    if !matches!(control.tls, Trust::Mesh(_)) {
        let hint = "connect Envoy itself with another one, and remove `envoy`";
        let message = "`envoy` gets its certificate from the mesh's own control plane";
        return Err(node.fault(message, hint));
    }
    for (key, hint) in ELSEWHERE {
        if let Some(other) = fields.optional(key) {
            return Err(other.fault(format!("`{key}` is not for a sidecar with `envoy`"), hint));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    const FILE: &str = "\
workload: {name: web}
control: {addresses: [\"10.77.0.1:15128\"], trustBundle: root.pem}
envoy:
  program: bin/envoy
  folder: run/envoy
";

    #[track_caller]
    fn check(file: &str, expected: &str) {
        let fault = parse(file, Path::new("/etc/leno")).unwrap_err();
        assert_eq!(fault.to_string(), expected);
    }

    #[test]
    fn the_smallest_section_gets_every_default() {
        let config = parse(FILE, Path::new("/etc/leno")).unwrap();
        let expected = Envoy {
            program: "/etc/leno/bin/envoy".into(),
            folder: "/etc/leno/run/envoy".into(),
            xds: XdsVariant::Delta,
            access_log: false,
            stats: false,
        };
        assert_eq!(config.envoy, Some(expected));
        let other = format!("{FILE}  xds: stateOfTheWorld\n  accessLog: true\n  stats: true\n");
        let envoy = parse(&other, Path::new("")).unwrap().envoy.unwrap();
        assert_eq!(envoy.xds, XdsVariant::StateOfTheWorld);
        assert!(envoy.access_log && envoy.stats);
    }

    #[test]
    fn what_does_not_go_with_envoy_is_refused_at_its_place() {
        for (more, expected) in [
            (
                "handover: run/handover",
                "line 6, column 11: `handover` is not for a sidecar with `envoy`; remove it: a \
                 sidecar with Envoy is replaced",
            ),
            (
                "accessLog: {path: log}",
                "line 6, column 12: `accessLog` is not for a sidecar with `envoy`; write \
                 `accessLog: true` in `envoy`",
            ),
            (
                "opaquePorts: []",
                "line 6, column 14: `opaquePorts` is not for a sidecar with `envoy`; remove it: \
                 the control plane knows them",
            ),
        ] {
            check(&format!("{FILE}{more}\n"), expected);
        }
    }

    #[test]
    fn what_is_wrong_in_it_is_named() {
        let long = FILE.replace("run/envoy", &"x".repeat(90));
        check(
            &long,
            "line 5, column 11: the path has 100 bytes; choose one of at most 96, since sockets \
             are in it",
        );
        check(
            "workload: {name: web}\nenvoy: {program: a, folder: b}\nlisteners: []\nclusters: []\n",
            "line 2, column 8: `envoy` is told what to do by a control plane; add `control`, or \
             let the sidecar serve itself",
        );
        let fault = parse(&FILE.replace("folder", "folders"), Path::new("")).unwrap_err();
        assert!(
            fault.to_string().contains("unknown key `folders`"),
            "{fault}"
        );
    }
}
