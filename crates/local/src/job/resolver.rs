//! A file over the machine's `/etc/resolv.conf`, in a mount namespace of this process's own: nobody
//! else sees it, and no file of the machine is written. Called by `job`.

use std::ffi::CStr;
use std::fs::{self, File, FileType};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Context;
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
};
use rustix::thread::UnshareFlags;

/// Who may look into the folder that is made anew: everybody.
const MODE: Option<&CStr> = Some(c"mode=0755");

/// Lets `file` lie over `resolver` for this thread and what it becomes.
pub(super) fn cover(file: &Path, resolver: &Path) -> anyhow::Result<()> {
    #[expect(deprecated, reason = "sound for NEWNS, which shares no descriptors")]
    rustix::thread::unshare(UnshareFlags::NEWNS).context("make a mount namespace")?;
    let mode = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", mode).context("keep mounts to ourselves")?;
    let covered = match fs::canonicalize(resolver) {
        // Often a link.
        Ok(target) => mount_bind(file, &target).map_err(io::Error::from),
        // None, or a link that leads nowhere: there is nothing that something could lie over.
        Err(_) => rebuild(file, resolver),
    };
    covered.with_context(|| format!("mount {} over {}", file.display(), resolver.display()))
}

/// The folder of `resolver` anew, with `file` and all else that is in it. What comes to the folder
/// later is not seen.
fn rebuild(file: &Path, resolver: &Path) -> io::Result<()> {
    let (folder, own) = match (resolver.parent(), resolver.file_name()) {
        (Some(folder), Some(own)) if folder.is_dir() => (folder, own),
        // Then resolvers ask the loopback address, which leads to the sidecar.
        _ => return Ok(()),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let before = open(folder, flags, Mode::empty())?;
    let entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    mount("leno", folder, "tmpfs", MountFlags::NOSUID, MODE)?;
    let before = Path::new("/proc/self/fd").join(before.as_raw_fd().to_string());
    for entry in entries.iter().filter(|entry| entry.file_name() != own) {
        let name = entry.file_name();
        let (from, to) = (before.join(&name), folder.join(&name));
        // One that went meanwhile is one that is not there.
        let _ = take_along(entry.file_type()?, &from, &to);
    }
    take_along(fs::metadata(file)?.file_type(), file, &folder.join(own))
}

fn take_along(kind: FileType, from: &Path, to: &Path) -> io::Result<()> {
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if kind.is_dir() {
        fs::create_dir(to)?;
    } else {
        File::create(to)?;
    }
    Ok(mount_bind_recursive(from, to)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    /// A folder like `/etc`, and what is to lie over its resolver's file.
    fn world() -> Option<(tempfile::TempDir, std::path::PathBuf)> {
        if !rustix::process::geteuid().is_root() {
            let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
            assert!(!promised, "this test needs root, which was promised");
            println!("SKIPPED: mounts need root");
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let etc = root.path().join("etc");
        fs::create_dir_all(etc.join("ssl")).unwrap();
        fs::write(etc.join("ssl/certificate"), "of all\n").unwrap();
        fs::write(etc.join("hosts"), "localhost\n").unwrap();
        fs::set_permissions(etc.join("hosts"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("hosts", etc.join("link")).unwrap();
        fs::write(root.path().join("ours"), "nameserver 10.0.0.1\n").unwrap();
        Some((root, etc))
    }

    /// What is at the resolver's path inside, and that all else is as it was, there and here.
    #[track_caller]
    fn check(prepare: impl FnOnce(&Path)) {
        let Some((root, etc)) = world() else {
            return;
        };
        let resolver = etc.join("resolv.conf");
        prepare(&resolver);
        let before = fs::read_to_string(&resolver).ok();
        let ours = root.path().join("ours");
        let inside = || {
            cover(&ours, &resolver).unwrap();
            assert_eq!(
                fs::read_to_string(etc.join("ssl/certificate")).unwrap(),
                "of all\n"
            );
            assert_eq!(fs::read_to_string(etc.join("link")).unwrap(), "localhost\n");
            let mode = fs::metadata(etc.join("hosts"))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
            fs::read_to_string(&resolver).unwrap()
        };
        // Its mount namespace ends with it.
        let found = thread::scope(|scope| scope.spawn(inside).join().unwrap());
        assert_eq!(found, "nameserver 10.0.0.1\n");
        assert_eq!(fs::read_to_string(&resolver).ok(), before);
        assert!(etc.join("hosts").exists());
    }

    #[test]
    fn covers_a_file_and_what_a_link_leads_to() {
        check(|resolver| fs::write(resolver, "nameserver 192.0.2.1\n").unwrap());
        check(|resolver| {
            fs::write(resolver.with_file_name("stub.conf"), "").unwrap();
            symlink("stub.conf", resolver).unwrap();
        });
    }

    #[test]
    fn a_link_that_leads_nowhere_and_none_at_all_are_no_obstacle() {
        check(|resolver| symlink("../run/none/stub.conf", resolver).unwrap());
        check(|resolver| symlink("resolv.conf", resolver).unwrap());
        check(|_| ());
    }
}
