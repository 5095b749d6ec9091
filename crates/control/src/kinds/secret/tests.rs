//! What is taken of a Secret, and that nothing of it is ever said.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::kinds::{Object, Resource};

fn pem(hosts: &[&str]) -> (String, String) {
    let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(hosts).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn resource(more: &str) -> Result<Resource, Fault> {
    let text = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: shop}}\n{more}");
    Resource::read(
        &Node::read(&text).unwrap(),
        &Arc::from(Path::new("mesh.yaml")),
    )
}

fn secret(more: &str) -> Secret {
    match resource(more).unwrap().object {
        Object::Secret(secret) => secret,
        other => panic!("{other:?}"),
    }
}

fn encoded(chain: &str, key: &str) -> String {
    let (chain, key) = (STANDARD.encode(chain), STANDARD.encode(key));
    format!(
        "type: kubernetes.io/tls\ndata:\n  tls.crt: {chain}\n  tls.key: {key}\n  ca.crt: \"\"\n"
    )
}

#[test]
fn certificates_come_in_base64_or_as_they_are() {
    let (chain, key) = pem(&["shop.example", "*.shop.example"]);
    let plain = |text: &str| text.replace('\n', "\n    ");
    let (one, other) = (plain(&chain), plain(&key));
    let plain = format!(
        "type: kubernetes.io/tls\nimmutable: true\nstringData:\n  tls.crt: |\n    {one}\n  \
         tls.key: |\n    {other}\n"
    );
    for text in [encoded(&chain, &key), plain] {
        let pair = secret(&text).pair.unwrap();
        assert_eq!(pair.chain.trim_end(), chain.trim_end());
        assert_eq!(pair.key.trim_end(), key.trim_end());
        assert_eq!(pair.hosts, ["shop.example", "*.shop.example"]);
        assert!(pair.is_for("shop.example") && pair.is_for("a.shop.example"));
        assert!(pair.is_for("*.shop.example"));
        assert!(!pair.is_for("a.b.shop.example") && !pair.is_for("other.example"));
    }
}

/// Every word of a key, and of what is not told of it.
fn is_silent(said: &str, key: &str) {
    let is_long = |line: &&str| !line.starts_with("-----") && line.len() > 8;
    for word in key.lines().filter(is_long) {
        assert!(!said.contains(word), "{said}");
        assert!(!said.contains(&STANDARD.encode(word)[..10]), "{said}");
    }
}

#[test]
fn what_does_not_belong_together_is_kept_with_the_reason() {
    let (chain, key) = pem(&["a"]);
    let (_, other) = pem(&["a"]);
    for (chain, key, wanted) in [
        (&chain, &other, "the key is not the certificate's"),
        (&chain, &chain, "the key cannot be read"),
        (&key, &key, "the certificate cannot be read"),
    ] {
        let secret = secret(&encoded(chain, key));
        let reason = secret.pair.clone().unwrap_err();
        assert!(reason.contains(wanted), "{reason}");
        is_silent(&format!("{reason} {secret:?}"), key);
    }
    let secret = secret(&encoded(&chain, &key));
    is_silent(&format!("{secret:?}"), &key);
}

#[test]
fn faults_say_where_and_never_what() {
    let (chain, key) = pem(&["a"]);
    let good = encoded(&chain, &key);
    let packed = STANDARD.encode(&key);
    let check = |text: &str, wanted: &str| {
        let fault = resource(text).unwrap_err();
        let said = format!("{}; {}", fault.message, fault.hint);
        assert!(said.starts_with(wanted), "{said}");
        is_silent(&said, &key);
        assert!(!said.contains(&packed[..20]), "{said}");
    };
    check("data: {}\n", "a resource needs `type`");
    check(
        &good.replace("kubernetes.io/tls", "Opaque"),
        "a Secret of the type `Opaque` is of no use here; write `type: kubernetes.io/tls`",
    );
    check(
        &good.replace("tls.key: ", "tls.key: \"%\"\n  other: "),
        "`tls.key` is not a text in base64; encode the PEM",
    );
    check(
        &good.replace("tls.key", "tls-key"),
        "unknown key `tls-key` in `data`; known here: tls.crt, tls.key",
    );
    check(
        "type: kubernetes.io/tls\ndata: {tls.crt: \"\"}\n",
        "a Secret of the type kubernetes.io/tls has `tls.crt` and `tls.key`",
    );
    check(
        &format!("type: kubernetes.io/tls\ndata: {packed}\n"),
        "`data` is not a mapping",
    );
    check(
        &format!("type: kubernetes.io/tls\nstringData: {{tls.key: [{packed}]}}\n"),
        "`tls.key` is not a text",
    );
    let lines = key.replace('\n', "\n  ");
    let bare = format!("type: kubernetes.io/tls\nstringData:\n  tls.key:\n  {lines}\n");
    let text = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: shop}}\n{bare}");
    let said = match Node::read(&text) {
        Ok(node) => Resource::read(&node, &Arc::from(Path::new("mesh.yaml")))
            .unwrap_err()
            .to_string(),
        Err(fault) => fault.to_string(),
    };
    is_silent(&said, &key);
}
