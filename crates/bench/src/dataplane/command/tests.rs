//! What definitions are taken, what is refused, what becomes of the templates.

use super::*;

fn refused(text: &str) -> String {
    format!("{:#}", Definition::parse(text).unwrap_err())
}

fn rendered(definition: &Definition, side: Side, mutual_tls: bool) -> String {
    definition.sample(side, mutual_tls).unwrap()
}

#[test]
fn a_command_line_is_a_definition() {
    let text = "relay=socat TCP-LISTEN:{{ listen_port }},fork TCP:{{ upstream }}";
    let definition = Definition::parse(text).unwrap();
    assert_eq!(definition.name(), "relay");
    assert_eq!(
        rendered(&definition, Side::Client, true),
        "==> start.sh\nexec socat TCP-LISTEN:61231,fork TCP:127.0.0.1:61232\n"
    );
    let notes = Custom::new(definition).notes(EnvironmentKind::Loopback);
    assert!(
        notes.iter().any(|note| note.contains("plaintext")),
        "{notes:?}"
    );
}

#[test]
fn a_file_is_a_definition_with_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("relay.yaml");
    let yaml = "name: relay\ncommand: relay {{ dir }}/relay.cfg\ncounters: /metrics\n\
                notes: [says nothing]\nfiles:\n  relay.cfg: |\n    listen {{ listen }}\n    \
                {% if connect_tls %}\n    key {{ key }}\n    {% elif accept_tls %}\n    \
                peer {{ peer_id }}\n    {% endif %}\n    to {{ upstream }}, {{ admin }}\n";
    fs::write(&path, yaml).unwrap();
    let definition = Definition::parse(path.to_str().unwrap()).unwrap();
    let start = "==> start.sh\nexec relay /sidecar/relay.cfg\n\n==> relay.cfg\nlisten";
    for (side, mutual_tls, middle) in [
        (Side::Client, true, "key /certificates/client.key\n"),
        (
            Side::Server,
            true,
            "peer spiffe://cluster.local/ns/default/sa/fortioclient\n",
        ),
        (Side::Server, false, ""),
    ] {
        let expected =
            format!("{start} 127.0.0.1:61231\n{middle}to 127.0.0.1:61232, 127.0.0.1:61233\n");
        assert_eq!(rendered(&definition, side, mutual_tls), expected);
    }
    let notes = Custom::new(definition).notes(EnvironmentKind::Loopback);
    assert!(
        !notes.iter().any(|note| note.contains("plaintext")),
        "{notes:?}"
    );
    assert!(notes.contains(&"relay: says nothing".to_owned()));
}

#[test]
fn what_cannot_work_is_said_before_anything_runs() {
    for (text, words) in [
        ("relay=socat {{ listen }} {{ uptream }}", "undefined value"),
        ("relay=socat {{ listen }", "its command"),
        ("relay=socat TCP:{{ upstream }}", "{{ listen }}"),
        ("relay=socat TCP-LISTEN:{{ listen_port }}", "{{ upstream }}"),
        (
            "/nowhere/relay.yaml",
            "use NAME=COMMAND, or the path of a YAML file",
        ),
        ("Relay=socat", "use NAME=COMMAND"),
    ] {
        let said = refused(text);
        assert!(said.contains(words), "no `{words}` in {said}");
    }
}

#[test]
fn a_file_with_a_key_too_many_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("relay.yaml");
    for (more, words) in [
        ("prot: 1", "unknown field `prot`"),
        ("counters: /metrics", "no {{ admin }}"),
        (
            "files: {../relay.cfg: x}",
            "`../relay.cfg` is no name for a file",
        ),
    ] {
        let yaml =
            format!("name: relay\ncommand: relay {{{{ listen }}}} {{{{ upstream }}}}\n{more}\n");
        fs::write(&path, yaml).unwrap();
        let said = refused(path.to_str().unwrap());
        assert!(said.contains(words), "no `{words}` in {said}");
    }
}

#[test]
fn a_version_is_the_first_line_that_is_said() {
    assert_eq!(
        version("printf '\\n relay 1.2\\nof today\\n' >&2").unwrap(),
        "relay 1.2"
    );
    assert!(version("exit 3").is_err());
}
