//! What this machine is, for `environment.json`. Reads `/proc` and `/sys`; never fails: what
//! cannot be found out is said to be unknown.

use std::fs;
use std::path::Path;

use crate::process::usable_cpus;
use crate::results::Environment;

/// The parts of the description that depend on the machine alone.
pub fn describe() -> Environment {
    let load = word_list("/proc/loadavg");
    let average = |index: usize| load.get(index).and_then(|word| word.parse().ok());
    Environment {
        taken: crate::clock::now(),
        kernel: kernel(),
        system: system(),
        cpu_model: info("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
        cpus: usable_cpus().len(),
        memory_bytes: memory_bytes(),
        congestion_control: line("/proc/sys/net/ipv4/tcp_congestion_control"),
        load_average: [0, 1, 2].map(|index| average(index).unwrap_or(0.0)),
        virtualisation: virtualisation(),
        clock: format!(
            "CLOCK_MONOTONIC, source {}",
            line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        ),
        ..Environment::default()
    }
}

/// Load average over the last minute.
pub(crate) fn load_average() -> Option<f64> {
    word_list("/proc/loadavg").first()?.parse().ok()
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .next()
        .map_or_else(unknown, |line| line.trim().to_owned())
}

fn word_list(path: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The value of the first `key : value` or `key=value` line.
fn info(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once([':', '=']));
    pairs.find_map(|(name, value)| {
        (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
    })
}

fn kernel() -> String {
    let name = rustix::system::uname();
    let parts = [name.sysname(), name.release(), name.machine()];
    parts
        .map(|part| part.to_string_lossy().into_owned())
        .join(" ")
}

fn system() -> String {
    info("/etc/os-release", "PRETTY_NAME").unwrap_or_else(unknown)
}

fn memory_bytes() -> u64 {
    let text = info("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kib = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn virtualisation() -> Vec<String> {
    let mut hints = Vec::new();
    let flags = info("/proc/cpuinfo", "flags").unwrap_or_default();
    if flags.split(' ').any(|flag| flag == "hypervisor") {
        hints.push("the CPU reports a hypervisor".to_owned());
    }
    for file in ["sys_vendor", "product_name"] {
        if let Ok(text) = fs::read_to_string(format!("/sys/class/dmi/id/{file}")) {
            hints.push(format!("{file}: {}", text.trim()));
        }
    }
    if let Ok(text) = fs::read_to_string("/sys/hypervisor/type") {
        hints.push(format!("hypervisor type {}", text.trim()));
    }
    for (file, what) in [("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")] {
        if Path::new(file).exists() {
            hints.push(format!("inside a {what} container"));
        }
    }
    hints
}
