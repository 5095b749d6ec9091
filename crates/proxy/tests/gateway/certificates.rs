//! Certificates through their life: told, missing, renewed, wrong, gone, kept, and never seen.

use std::os::unix::fs::PermissionsExt;

use model::Edge;
use testkit::browser::{certificate, fingerprint};
use testkit::{Browser, EchoServer, ProxyProcess, until};
use xds::kind::Kind;

use crate::world::{
    PROXY, SHOP, certificates_become, exact, gateway, listener, plane, secured, shop, shown, start,
    tell, tell_certificate, to_app,
};

#[test]
fn missing_certificate_keeps_nobody_else_from_being_served() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    let chain = tell_certificate(&plane, SHOP);
    let late = Edge::Tls(vec![
        shown(exact(SHOP), SHOP),
        shown(exact("late.example"), "late.example"),
    ]);
    plane.listener(&listener(late, to_app()));
    let proxy = start(&plane);
    let at = gateway(&proxy);
    let browser = Browser::trusting(&chain);
    assert_eq!(browser.connect(at, SHOP).unwrap().get("/").status(), 200);
    let error = browser.connect(at, "late.example").err().unwrap();
    assert!(error.to_string().contains("alert"), "{error}");
    let late = Browser::trusting(&tell_certificate(&plane, "late.example"));
    until("the certificate is there", || {
        late.connect(at, "late.example").is_ok()
    });
    plane.remove(Kind::Secret, "late.example");
    until("the certificate is gone", || {
        late.connect(at, "late.example").is_err()
    });
    assert_eq!(browser.connect(at, SHOP).unwrap().get("/").status(), 200);
}

#[test]
fn renewed_certificate_is_shown_and_no_connection_ends() {
    let app = EchoServer::start();
    let (plane, proxy, browser) = secured(app.addr());
    let mut old = browser.connect(gateway(&proxy), SHOP).unwrap();
    assert_eq!(old.get("/").status(), 200);
    let chain = tell_certificate(&plane, SHOP);
    certificates_become(&proxy, |shown| {
        shown[SHOP]["sha256"] == fingerprint(&chain).as_str()
    });
    let mut new = Browser::trusting(&chain)
        .connect(gateway(&proxy), SHOP)
        .unwrap();
    assert_eq!(new.get("/").status(), 200);
    assert_eq!(old.get("/").status(), 200);
    assert!(browser.connect(gateway(&proxy), SHOP).is_err());
}

#[test]
fn wrong_certificate_is_refused_and_the_old_one_stays() {
    let app = EchoServer::start();
    let (plane, proxy, browser) = secured(app.addr());
    let (chain, _) = certificate(&[SHOP]);
    let (_, key) = certificate(&[SHOP]);
    tell(&plane, SHOP, &chain, &key);
    plane.until("it is refused", |seen| {
        !seen.refusals(Kind::Secret).is_empty()
    });
    let seen = plane.seen();
    let [reason] = seen.refusals(Kind::Secret)[..] else {
        panic!("refused more than once")
    };
    assert!(
        reason.contains("the key is not the certificate's"),
        "{reason}"
    );
    assert_eq!(
        browser
            .connect(gateway(&proxy), SHOP)
            .unwrap()
            .get("/")
            .status(),
        200
    );
}

#[test]
fn keys_are_nowhere_to_be_seen() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    let (chain, key) = certificate(&[SHOP]);
    tell(&plane, SHOP, &chain, &key);
    plane.listener(&listener(shop(), to_app()));
    let proxy = start(&plane);
    let mut client = Browser::trusting(&chain)
        .connect(gateway(&proxy), SHOP)
        .unwrap();
    assert_eq!(client.get("/").status(), 200);
    let secret = key.lines().nth(1).unwrap();
    for path in [
        "/config_dump",
        "/clusters",
        "/certs",
        "/control",
        "/stats",
        "/metrics",
    ] {
        let page = proxy.admin(path).text();
        assert!(!page.contains(secret), "{path}");
    }
    let certs = proxy.admin("/certs").text();
    assert!(
        certs.contains(SHOP) && certs.contains(&fingerprint(&chain)),
        "{certs}"
    );
    assert!(!proxy.stderr().contains(secret));
}

#[test]
fn certificates_are_kept_for_the_sidecar_alone() {
    let app = EchoServer::start();
    let mut plane = plane(app.addr());
    let chain = tell_certificate(&plane, SHOP);
    plane.listener(&listener(shop(), to_app()));
    let state = plane.dir().join("state");
    let yaml = plane.sidecar("edge", &format!(", state: {state:?}"));
    let proxy = ProxyProcess::start(PROXY, &yaml);
    let browser = Browser::trusting(&chain);
    assert!(browser.connect(gateway(&proxy), SHOP).is_ok());
    until("what is known is kept", || {
        let kept = std::fs::read(state.join("resources.pb")).unwrap_or_default();
        kept.windows(SHOP.len())
            .any(|window| window == SHOP.as_bytes())
    });
    drop(proxy.terminate());
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&state.join("resources.pb")), 0o600);
    // Nobody is needed to serve again.
    plane.stop();
    let proxy = ProxyProcess::start(PROXY, &yaml);
    let mut client = browser.connect(gateway(&proxy), SHOP).unwrap();
    assert_eq!(client.get("/").status(), 200);
}
