//! What a new file changes, for people. Pure: called by the supervisor when it takes one.

use std::path::Path;

use control::kinds::Strategy;

use crate::mesh::{Mesh, Workload};
use crate::template::Template;

/// What is done when `after`, in the file at `new`, comes for `before`, which was in that at `old`.
pub(super) fn describe((before, old): (&Mesh, &Path), (after, new): (&Mesh, &Path)) -> Vec<String> {
    let mut lines = Vec::new();
    if old != new {
        lines.push(format!("the file is {} now", new.display()));
    }
    for workload in &after.workloads {
        let id = &workload.id;
        match before.workload(id) {
            None => lines.push(format!("{id}: new, {}", replicas(workload.spec.replicas))),
            Some(earlier) => lines.extend(
                differences((earlier, old), (workload, new))
                    .into_iter()
                    .map(|text| format!("{id}: {text}")),
            ),
        }
    }
    let gone = before.workloads.iter();
    let gone = gone.filter(|one| after.workload(&one.id).is_none());
    lines.extend(gone.map(|one| format!("{}: removed", one.id)));
    lines
}

fn differences((before, old): (&Workload, &Path), (after, new): (&Workload, &Path)) -> Vec<String> {
    let mut texts = Vec::new();
    let counts = (before.spec.replicas, after.spec.replicas);
    if counts.0 != counts.1 {
        texts.push(format!("{} → {}", counts.0, replicas(counts.1)));
    }
    let limits = |one: &Workload| (one.spec.limits, one.spec.sidecar.limits);
    if limits(before) != limits(after) {
        texts.push("other limits".to_owned());
    }
    if Template::of(before, old) != Template::of(after, new) {
        texts.push(match after.spec.strategy {
            Strategy::RollingUpdate => "changed, replaced one by one".to_owned(),
            Strategy::Recreate => "changed, ended and started again".to_owned(),
        });
    }
    if texts.is_empty() && before.spec != after.spec {
        texts.push("changed, without a restart".to_owned());
    }
    texts
}

fn replicas(count: u32) -> String {
    match count {
        1 => "1 replica".to_owned(),
        count => format!("{count} replicas"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh;

    fn read(specs: &[(&str, &str)]) -> Mesh {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.yaml");
        let document = |(name, spec): &(&str, &str)| {
            format!(
                "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {{name: {name}}}\n\
                 spec: {{{spec}}}\n"
            )
        };
        let text: String = specs.iter().map(document).collect();
        std::fs::write(&path, text).unwrap();
        mesh::read(&path).unwrap().intercepted()
    }

    #[track_caller]
    fn check(before: &[(&str, &str)], after: &[(&str, &str)], expected: &[&str]) {
        let path = Path::new("/a/mesh.yaml");
        let lines = describe((&read(before), path), (&read(after), path));
        assert_eq!(lines, expected);
    }

    #[test]
    fn says_what_is_done() {
        let hello = ("hello", "command: [a]");
        check(&[hello], &[hello], &[]);
        check(
            &[hello, ("old", "command: [a]")],
            &[
                ("hello", "command: [a], replicas: 5"),
                ("new", "replicas: 2"),
            ],
            &[
                "hello: 1 → 5 replicas",
                "new: new, 2 replicas",
                "old: removed",
            ],
        );
        let other = ("hello", "command: [b]");
        check(&[hello], &[other], &["hello: changed, replaced one by one"]);
        let limited = "command: [a], resources: {limits: {memory: 64Mi}}";
        check(&[hello], &[("hello", limited)], &["hello: other limits"]);
        let port = ("hello", "command: [a], ports: [{port: 80}]");
        check(&[hello], &[port], &["hello: changed, without a restart"]);
        let recreated = "command: [b], strategy: {type: Recreate}";
        let expected = &["hello: changed, ended and started again"];
        check(&[hello], &[("hello", recreated)], expected);
    }

    #[test]
    fn another_file_is_another_folder_for_its_commands() {
        let mesh = read(&[("hello", "command: [a]")]);
        let (old, new) = (Path::new("/a/mesh.yaml"), Path::new("/b/mesh.yaml"));
        let lines = describe((&mesh, old), (&mesh, new));
        let expected = [
            "the file is /b/mesh.yaml now",
            "hello: changed, replaced one by one",
        ];
        assert_eq!(lines, expected);
    }
}
