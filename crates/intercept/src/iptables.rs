//! Policy → input for `iptables-restore --noflush` and `ip6tables-restore --noflush`: chains of our
//! own, and one jump into each. What `iptables-save` shows decides which jumps are missing and what
//! there is to remove. Called by `apply`; pure.

use std::ops::RangeInclusive;

use crate::{Ipv6, Policy};

/// What all our chains are called like, and nobody else's.
const PREFIX: &str = "LENO_";

/// The input for both families.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// For `iptables-restore`.
    pub v4: String,
    /// For `ip6tables-restore`.
    pub v6: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

/// A chain of ours, and the built-in chain that jumps into it.
struct Chain {
    hook: &'static str,
    name: &'static str,
    rules: Vec<String>,
}

/// Makes our chains anew. For namespaces where they may be already, see [`without_jumps`].
#[must_use]
pub fn texts(policy: &Policy) -> Texts {
    Texts {
        v4: text(policy, Family::V4),
        v6: text(policy, Family::V6),
    }
}

/// `text` without the jumps that `saved`, the output of `iptables-save`, has already: chains are
/// emptied by declaring them again, jumps would come twice.
#[must_use]
pub fn without_jumps(text: &str, saved: &str) -> String {
    let mut there = Vec::new();
    walk(saved, |table, line| {
        there.push((table.to_owned(), line.to_owned()))
    });
    let mut kept = String::with_capacity(text.len());
    walk(text, |table, line| {
        let as_saved = line.replacen("-I ", "-A ", 1);
        if !line.starts_with("-I ") || !there.iter().any(|(t, l)| t == table && *l == as_saved) {
            kept.push_str(line);
            kept.push('\n');
        }
    });
    kept
}

/// Takes away all of ours that `saved`, the output of `iptables-save`, shows, and nothing else;
/// empty when there is nothing.
#[must_use]
pub fn removal(saved: &str) -> String {
    let mut text = String::new();
    let mut tables: Vec<(String, Vec<String>, Vec<String>)> = Vec::new();
    walk(saved, |table, line| {
        if line.starts_with('*') {
            tables.push((table.to_owned(), Vec::new(), Vec::new()));
        }
        let Some((_, jumps, chains)) = tables.last_mut() else {
            return;
        };
        let words: Vec<_> = line.split_whitespace().collect();
        match *words {
            ["-A", hook, "-j", target] if is_ours(target) && !is_ours(hook) => {
                jumps.push(format!("-D {hook} -j {target}\n"));
            }
            [chain, ..] if chain.strip_prefix(':').is_some_and(is_ours) => {
                chains.push(chain[1..].to_owned());
            }
            _ => {}
        }
    });
    for (table, jumps, chains) in tables.iter().filter(|(_, _, chains)| !chains.is_empty()) {
        text.push_str(&format!("*{table}\n{}", jumps.concat()));
        text.extend(chains.iter().map(|chain| format!("-F {chain}\n")));
        text.extend(chains.iter().map(|chain| format!("-X {chain}\n")));
        text.push_str("COMMIT\n");
    }
    text
}

fn is_ours(chain: &str) -> bool {
    chain.starts_with(PREFIX)
}

/// Calls `see` with every line that is no comment, and the table it is in.
fn walk(text: &str, mut see: impl FnMut(&str, &str)) {
    let mut table = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        table = line.strip_prefix('*').unwrap_or(table);
        see(table, line);
    }
}

fn text(policy: &Policy, family: Family) -> String {
    let inbound = Chain {
        hook: "PREROUTING",
        name: "LENO_INBOUND",
        rules: inbound(policy),
    };
    let outbound = Chain {
        hook: "OUTPUT",
        name: "LENO_OUTBOUND",
        rules: outbound(policy, family),
    };
    let guards = [
        Chain {
            hook: "INPUT",
            name: "LENO_GUARD_IN",
            rules: guard_inbound(policy, family),
        },
        Chain {
            hook: "OUTPUT",
            name: "LENO_GUARD_OUT",
            rules: guard_outbound(policy, family),
        },
    ];
    let nat = if is_dropped(policy, family) {
        // The kernel may not even have the table.
        String::new()
    } else {
        table("nat", &[inbound, outbound])
    };
    nat + &table("filter", &guards)
}

fn table(name: &str, chains: &[Chain]) -> String {
    let mut text = format!("*{name}\n");
    text.extend(
        chains
            .iter()
            .map(|chain| format!(":{} - [0:0]\n", chain.name)),
    );
    text.extend(
        chains
            .iter()
            .map(|chain| format!("-I {} -j {}\n", chain.hook, chain.name)),
    );
    for chain in chains {
        let rules = chain.rules.iter();
        text.extend(rules.map(|rule| format!("-A {} {rule}\n", chain.name)));
    }
    text + "COMMIT\n"
}

fn inbound(policy: &Policy) -> Vec<String> {
    let mut rules = vec!["-i lo -j RETURN".to_owned()];
    rules.extend(pass_ports(&policy.excluded_inbound_ports));
    let redirect = format!("-p tcp -j REDIRECT --to-ports {}", policy.inbound_port);
    rules.extend(
        policy
            .interfaces
            .iter()
            .map(|name| format!("-i {name} {redirect}")),
    );
    if policy.interfaces.is_empty() {
        rules.push(redirect);
    }
    rules
}

fn outbound(policy: &Policy, family: Family) -> Vec<String> {
    let mut rules = vec![format!(
        "-m owner --uid-owner {} -j RETURN",
        policy.bypass_uid
    )];
    let mark = policy.bypass_mark;
    rules.extend(mark.map(|mark| format!("-m mark --mark {mark:#x} -j RETURN")));
    if let Some(port) = policy.dns_port {
        // Before loopback passes: a resolver of this machine would answer without the mesh.
        rules.push(format!("-p udp --dport 53 -j REDIRECT --to-ports {port}"));
        rules.push(format!("-p tcp --dport 53 -j REDIRECT --to-ports {port}"));
    }
    rules.push("-o lo -j RETURN".into());
    rules.push("-m addrtype --dst-type LOCAL -j RETURN".into());
    rules.extend(pass_ports(&policy.excluded_outbound_ports));
    let cidrs = policy.excluded_cidrs.iter();
    let cidrs = cidrs.filter(|cidr| cidr.is_ipv6() == (family == Family::V6));
    rules.extend(cidrs.map(|cidr| format!("-d {cidr} -j RETURN")));
    rules.push(format!(
        "-p tcp -j REDIRECT --to-ports {}",
        policy.outbound_port
    ));
    rules
}

fn guard_inbound(policy: &Policy, family: Family) -> Vec<String> {
    let mut rules = vec!["-i lo -j RETURN".to_owned()];
    // Names are answered inside only; by TCP this port is redirected like any other.
    let dns_port = policy.dns_port;
    rules.extend(dns_port.map(|port| format!("-p udp --dport {port} -j DROP")));
    if is_dropped(policy, family) {
        rules.push("! -p ipv6-icmp -j DROP".into());
    }
    rules
}

fn guard_outbound(policy: &Policy, family: Family) -> Vec<String> {
    let mut rules = Vec::new();
    if is_dropped(policy, family) {
        rules.push("! -o lo ! -p ipv6-icmp -j REJECT --reject-with icmp6-adm-prohibited".into());
    }
    // Not yet: those with which a connection begins. All others are done with here.
    rules.push("-m conntrack --ctstatus ASSURED -j RETURN".into());
    let others = format!(
        "-m owner ! --uid-owner {} --socket-exists -m owner ! --uid-owner 0",
        policy.bypass_uid
    );
    let guarded = policy.guarded_ports();
    rules.extend(guarded.map(|port| format!("-p tcp --sport {port} {others} -j DROP")));
    rules.push("-m conntrack ! --ctstate NEW -j RETURN".into());
    rules.push("-m conntrack --ctstate DNAT -j RETURN".into());
    rules.push("-m owner --uid-owner 0 -j RETURN".into());
    rules.push(format!(
        "-m owner --uid-owner {} -j RETURN",
        policy.bypass_uid
    ));
    let reset = "-j REJECT --reject-with tcp-reset";
    let guarded = policy.guarded_ports();
    rules.extend(guarded.map(|port| format!("-o lo -p tcp --dport {port} {reset}")));
    rules
}

fn is_dropped(policy: &Policy, family: Family) -> bool {
    family == Family::V6 && policy.ipv6 == Ipv6::Drop
}

fn pass_ports(ports: &[RangeInclusive<u16>]) -> impl Iterator<Item = String> {
    ports.iter().map(|range| {
        let (first, last) = (range.start(), range.end());
        format!("-p tcp --dport {first}:{last} -j RETURN")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAT: &str = "\
*nat
:LENO_INBOUND - [0:0]
:LENO_OUTBOUND - [0:0]
-I PREROUTING -j LENO_INBOUND
-I OUTPUT -j LENO_OUTBOUND
-A LENO_INBOUND -i lo -j RETURN
-A LENO_INBOUND -p tcp --dport 15010:15010 -j RETURN
-A LENO_INBOUND -p tcp --dport 15901:15904 -j RETURN
-A LENO_INBOUND -p tcp -j REDIRECT --to-ports 15003
-A LENO_OUTBOUND -m owner --uid-owner 1500 -j RETURN
-A LENO_OUTBOUND -p udp --dport 53 -j REDIRECT --to-ports 15053
-A LENO_OUTBOUND -p tcp --dport 53 -j REDIRECT --to-ports 15053
-A LENO_OUTBOUND -o lo -j RETURN
-A LENO_OUTBOUND -m addrtype --dst-type LOCAL -j RETURN
-A LENO_OUTBOUND -d fd01::/16 -j RETURN
-A LENO_OUTBOUND -p tcp -j REDIRECT --to-ports 15001
COMMIT
";
    const FILTER: &str = "\
*filter
:LENO_GUARD_IN - [0:0]
:LENO_GUARD_OUT - [0:0]
-I INPUT -j LENO_GUARD_IN
-I OUTPUT -j LENO_GUARD_OUT
-A LENO_GUARD_IN -i lo -j RETURN
-A LENO_GUARD_IN -p udp --dport 15053 -j DROP
-A LENO_GUARD_OUT -m conntrack --ctstatus ASSURED -j RETURN
-A LENO_GUARD_OUT -p tcp --sport 15000 -m owner ! --uid-owner 1500 --socket-exists \
-m owner ! --uid-owner 0 -j DROP
-A LENO_GUARD_OUT -p tcp --sport 15001 -m owner ! --uid-owner 1500 --socket-exists \
-m owner ! --uid-owner 0 -j DROP
-A LENO_GUARD_OUT -p tcp --sport 15003 -m owner ! --uid-owner 1500 --socket-exists \
-m owner ! --uid-owner 0 -j DROP
-A LENO_GUARD_OUT -m conntrack ! --ctstate NEW -j RETURN
-A LENO_GUARD_OUT -m conntrack --ctstate DNAT -j RETURN
-A LENO_GUARD_OUT -m owner --uid-owner 0 -j RETURN
-A LENO_GUARD_OUT -m owner --uid-owner 1500 -j RETURN
-A LENO_GUARD_OUT -o lo -p tcp --dport 15000 -j REJECT --reject-with tcp-reset
-A LENO_GUARD_OUT -o lo -p tcp --dport 15001 -j REJECT --reject-with tcp-reset
-A LENO_GUARD_OUT -o lo -p tcp --dport 15003 -j REJECT --reject-with tcp-reset
COMMIT
";
    /// After one `apply` beside somebody else's rules.
    const SAVED: &str = "\
# Generated
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [7:420]
:LENO_OUTBOUND - [0:0]
:OTHER - [0:0]
-A PREROUTING -j OTHER
-A OUTPUT -j LENO_OUTBOUND
-A LENO_OUTBOUND -p tcp -j REDIRECT --to-ports 15001
COMMIT
*mangle
:OUTPUT ACCEPT [0:0]
-A OUTPUT -j MARK
COMMIT
";

    fn policy(ipv6: Ipv6) -> Policy {
        Policy {
            excluded_cidrs: vec!["fd01::/16".parse().unwrap()],
            ipv6,
            ..Policy::default()
        }
    }

    #[test]
    fn redirects_each_family_and_knows_whose_ranges_are_whose() {
        let texts = texts(&policy(Ipv6::Redirect));
        assert_eq!(texts.v6, format!("{NAT}{FILTER}"));
        assert_eq!(
            texts.v4,
            texts
                .v6
                .replace("-A LENO_OUTBOUND -d fd01::/16 -j RETURN\n", "")
        );
    }

    #[test]
    fn ipv6_that_is_dropped_needs_no_nat() {
        let texts = texts(&policy(Ipv6::Drop));
        assert!(
            !texts.v6.contains("nat") && !texts.v6.contains("REDIRECT"),
            "{}",
            texts.v6
        );
        for rule in [
            "-A LENO_GUARD_IN ! -p ipv6-icmp -j DROP\n",
            "-A LENO_GUARD_OUT ! -o lo ! -p ipv6-icmp -j REJECT \
             --reject-with icmp6-adm-prohibited\n",
        ] {
            assert!(texts.v6.contains(rule), "{}", texts.v6);
        }
        assert!(
            texts.v4.contains("REDIRECT") && !texts.v4.contains("icmp"),
            "{}",
            texts.v4
        );
    }

    #[test]
    fn a_jump_is_made_once() {
        let text = texts(&policy(Ipv6::Redirect)).v4;
        let again = without_jumps(&text, SAVED);
        assert_eq!(again, text.replace("-I OUTPUT -j LENO_OUTBOUND\n", ""));
        assert_eq!(without_jumps(&text, ""), text);
    }

    #[test]
    fn removes_what_is_there_and_ours() {
        let expected = "*nat\n-D OUTPUT -j LENO_OUTBOUND\n\
             -F LENO_OUTBOUND\n-X LENO_OUTBOUND\nCOMMIT\n";
        assert_eq!(removal(SAVED), expected);
        assert_eq!(removal("*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"), "");
    }
}
