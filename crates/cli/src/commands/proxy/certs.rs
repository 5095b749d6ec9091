//! `leno proxy certs`: who a sidecar is and whom it trusts.

use std::fmt::Write as _;

use local::inspect::Address;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::pages::{Certificate, Certs};
use crate::output::{Cell, Output, Screen, Table, Tone};

const HEADS: [&str; 7] = [
    "CERTIFICATE",
    "SUBJECT",
    "SERIAL",
    "NOT BEFORE",
    "NOT AFTER",
    "REMAINING",
    "ISSUER",
];

pub(super) fn show(pages: &Address, output: Output) -> anyhow::Result<()> {
    let page = pages.json("/certs")?;
    let certs: Option<Certs> = super::read(page.clone())?;
    let now = OffsetDateTime::now_utc();
    output.print(&page, |screen| render(certs.as_ref(), now, screen))
}

fn render(certs: Option<&Certs>, now: OffsetDateTime, screen: Screen) -> String {
    let Some(certs) = certs else {
        return "no certificate: it speaks and takes plaintext only\n".to_owned();
    };
    let mut text = format!("{} of {}\n", certs.id, certs.trust_domain);
    let mut table = Table::new(&HEADS);
    for certificate in &certs.certificate_chain {
        let what = if certificate.is_authority { "intermediate" } else { "own" };
        table.push(row(what, certificate, now));
    }
    for certificate in &certs.trust_bundle {
        table.push(row("trusted", certificate, now));
    }
    text += &table.render(screen);
    let _ = match certs.revoked {
        0 => writeln!(text, "none is known to be revoked"),
        count => writeln!(text, "{count} known to be revoked"),
    };
    for warning in &certs.warnings {
        let _ = writeln!(text, "{}", Tone::Odd.paint(&format!("warning: {warning}"), screen));
    }
    text
}

fn row(what: &str, certificate: &Certificate, now: OffsetDateTime) -> [Cell; 7] {
    [
        what.into(),
        certificate.subject.as_str().into(),
        certificate.serial.as_str().into(),
        certificate.not_before.as_str().into(),
        certificate.not_after.as_str().into(),
        remaining(certificate, now),
        certificate.issuer.as_str().into(),
    ]
}

fn remaining(certificate: &Certificate, now: OffsetDateTime) -> Cell {
    let parse = |text| OffsetDateTime::parse(text, &Rfc3339);
    match (parse(&certificate.not_before), parse(&certificate.not_after)) {
        (Ok(from), _) if now < from => Cell::toned("not valid yet", Tone::Bad),
        (_, Ok(to)) if now > to => Cell::toned("EXPIRED", Tone::Bad),
        (_, Ok(to)) => Cell::from(crate::commands::cert::rough(to - now)),
        (_, Err(_)) => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn certs(until: &str) -> String {
        let one = |subject: &str, authority: bool| {
            json!({"subject": subject, "issuer": "CN=root", "serial": "0a", "isAuthority": authority,
                   "notBefore": "2030-01-01T00:00:00Z", "notAfter": until})
        };
        let certs: Certs = super::super::read(json!({
            "id": "spiffe://td/ns/a/sa/b", "trustDomain": "td", "revoked": 2,
            "certificateChain": [one("spiffe://td/ns/a/sa/b", false), one("spiffe://td", true)],
            "trustBundle": [one("spiffe://td", true)],
        }))
        .unwrap();
        let now = OffsetDateTime::parse("2030-01-01T12:00:00Z", &Rfc3339).unwrap();
        render(Some(&certs), now, Screen::default())
    }

    #[test]
    fn chain_and_trust_bundle_with_how_long_they_last() {
        let expected = "\
spiffe://td/ns/a/sa/b of td
CERTIFICATE   SUBJECT                SERIAL  NOT BEFORE            NOT AFTER             REMAINING    ISSUER
own           spiffe://td/ns/a/sa/b  0a      2030-01-01T00:00:00Z  2030-01-02T00:30:00Z  12 h 30 min  CN=root
intermediate  spiffe://td            0a      2030-01-01T00:00:00Z  2030-01-02T00:30:00Z  12 h 30 min  CN=root
trusted       spiffe://td            0a      2030-01-01T00:00:00Z  2030-01-02T00:30:00Z  12 h 30 min  CN=root
2 known to be revoked
";
        assert_eq!(certs("2030-01-02T00:30:00Z"), expected);
        assert!(certs("2030-01-01T11:59:59Z").contains("EXPIRED"));
        let none = render(None, OffsetDateTime::UNIX_EPOCH, Screen::default());
        assert!(none.contains("plaintext only"));
    }
}
