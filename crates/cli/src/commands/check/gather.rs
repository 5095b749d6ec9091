//! Finds out about this machine. What can only be known by trying is tried in a network namespace
//! that is made for it. Must never change anything else, nor fail where something is not there.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use control::kinds::{MeshConfig, Object};
use control::source::Source;
use intercept::{Backend, Cidr, Error, Policy, netns};
use local::inspect::{self, Groups};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::net::sockopt::ip_original_dst;
use rustix::process::{PidfdFlags, Resource, geteuid, getpid, getrlimit, pidfd_open};

use super::facts::{Facts, Tool};

/// `file`: the mesh that is to run here.
pub(super) fn facts(file: Option<&Path>, runtime: &Path) -> anyhow::Result<Facts> {
    let wanted = wanted(file)?;
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
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
        taken: taken(&wanted),
        wanted,
        bridge_filter: flag("/proc/sys/net/bridge/bridge-nf-call-iptables"),
        forwarding: (
            flag("/proc/sys/net/ipv4/ip_forward") == Some(true),
            flag("/proc/sys/net/ipv6/conf/all/forwarding") == Some(true),
        ),
        runtime: (runtime.to_owned(), unfit(runtime)),
        // Sidecars raise their own limit as far as it goes.
        descriptors: getrlimit(Resource::Nofile).maximum,
        clock: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    })
}

fn wanted(file: Option<&Path>) -> anyhow::Result<Vec<(String, &'static str)>> {
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
    let shown = |ranges: &[control::kinds::Cidr], what| {
        let ranges = ranges.iter().map(|range| (range.to_string(), what));
        ranges.collect::<Vec<_>>()
    };
    let mut wanted = shown(&config.workload_cidrs, "workloads");
    wanted.extend(shown(&config.service_cidrs, "Services"));
    Ok(wanted)
}

/// Those that lead elsewhere; without `ip` nobody knows.
fn taken(wanted: &[(String, &'static str)]) -> Vec<(String, String)> {
    let routes = inspect::routes().unwrap_or_default();
    let clash = |text: &String| {
        let range: Cidr = text.parse().ok()?;
        let (_, by) = routes.iter().find(|(route, _)| route.overlaps(&range))?;
        Some((text.clone(), by.clone()))
    };
    wanted.iter().filter_map(|(range, _)| clash(range)).collect()
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

/// What was tried in a namespace that is gone again.
struct Trial {
    made: Option<Result<(), String>>,
    nft: Tool,
    iptables: Tool,
    ip6tables: Tool,
    original_destination: Option<bool>,
}

impl Trial {
    fn run(is_root: bool) -> Self {
        let made = is_root.then(Namespace::make);
        let untried = |program| if is_there(program) { Tool::Untried } else { Tool::Absent };
        let mut trial = Self {
            nft: untried("nft"),
            iptables: untried("iptables-restore"),
            ip6tables: untried("ip6tables-restore"),
            original_destination: None,
            made: None,
        };
        match made {
            Some(Ok(namespace)) => {
                trial.made = Some(Ok(()));
                trial.try_rules(&namespace.path());
            }
            Some(Err(said)) => trial.made = Some(Err(said)),
            None => {}
        }
        trial
    }

    fn try_rules(&mut self, namespace: &Path) {
        let apply = |backend| intercept::apply(Some(namespace), &Policy::default(), backend);
        let mut original = |works: bool| {
            let answer = works.then(|| netns::inside(namespace, knows_destinations));
            let answer = answer.and_then(Result::ok).flatten();
            self.original_destination = self.original_destination.or(answer);
        };
        let nft = apply(Backend::Nft);
        original(nft.is_ok());
        self.nft = tool(nft.err());
        let _ = intercept::remove(Some(namespace), Backend::Nft);
        let iptables = apply(Backend::Iptables);
        original(iptables.is_ok());
        (self.iptables, self.ip6tables) = match iptables.err() {
            // It takes the two in turn.
            Some(error) if program(&error).is_some_and(|name| name.starts_with("ip6")) => {
                (Tool::Works, tool(Some(error)))
            }
            error => {
                let both = tool(error);
                (both.clone(), both)
            }
        };
    }
}

fn tool(error: Option<Error>) -> Tool {
    match error {
        None => Tool::Works,
        Some(Error::Missing { .. }) => Tool::Absent,
        Some(error) => Tool::Fails(error.to_string().lines().collect::<Vec<_>>().join(" ")),
    }
}

const fn program(error: &Error) -> Option<&'static str> {
    match error {
        Error::Missing { program, .. }
        | Error::Refused { program, .. }
        | Error::Run { program, .. } => Some(program),
        Error::Namespace { .. } | Error::Neither { .. } => None,
    }
}

/// Whether the kernel remembers where connections were made to. For one that was not redirected it
/// says that it has nothing, if it is able to.
fn knows_destinations() -> Option<bool> {
    run("ip", &["link", "set", "lo", "up"])?;
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    let address = listener.local_addr().ok()?;
    let _client = TcpStream::connect(address).ok()?;
    let (accepted, _) = listener.accept().ok()?;
    match ip_original_dst(&accepted) {
        Ok(_) | Err(Errno::NOENT) => Some(true),
        Err(_) => Some(false),
    }
}

/// A network namespace, removed when dropped.
struct Namespace(String);

impl Namespace {
    fn make() -> Result<Self, String> {
        let name = format!("leno-check-{}", std::process::id());
        let output = run("ip", &["netns", "add", &name]).ok_or("there is no `ip`")?;
        match output.status.success() {
            true => Ok(Self(name)),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.0)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run("ip", &["netns", "del", &self.0]);
    }
}

fn run(program: &str, args: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).output().ok()
}

/// The first line that a program says.
fn say(program: &str, args: &[&str]) -> Option<String> {
    let output = run(program, args)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next().unwrap_or_default().to_owned())
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
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
        assert_eq!(unfit(folder.path()), Some("others may write there".to_owned()));
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
        let expected = [
            ("10.1.0.0/24".to_owned(), "workloads"),
            ("10.2.0.0/24".to_owned(), "Services"),
        ];
        assert_eq!(wanted(Some(&file)).unwrap(), expected);
        assert_eq!(wanted(None).unwrap().len(), 4);
        assert!(wanted(Some(&folder.path().join("none"))).is_err());
    }
}
