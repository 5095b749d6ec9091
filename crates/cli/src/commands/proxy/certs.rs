//! `leno proxy certs`: who a sidecar is and whom it trusts.

use std::fmt::Write as _;

use local::inspect::Address;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::pages::{Certificate, Certs};
use crate::commands::cert::rough;
use crate::output::{Cell, Output, Screen, Table, Tone};

const HEADS: [&str; 5] = [
    "AUTHORITY",
    "SERIAL",
    "NOT BEFORE",
    "NOT AFTER",
    "REMAINING",
];

/// Width of what stands before the values.
const NAME_WIDTH: usize = 12;

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
    let mut text = format!("{}\n", certs.id);
    let (authorities, own): (Vec<_>, Vec<_>) = certs
        .certificate_chain
        .iter()
        .partition(|certificate| certificate.is_authority);
    for leaf in own {
        let lines = [
            ("serial", leaf.serial.clone()),
            ("issuer", leaf.issuer.clone()),
            ("not before", leaf.not_before.clone()),
            ("not after", leaf.not_after.clone()),
        ];
        for (name, value) in lines {
            let _ = writeln!(text, "  {name:NAME_WIDTH$}{value}");
        }
        let (left, tone) = remaining(leaf, now);
        let _ = writeln!(
            text,
            "  {:NAME_WIDTH$}{}",
            "remaining",
            tone.paint(&left, screen)
        );
    }
    let domain = &certs.trust_domain;
    let _ = match certs.revoked {
        0 => writeln!(text, "trusts, in {domain}, and knows none to be revoked:"),
        count => writeln!(
            text,
            "trusts, in {domain}, and knows {count} to be revoked:"
        ),
    };
    let mut table = Table::new(&HEADS);
    for certificate in authorities {
        table.push(row("between", certificate, now));
    }
    for certificate in &certs.trust_bundle {
        table.push(row("trusted", certificate, now));
    }
    text += &table.render(screen);
    for warning in &certs.warnings {
        let _ = writeln!(
            text,
            "{}",
            Tone::Odd.paint(&format!("warning: {warning}"), screen)
        );
    }
    text
}

/// Days are enough for authorities.
fn row(what: &str, certificate: &Certificate, now: OffsetDateTime) -> [Cell; 5] {
    let day = |time: &str| time.split('T').next().unwrap_or_default().to_owned();
    let (left, tone) = remaining(certificate, now);
    [
        what.into(),
        certificate.serial.as_str().into(),
        day(&certificate.not_before).into(),
        day(&certificate.not_after).into(),
        Cell::toned(left, tone),
    ]
}

fn remaining(certificate: &Certificate, now: OffsetDateTime) -> (String, Tone) {
    let parse = |text| OffsetDateTime::parse(text, &Rfc3339);
    match (
        parse(&certificate.not_before),
        parse(&certificate.not_after),
    ) {
        (Ok(from), _) if now < from => ("not valid yet".to_owned(), Tone::Bad),
        (_, Ok(to)) if now > to => ("EXPIRED".to_owned(), Tone::Bad),
        (_, Ok(to)) => (rough(to - now), Tone::Plain),
        (_, Err(_)) => ("-".to_owned(), Tone::Plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn certs(until: &str) -> String {
        let one = |subject: &str, authority: bool| {
            json!({"subject": subject, "issuer": "CN=r", "serial": "0a", "isAuthority": authority,
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
spiffe://td/ns/a/sa/b
  serial      0a
  issuer      CN=r
  not before  2030-01-01T00:00:00Z
  not after   2030-01-02T00:30:00Z
  remaining   12 h 30 min
trusts, in td, and knows 2 to be revoked:
AUTHORITY  SERIAL  NOT BEFORE  NOT AFTER   REMAINING
between    0a      2030-01-01  2030-01-02  12 h 30 min
trusted    0a      2030-01-01  2030-01-02  12 h 30 min
";
        assert_eq!(certs("2030-01-02T00:30:00Z"), expected);
        assert!(certs("2030-01-01T11:59:59Z").contains("EXPIRED"));
        let none = render(None, OffsetDateTime::UNIX_EPOCH, Screen::default());
        assert!(none.contains("plaintext only"));
    }
}
