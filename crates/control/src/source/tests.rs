//! What a source gives, and what it says about files that cannot be taken.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A folder of files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn namespace(name: &str) -> String {
    format!("---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}\n")
}

fn service(name: &str, address: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{clusterIP: \
         \"{address}\", ports: [{{port: 80}}]}}\n"
    )
}

/// What the files of a folder give: names, or faults without the folder's path.
#[track_caller]
fn check(files: &[(&str, &str)], wanted: &[&str]) {
    let folder = folder(files);
    let mut source = Source::open(vec![folder.path().to_owned()]);
    let shown: Vec<_> = match source.read() {
        Ok(resources) => resources
            .iter()
            .map(|found| found.key.to_string())
            .collect(),
        Err(Faults(faults)) => faults.iter().map(ToString::to_string).collect(),
    };
    let prefix = format!("{}/", folder.path().display());
    let shown: Vec<_> = shown.iter().map(|text| text.replace(&prefix, "")).collect();
    assert_eq!(shown, wanted);
}

#[test]
fn a_folder_gives_its_files_in_order() {
    let (a, b, c) = (namespace("a"), namespace("b"), namespace("c"));
    let both = format!("{a}{b}");
    check(
        &[
            ("2.yml", &both),
            ("1.yaml", &c),
            (".3.yaml", "{"),
            ("4.txt", "{"),
        ],
        &["Namespace c", "Namespace a", "Namespace b"],
    );
    check(&[("empty.yaml", "# nothing yet\n")], &[]);
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let good = namespace("a");
    let bad = format!(
        "{}---\nkind: Servce\n---\n{{kind: Service}}\n",
        namespace("b")
    );
    check(
        &[
            ("good.yaml", &good),
            ("bad.yaml", &bad),
            ("worse.yaml", "a: [\n"),
        ],
        &[
            "bad.yaml:4:7: the kind `Servce` is not known; did you mean `Service`?",
            "bad.yaml:6:1: a resource needs `apiVersion`; add `apiVersion: …` here",
            "worse.yaml:2:1: not valid YAML: while parsing a node, did not find expected node \
             content; check indentation, quotes and brackets here and on the line above",
        ],
    );
}

#[test]
fn names_are_given_once_in_all_files() {
    let (a, b) = (namespace("a"), namespace("b"));
    let both = format!("{b}{a}");
    check(
        &[("1.yaml", &a), ("2.yaml", &both)],
        &[
            "2.yaml:4:1: the Namespace a is described twice; 1.yaml:2:1 has it already; remove one \
           of them",
        ],
    );
}

#[test]
fn addresses_are_given_to_one_service() {
    let both = service("a", "10.78.0.5") + &service("b", "10.78.0.5");
    check(
        &[("a.yaml", &both)],
        &[
            "a.yaml:7:1: the address 10.78.0.5 is taken; the Service default/a has it, \
           a.yaml:2:1; choose another",
        ],
    );
    check(
        &[("a.yaml", &service("a", "10.77.0.5"))],
        &[
            "a.yaml:2:1: the address 10.77.0.5 is in 10.77.0.0/16, which Workloads are given; \
           choose another, or remove `clusterIP` to be given one",
        ],
    );
    check(
        &[(
            "a.yaml",
            &(service("a", "10.78.0.5") + &service("b", "10.78.0.6")),
        )],
        &["Service default/a", "Service default/b"],
    );
}

#[test]
fn what_is_no_file_is_a_fault() {
    let folder = folder(&[("bytes.yaml", "")]);
    let path = |name: &str| folder.path().join(name);
    fs::write(path("bytes.yaml"), b"a: \xff\n").unwrap();
    symlink("nowhere", path("dangling.yaml")).unwrap();
    fs::create_dir(path("folder.yaml")).unwrap();
    let mut source = Source::open(vec![folder.path().to_owned(), path("missing.yaml")]);
    let Faults(faults) = source.read().unwrap_err();
    let names = faults
        .iter()
        .map(|fault| fault.origin.file.file_name().unwrap());
    let names: Vec<_> = names.map(|name| name.to_str().unwrap()).collect();
    assert_eq!(names, ["missing.yaml", "bytes.yaml", "dangling.yaml"]);
    assert!(
        faults
            .iter()
            .all(|fault| fault.message.starts_with("cannot be read: ")),
        "{faults:?}"
    );
}

#[test]
fn resources_of_files_that_did_not_change_are_the_same() {
    let folder = folder(&[("a.yaml", &namespace("a")), ("b.yaml", &namespace("b"))]);
    let mut source = Source::open(vec![folder.path().to_owned()]);
    let before = source.read().unwrap();
    fs::write(folder.path().join("b.yaml"), namespace("c")).unwrap();
    let after = source.read().unwrap();
    assert!(Arc::ptr_eq(&before[0], &after[0]));
    assert_eq!(after[1].key.name, "c");
}

#[test]
fn a_file_that_is_mended_is_taken() {
    let folder = folder(&[("a.yaml", "{")]);
    let mut source = Source::open(vec![folder.path().to_owned()]);
    assert_eq!(source.read().unwrap_err().0.len(), 1);
    fs::write(folder.path().join("a.yaml"), namespace("a")).unwrap();
    assert_eq!(source.read().unwrap().len(), 1);
}

const KIND: &str = "apiVersion: leno.dev/v1alpha1\nkind:";

fn workload(name: &str, spec: &str) -> String {
    format!("---\n{KIND} Workload\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

/// Where the instances of a Workload live.
fn status(name: &str, instances: &[&str]) -> String {
    let one = |name: &&str| format!("{{name: {name}, addresses: [], ready: true}}");
    let instances: Vec<_> = instances.iter().map(one).collect();
    let list = instances.join(", ");
    format!(
        "---\n{KIND} WorkloadStatus\nmetadata: {{name: {name}}}\nstatus: {{instances: [{list}]}}\n"
    )
}

#[test]
fn an_instance_is_of_one_workload() {
    let (one, short) = (status("a", &["a-0"]), status("a-0", &["a-0"]));
    check(
        &[("1.yaml", &one), ("2.yaml", &short)],
        &[
            "2.yaml:2:1: the instance a-0 has two Workloads; the WorkloadStatus default/a lists \
             it, 1.yaml:2:1; remove one",
        ],
    );
    let other = short.replace("name: a-0}\nstatus", "name: a-0, namespace: b}\nstatus");
    let names = ["WorkloadStatus default/a", "WorkloadStatus b/a-0"];
    check(&[("1.yaml", &one), ("2.yaml", &other)], &names);
}

#[test]
fn a_strict_mesh_has_nobody_whose_callers_are_not_seen() {
    let mesh = format!("{KIND} MeshConfig\nmetadata: {{name: mesh}}\nspec: {{mode: strict}}\n");
    let off = workload("off", "sidecar: {enabled: false}");
    check(
        &[("1.yaml", &mesh), ("2.yaml", &off)],
        &[
            "2.yaml:2:1: the mesh is strict, but nothing intercepts what is sent to this \
             Workload; let its sidecar intercept `inbound` or `both`, or write `mode: permissive`",
        ],
    );
    let meant = workload("off", "mode: permissive, sidecar: {enabled: false}");
    let names = ["MeshConfig mesh", "Workload default/off"];
    check(&[("1.yaml", &mesh), ("2.yaml", &meant)], &names);
}

#[test]
fn workloads_do_not_wait_for_each_other() {
    let (a, b) = (
        workload("a", "dependsOn: [b, x]"),
        workload("b", "dependsOn: [c.default]"),
    );
    let (c, d) = (
        workload("c", "dependsOn: [b]"),
        workload("d", "dependsOn: [a]"),
    );
    check(
        &[("1.yaml", &format!("{a}{b}{c}{d}"))],
        &[
            "1.yaml:7:1: Workloads that wait for each other: default/b → default/c → default/b; \
             remove one of these from `dependsOn`: none of them would start",
        ],
    );
    let c = workload("c", "");
    let names = ["a", "b", "c", "d"].map(|name| format!("Workload default/{name}"));
    check(
        &[("1.yaml", &format!("{a}{b}{c}{d}"))],
        &names.each_ref().map(String::as_str),
    );
}

/// The names of instances among `resources`, and of what else there is.
fn shown(resources: &[Arc<Resource>]) -> Vec<String> {
    let show = |resource: &Arc<Resource>| match &resource.object {
        crate::kinds::Object::WorkloadStatus(status) => {
            let names = status.instances.iter().map(|one| one.name.clone());
            names.collect::<Vec<_>>().join(" ")
        }
        _ => resource.key.to_string(),
    };
    resources.iter().map(show).collect()
}

#[test]
fn what_runs_is_followed_while_what_is_wanted_is_wrong() {
    let (a, b) = (status("a", &["a-0"]), status("b", &["b-0"]));
    let files = [
        ("mesh.yaml", &*namespace("n")),
        ("a.yaml", &a),
        ("b.yaml", &b),
    ];
    let folder = folder(&files);
    let mut source = Source::open(vec![folder.path().to_owned()]);
    let before = source.read().unwrap();
    let mut check = |file: &str, text: &str, wanted: &[&str]| {
        fs::write(folder.path().join(file), text).unwrap();
        source.read().unwrap_err();
        let all = source.with_statuses(&before);
        assert_eq!(all.as_deref().map(shown).unwrap_or_default(), wanted);
    };
    check("mesh.yaml", "{", &["Namespace n", "a-0", "b-0"]);
    check(
        "a.yaml",
        &status("a", &["a-1"]),
        &["Namespace n", "a-1", "b-0"],
    );
    // Whatever is wrong with one of them leaves that as it was.
    check("b.yaml", "{", &["b-0", "Namespace n", "a-1"]);
    // What cannot be true of them is not taken.
    check("b.yaml", &status("a-1", &["a-1"]), &[]);
    check("b.yaml", "", &["Namespace n", "a-1"]);
}

#[test]
fn a_gateway_on_envoy_shows_what_envoy_can_show() {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let certificate = rcgen::CertificateParams::new(["shop.example".to_owned()]).unwrap();
    let chain = certificate.self_signed(&key).unwrap().pem();
    let plain = |text: &str| text.trim_end().replace('\n', "\n    ");
    let (chain, key) = (plain(&chain), plain(&key.serialize_pem()));
    let mesh = |data_plane: &str| {
        format!(
            "apiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {{name: edge}}\n\
             spec: {{gateway: edge, sidecar: {{dataPlane: {data_plane}}}}}\n---\n\
             apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge}}\n\
             spec:\n  gatewayClassName: leno\n  listeners:\n  - {{name: a, port: 443, protocol: \
             HTTPS, tls: {{certificateRefs: [{{name: shop}}]}}}}\n---\n\
             apiVersion: v1\nkind: Secret\nmetadata: {{name: shop}}\ntype: kubernetes.io/tls\n\
             stringData:\n  tls.crt: |\n    {chain}\n  tls.key: |\n    {key}\n"
        )
    };
    let all = [
        "Workload default/edge",
        "Gateway default/edge",
        "Secret default/shop",
    ];
    check(&[("a.yaml", &mesh("leno"))], &all);
    check(
        &[("a.yaml", &mesh("envoy"))],
        &[
            "a.yaml:12:67: the Secret default/shop has a key of Ed25519, which Envoy cannot show; \
             give it one of ECDSA or RSA, or the gateway `sidecar: {dataPlane: leno}`",
        ],
    );
}
