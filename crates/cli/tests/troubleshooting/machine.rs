//! This machine as one that lacks something, for as long as one program runs: without rights, in
//! namespaces of its own, or with another `$PATH`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::World;

/// `network namespaces missing` → what is lacking, and how that is called, with what else is said.
pub(crate) fn parts(row: &str) -> (&str, &str) {
    let places = [" missing", " warning"].map(|status| row.find(status));
    let place = places.into_iter().flatten().min().unwrap();
    (&row[..place], row[place..].trim_start())
}

/// What `leno check` says there.
pub(crate) fn check(leno: &Path, there: There) -> String {
    let There { words, path, name } = there;
    let (program, args) = words.split_first().unwrap();
    let mut command = Command::new(program);
    command.args(args).arg(leno).arg("check");
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let output = command.output().unwrap();
    if let Some(name) = name {
        ip(&["netns", "del", &name]);
    }
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8(both).unwrap()
}

/// Where a program is run: words before it, `$PATH`, and the network namespace that goes after it.
#[derive(Default)]
pub(crate) struct There {
    words: Vec<String>,
    path: Option<PathBuf>,
    name: Option<String>,
}

fn there(words: &[&str]) -> There {
    There {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        ..There::default()
    }
}

pub(crate) fn that_lacks(name: &str, world: &World) -> There {
    let hidden = |script: &str| {
        there(&[
            "unshare",
            "-m",
            "sh",
            "-c",
            &format!("{script}; exec \"$@\""),
            "sh",
        ])
    };
    match name {
        "root" => there(&[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]),
        "network namespaces" => there(&["setpriv", "--bounding-set=-sys_admin"]),
        "interception" => without_rules(world),
        "addresses" => with_docker(world),
        "bridges" => hidden(
            "mount -t tmpfs none /proc/sys/net && mkdir /proc/sys/net/bridge && \
             echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables",
        ),
        "cgroups" => hidden(
            "grep -e ' - cgroup' /proc/self/mountinfo | cut -d ' ' -f 5 | while read -r at; do \
             umount -l \"$at\"; done",
        ),
        other => panic!("this test does not know how a machine lacks {other}"),
    }
}

/// With `ip`, and nothing else.
pub(crate) fn without_rules(world: &World) -> There {
    let folder = world.path("path");
    if !folder.exists() {
        fs::create_dir(&folder).unwrap();
        symlink(which("ip"), folder.join("ip")).unwrap();
    }
    There {
        path: Some(folder),
        ..there(&[&which("env").display().to_string()])
    }
}

/// The default addresses are somebody's, in a network that is not this machine's.
fn with_docker(world: &World) -> There {
    let name = format!("{}-docker", world.name());
    ip(&["netns", "add", &name]);
    ip(&["-n", &name, "link", "add", "docker0", "type", "bridge"]);
    ip(&[
        "-n",
        &name,
        "address",
        "add",
        "10.77.0.1/16",
        "dev",
        "docker0",
    ]);
    ip(&["-n", &name, "link", "set", "docker0", "up"]);
    There {
        name: Some(name.clone()),
        ..there(&["ip", "netns", "exec", &name])
    }
}

fn which(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.exists()).unwrap()
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args:?}: {said}");
}
