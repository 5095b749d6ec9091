//! THE table of examples, which `--help` and the manual pages end with. Added to the parsed options
//! by `main`; a test tries each of them, and that no command is without.

use clap::Command;

/// Command, and examples of it with a word about each.
#[rustfmt::skip]
static EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    ("", &[
        ("leno check", "what this machine allows"),
        ("leno up mesh.yaml", "run a mesh on this machine"),
        ("leno top", "who calls whom, and how it goes"),
    ]),
    ("bench capacity", &[
        ("leno bench capacity --quick", "roughly, in a few minutes"),
        ("leno bench capacity --objective p99.9=20 --connections 64", "another objective"),
    ]),
    ("bench compare", &[
        ("leno bench compare results/before results/after", "what changed beyond noise"),
        ("leno bench compare results/before results/after --fail-on-regression", "in a pipeline"),
    ]),
    ("bench cost", &[("leno bench cost --quick", "what a request costs, roughly")]),
    ("bench cpu", &[
        ("leno bench cpu --quick", "about a minute"),
        ("leno bench cpu --data-planes none,leno --qps 100,1000,5000", "other rates"),
    ]),
    ("bench latency", &[("leno bench latency --quick", "about a minute")]),
    (
        "bench throughput",
        &[("leno bench throughput --quick", "two minutes: a look at both links and both limits")],
    ),
    ("bench report", &[
        ("leno bench report results/latency-20260102-030405", "page, Markdown and CSV anew"),
    ]),
    ("bench scale", &[("leno bench scale --quick", "a control plane at a glance")]),
    ("cert ca", &[("leno cert ca --out mesh", "once for a mesh")]),
    ("cert issue", &[
        ("leno cert issue --ca mesh --id spiffe://cluster.local/ns/a/sa/b --out mesh --name b",
            "for a workload"),
    ]),
    ("cert show", &[("leno cert show mesh/web.pem", "who, from whom, until when")]),
    ("check", &[
        ("leno check", "for a mesh with the default ranges"),
        ("leno check mesh.yaml -o json", "for this mesh, for a program"),
    ]),
    ("completion", &[
        ("leno completion bash", "put it into ~/.local/share/bash-completion/completions/leno"),
    ]),
    ("demo", &[("leno demo", "no mesh, Leno, and Envoy if found")]),
    ("down", &[
        ("leno down", "the only mesh"),
        ("leno down shop", "one of several"),
    ]),
    ("exec", &[
        ("leno exec curl -- curl -s http://hello/", "a call as the workload curl makes it"),
        ("leno exec db.shop -- ss -tlnp", "what listens in its network"),
    ]),
    ("load serve", &[("leno load serve --port 8080", "what to make load for")]),
    ("load serve bookinfo", &[
        ("leno load serve bookinfo ratings --listen 0.0.0.0:9080", "one service of the sample"),
    ]),
    ("logs", &[
        ("leno logs", "of all applications"),
        ("leno logs -f --tail 10 hello", "the last lines of one, and those that come"),
        ("leno logs --sidecar hello-1", "what a sidecar has to say"),
    ]),
    ("logs", &[
        ("leno logs hello --tail 20", "the last lines of each of its instances"),
        ("leno logs -f --sidecar", "what all sidecars write, until Ctrl-C"),
    ]),
    ("man", &[("leno man /usr/local/share/man/man1", "every page")]),
    ("policy check", &[
        ("leno policy check curl hello", "in the mesh that runs"),
        ("leno policy check curl db.shop --file mesh.yaml", "before it runs"),
    ]),
    ("proxy certs", &[("leno proxy certs hello", "whether its certificate is still valid")]),
    ("proxy clusters", &[
        ("leno proxy clusters curl", "where curl's requests can go"),
        ("leno proxy clusters hello-1.shop -o json", "one instance of it, for a program"),
    ]),
    ("proxy config", &[
        ("leno proxy config hello", "what it is"),
        ("leno proxy config --port 15000 -o yaml", "a sidecar by itself, all of it"),
    ]),
    ("proxy listeners", &[("leno proxy listeners hello", "what it takes, and how")]),
    ("proxy routes", &[("leno proxy routes curl", "which requests go where")]),
    ("proxy stats", &[
        ("leno proxy stats curl", "everything"),
        ("leno proxy stats curl --filter handshake", "what has this in its name or labels"),
    ]),
    ("ps", &[("leno ps", "meshes, workloads, processes")]),
    ("restart", &[("leno restart hello", "one instance after the other")]),
    ("top", &[
        ("leno top", "until q"),
        ("leno top --once --interval 5 -o json", "five seconds, for a program"),
        ("leno top --sort latency", "the slowest first"),
    ]),
    ("up", &[
        ("leno up mesh.yaml", "and leave a supervisor that keeps it"),
        ("leno up mesh.yaml --name shop --foreground", "beside another mesh, until Ctrl-C"),
    ]),
    ("upgrade", &[
        ("leno upgrade --proxy ./leno-proxy hello", "try it with one workload first"),
        ("leno upgrade --proxy ./leno-proxy --control ./leno-control", "then with all"),
    ]),
];

/// Adds to each command its examples.
pub(crate) fn add(command: Command) -> Command {
    add_below(command, "")
}

fn add_below(mut command: Command, path: &str) -> Command {
    let mut rows = EXAMPLES.iter();
    if let Some((_, examples)) = rows.find(|(of, _)| *of == path) {
        command = command.after_help(text(examples));
    }
    let names: Vec<_> = command
        .get_subcommands()
        .map(|inner| inner.get_name().to_owned())
        .collect();
    for name in names {
        let path = format!("{path} {name}").trim_start().to_owned();
        command = command.mut_subcommand(name, |inner| add_below(inner, &path));
    }
    command
}

fn text(examples: &[(&str, &str)]) -> String {
    let widest = examples
        .iter()
        .map(|(line, _)| line.len())
        .max()
        .unwrap_or(0);
    let lines = examples
        .iter()
        .map(|(line, what)| format!("\n  {line:widest$}  # {what}"));
    format!("Examples:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn every_example_can_be_typed() {
        for (path, examples) in EXAMPLES {
            for (line, _) in *examples {
                let parsed = Cli::try_parse_from(line.split(' '));
                assert!(
                    parsed.is_ok(),
                    "{line}: {:?}",
                    parsed.err().map(|one| one.to_string())
                );
                assert!(
                    line.starts_with(format!("leno {path}").trim_end()),
                    "{line}"
                );
            }
        }
    }

    /// Commands that nobody has an example for: neither here nor in the words above their options.
    fn without(command: &Command, path: &str, found: &mut Vec<String>) {
        let inner = command
            .get_subcommands()
            .filter(|inner| !inner.is_hide_set());
        let inner: Vec<_> = inner.filter(|inner| inner.get_name() != "help").collect();
        let help = command.clone().render_long_help().to_string();
        let shown = format!("\n  leno {path}").trim_end().to_owned();
        if inner.is_empty() && !help.contains(&shown) {
            found.push(path.to_owned());
        }
        for command in inner {
            let path = format!("{path} {}", command.get_name());
            without(command, path.trim_start(), found);
        }
    }

    #[test]
    fn every_command_has_an_example() {
        let mut found = Vec::new();
        without(&add(Cli::command()), "", &mut found);
        assert_eq!(found, [""; 0]);
    }
}
