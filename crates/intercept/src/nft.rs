//! Policy → a script for `nft -f`: one table, `inet leno`, replaced whole in one transaction.
//! Called by `apply`; pure.

use std::ops::RangeInclusive;

use crate::{Ipv6, Policy};

/// Makes the table anew, whether it was there or not.
#[must_use]
pub fn script(policy: &Policy) -> String {
    let mut text = removal().to_owned();
    text.push_str("table inet leno {\n");
    let nat = [
        ("inbound", "prerouting priority -100"),
        ("outbound", "output priority -100"),
        ("leaving", "postrouting priority 100"),
    ];
    let rules = [inbound(policy), outbound(policy), leaving()];
    for ((name, hook), rules) in nat.iter().zip(rules) {
        chain(&mut text, name, &format!("nat hook {hook}"), &rules);
    }
    let filter = [("guard_inbound", "input"), ("guard_outbound", "output")];
    let rules = [guard_inbound(policy), guard_outbound(policy)];
    for ((name, hook), rules) in filter.iter().zip(rules) {
        chain(
            &mut text,
            name,
            &format!("filter hook {hook} priority 0"),
            &rules,
        );
    }
    text.push_str("}\n");
    text
}

/// Takes the table away, whether it was there or not.
#[must_use]
pub fn removal() -> &'static str {
    "table inet leno\ndelete table inet leno\n"
}

fn chain(text: &mut String, name: &str, kind: &str, rules: &[String]) {
    text.push_str(&format!(
        "\tchain {name} {{\n\t\ttype {kind}; policy accept;\n"
    ));
    for rule in rules {
        text.push_str(&format!("\t\t{rule}\n"));
    }
    text.push_str("\t}\n");
}

fn inbound(policy: &Policy) -> Vec<String> {
    let mut rules = pass_ipv6(policy);
    rules.push("iifname \"lo\" return".into());
    rules.extend(pass_ports(&policy.excluded_inbound_ports));
    let redirect = format!("meta l4proto tcp redirect to :{}", policy.inbound_port);
    let from = policy.interfaces.iter();
    rules.extend(from.map(|name| format!("iifname \"{name}\" {redirect}")));
    if policy.interfaces.is_empty() {
        rules.push(redirect);
    }
    rules
}

fn outbound(policy: &Policy) -> Vec<String> {
    let mut rules = pass_ipv6(policy);
    rules.push(format!("meta skuid {} return", policy.bypass_uid));
    rules.extend(
        policy
            .bypass_mark
            .map(|mark| format!("meta mark {mark:#x} return")),
    );
    if let Some(port) = policy.dns_port {
        // Before loopback passes: a resolver of this machine would answer without the mesh.
        rules.push(format!("udp dport 53 redirect to :{port}"));
        rules.push(format!("tcp dport 53 redirect to :{port}"));
    }
    rules.push("oifname \"lo\" return".into());
    rules.push("fib daddr type local return".into());
    rules.extend(pass_ports(&policy.excluded_outbound_ports));
    for cidr in &policy.excluded_cidrs {
        let family = if cidr.is_ipv6() { "ip6" } else { "ip" };
        rules.push(format!("{family} daddr {cidr} return"));
    }
    rules.push(format!(
        "meta l4proto tcp redirect to :{}",
        policy.outbound_port
    ));
    rules
}

/// A socket that is bound to a device sends what is redirected out by it all the same. Among nat,
/// which sees the first packet of a connection only: the others cost nothing.
fn leaving() -> Vec<String> {
    let loopback = ["ip daddr 127.0.0.0/8", "ip6 daddr ::1"];
    loopback
        .map(|range| format!("oifname != \"lo\" {range} drop"))
        .to_vec()
}

fn guard_inbound(policy: &Policy) -> Vec<String> {
    let mut rules = vec!["iifname \"lo\" accept".to_owned()];
    // Names are answered inside only; by TCP this port is redirected like any other.
    rules.extend(policy.dns_port.map(|port| format!("udp dport {port} drop")));
    if policy.ipv6 == Ipv6::Drop {
        rules.push("meta nfproto ipv6 meta l4proto != ipv6-icmp drop".into());
    }
    rules
}

fn guard_outbound(policy: &Policy) -> Vec<String> {
    let mut rules = Vec::new();
    if policy.ipv6 == Ipv6::Drop {
        let other = "oifname != \"lo\" meta nfproto ipv6 meta l4proto != ipv6-icmp";
        rules.push(format!("{other} reject with icmpv6 type admin-prohibited"));
    }
    // Not yet: those with which a connection begins. All others are done with here.
    rules.push("ct status assured accept".into());
    let ports: Vec<_> = policy
        .guarded_ports()
        .map(|port| port.to_string())
        .collect();
    let (ports, uid) = (ports.join(", "), policy.bypass_uid);
    rules.push(format!(
        "tcp sport {{ {ports} }} meta skuid != {{ 0, {uid} }} drop"
    ));
    rules.push("ct state != new accept".into());
    rules.push("ct status dnat accept".into());
    rules.push("meta skuid 0 accept".into());
    rules.push(format!("meta skuid {} accept", policy.bypass_uid));
    let guarded = policy.guarded_ports();
    rules.extend(
        guarded.map(|port| format!("oifname \"lo\" tcp dport {port} reject with tcp reset")),
    );
    rules
}

/// The guards see to what is not redirected.
fn pass_ipv6(policy: &Policy) -> Vec<String> {
    match policy.ipv6 {
        Ipv6::Redirect => Vec::new(),
        Ipv6::Drop => vec!["meta nfproto ipv6 return".into()],
    }
}

fn pass_ports(ports: &[RangeInclusive<u16>]) -> impl Iterator<Item = String> {
    ports
        .iter()
        .map(|range| match (range.start(), range.end()) {
            (first, last) if first == last => format!("tcp dport {first} return"),
            (first, last) => format!("tcp dport {first}-{last} return"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_everything() -> Policy {
        Policy {
            bypass_mark: Some(0x600),
            excluded_outbound_ports: vec![5432..=5432],
            excluded_cidrs: vec!["10.1.0.0/16".parse().unwrap(), "fd01::/16".parse().unwrap()],
            interfaces: vec!["eth0".parse().unwrap()],
            ..Policy::default()
        }
    }

    #[test]
    fn redirects_both_families_with_one_table() {
        let expected = "\
table inet leno
delete table inet leno
table inet leno {
	chain inbound {
		type nat hook prerouting priority -100; policy accept;
		iifname \"lo\" return
		tcp dport 15010 return
		tcp dport 15901-15904 return
		iifname \"eth0\" meta l4proto tcp redirect to :15003
	}
	chain outbound {
		type nat hook output priority -100; policy accept;
		meta skuid 1500 return
		meta mark 0x600 return
		udp dport 53 redirect to :15053
		tcp dport 53 redirect to :15053
		oifname \"lo\" return
		fib daddr type local return
		tcp dport 5432 return
		ip daddr 10.1.0.0/16 return
		ip6 daddr fd01::/16 return
		meta l4proto tcp redirect to :15001
	}
	chain leaving {
		type nat hook postrouting priority 100; policy accept;
		oifname != \"lo\" ip daddr 127.0.0.0/8 drop
		oifname != \"lo\" ip6 daddr ::1 drop
	}
	chain guard_inbound {
		type filter hook input priority 0; policy accept;
		iifname \"lo\" accept
		udp dport 15053 drop
	}
	chain guard_outbound {
		type filter hook output priority 0; policy accept;
		ct status assured accept
		tcp sport { 15000, 15001, 15003 } meta skuid != { 0, 1500 } drop
		ct state != new accept
		ct status dnat accept
		meta skuid 0 accept
		meta skuid 1500 accept
		oifname \"lo\" tcp dport 15000 reject with tcp reset
		oifname \"lo\" tcp dport 15001 reject with tcp reset
		oifname \"lo\" tcp dport 15003 reject with tcp reset
	}
}
";
        assert_eq!(script(&with_everything()), expected);
    }

    #[test]
    fn ipv6_that_is_dropped_is_not_redirected() {
        let text = script(&Policy {
            ipv6: Ipv6::Drop,
            ..Policy::default()
        });
        for rule in [
            "priority -100; policy accept;\n\t\tmeta nfproto ipv6 return\n\t\tiifname",
            "priority -100; policy accept;\n\t\tmeta nfproto ipv6 return\n\t\tmeta skuid",
            "\t\tmeta nfproto ipv6 meta l4proto != ipv6-icmp drop\n",
            "reject with icmpv6 type admin-prohibited\n",
        ] {
            assert!(text.contains(rule), "{rule}\n{text}");
        }
    }

    #[test]
    fn what_is_not_asked_for_is_left_out() {
        let text = script(&Policy {
            dns_port: None,
            admin_port: None,
            ..Policy::default()
        });
        assert!(!text.contains("udp") && !text.contains("15000"), "{text}");
    }
}
