//! Finds out about this machine: `local::machine` tries, the rest is read. Must never change
//! anything, nor fail where something is not there.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use control::kinds::{MeshConfig, Object};
use control::source::Source;
use local::folder;
use local::machine::{self, Groups, Trial};
use rustix::fs::{Access, access};
use rustix::process::{PidfdFlags, Resource, geteuid, getpid, getrlimit, pidfd_open};

use super::facts::Facts;

/// `file`: the mesh that is to run here.
pub(super) fn facts(file: Option<&Path>, runtime: &Path) -> anyhow::Result<Facts> {
    let wanted = wanted(file)?;
    // As `leno up` does: where root's are kept, nobody else's are.
    let runtime = match runtime == Path::new(folder::BASE) {
        true => folder::base(),
        false => runtime.to_owned(),
    };
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let version = numbers(&release);
    let is_root = geteuid().is_root();
    let trial = Trial::run(is_root);
    Ok(Facts {
        is_root,
        kernel: (release, version),
        user_namespaces: user_namespaces(),
        network_namespace: trial.made,
        iproute2: say("ip", &["-V"]),
        nft: trial.nft,
        iptables: trial.iptables,
        ip6tables: trial.ip6tables,
        original_destination: trial.original_destination,
        pidfd: pidfd_open(getpid(), PidfdFlags::empty()).is_ok(),
        ipv6: has_ipv6(),
        cgroups: Groups::find(),
        taken: machine::taken(&wanted),
        wanted,
        bridge_filter: flag("/proc/sys/net/bridge/bridge-nf-call-iptables"),
        forwarding: (
            flag("/proc/sys/net/ipv4/ip_forward") == Some(true),
            flag("/proc/sys/net/ipv6/conf/all/forwarding") == Some(true),
        ),
        runtime: (runtime.clone(), unfit(&runtime)),
        // Sidecars raise their own limit as far as it goes.
        descriptors: getrlimit(Resource::Nofile).maximum,
        clock: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    })
}

fn wanted(file: Option<&Path>) -> anyhow::Result<Vec<String>> {
    let mut config = MeshConfig::default();
    if let Some(file) = file {
        let resources = Source::open(vec![file.to_path_buf()]).read()?;
        let mut objects = resources.iter().map(|resource| &resource.object);
        let found = objects.find_map(|object| match object {
            Object::MeshConfig(config) => Some(config.clone()),
            _ => None,
        });
        config = found.unwrap_or_default();
    }
    let ranges = config.workload_cidrs.iter().chain(&config.service_cidrs);
    Ok(ranges.map(ToString::to_string).collect())
}

/// `6.8.0-45-generic` → 6.8.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn user_namespaces() -> bool {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    number("/proc/sys/user/max_user_namespaces").is_some_and(|most| most > 0)
        && number("/proc/sys/kernel/unprivileged_userns_clone") != Some(0)
        && number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").unwrap_or(0) == 0
}

fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

fn flag(path: &str) -> Option<bool> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim() != "0")
}

/// Why meshes cannot be kept in `folder`, which need not be there yet.
fn unfit(folder: &Path) -> Option<String> {
    let there = folder.ancestors().find(|path| path.exists())?;
    let found = match fs::metadata(there) {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    if let Err(error) = access(there, Access::WRITE_OK | Access::EXEC_OK) {
        return Some(io::Error::from(error).to_string());
    }
    let is_ours = found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0;
    if there == folder && !is_ours {
        return Some("others may write there".to_owned());
    }
    (!found.is_dir()).then(|| "is no folder".to_owned())
}

/// The first line that a program says.
fn say(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_kernel_is_known_by_its_first_two_numbers() {
        assert_eq!(numbers("6.8.0-45-generic"), Some((6, 8)));
        assert_eq!(numbers("5.15"), Some((5, 15)));
        assert_eq!(numbers("next"), None);
    }

    #[test]
    fn a_folder_must_be_ours_alone_or_can_be_made() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(unfit(&folder.path().join("run/leno")), None);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(
            unfit(folder.path()),
            Some("others may write there".to_owned())
        );
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(unfit(&file), Some("is no folder".to_owned()));
    }

    #[test]
    fn ranges_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mesh.yaml");
        let text = "apiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh}\n\
                    spec: {workloadCIDRs: [10.1.0.0/24], serviceCIDRs: [10.2.0.0/24]}\n";
        fs::write(&file, text).unwrap();
        assert_eq!(wanted(Some(&file)).unwrap(), ["10.1.0.0/24", "10.2.0.0/24"]);
        assert_eq!(wanted(None).unwrap().len(), 4);
        assert!(wanted(Some(&folder.path().join("none"))).is_err());
    }
}
