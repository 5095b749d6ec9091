//! A second network namespace, joined to the benchmark's own by a slow and lossy link.
//! Called by `lossy`, only inside a namespace of the benchmark's own: nothing here is seen by, or
//! outlives in, the machine's network.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::link::Link;
use super::netns;

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
/// Each direction of the link: mean delay, its spread, share of packets lost.
pub(crate) const LINK: &str = "delay 10ms 2ms loss 1%";
/// Stands in the namespace until its input closes, which it does even if we are killed.
const HOLD: &str = "ip link set lo up && echo ready && exec cat";

/// The other network; dropped, it goes with whatever has left it.
pub(crate) struct Far {
    holder: Child,
    here: File,
    there: File,
    /// Its two directions, where the kernel cannot do it.
    links: Vec<Link>,
}

impl Far {
    /// Makes the namespace and the link.
    ///
    /// # Errors
    /// Without root, or where the kernel lacks what it takes. Should it lack netem only, threads
    /// on `core` do what netem does.
    pub(crate) fn build(core: Option<usize>, seed: u64) -> anyhow::Result<Self> {
        ensure!(netns::is_inside(), "no network namespaces can be made here");
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", HOLD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start unshare")?;
        let output = holder.stdout.take().context("unshare has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let there = File::open(format!("/proc/{}/ns/net", holder.id()));
        let mut far = Self {
            links: Vec::new(),
            here: File::open("/proc/thread-self/ns/net")?,
            there: there.context("open the other namespace")?,
            holder,
        };
        ensure!(line == "ready\n", "no second network namespace can be made");
        far.join()?;
        if let Err(netem) = far.slow_down() {
            far.links = far.hold_up(core, seed).with_context(|| netem.to_string())?;
        }
        Ok(far)
    }

    /// How the link is made, for the record.
    pub(crate) fn maker(&self) -> &'static str {
        match self.links.is_empty() {
            true => "netem",
            false => "packets held up in user space: this kernel has no netem",
        }
    }

    /// Lays a pair of virtual devices.
    fn join(&self) -> anyhow::Result<()> {
        let pid = self.holder.id();
        run(&format!(
            "ip link add near type veth peer name far netns {pid}"
        ))?;
        end("near", NEAR)?;
        self.within(|| {
            end("far", FAR)?;
            // A new namespace has the machine's default, not ours.
            fs::write(netns::DEFAULT, netns::CONGESTION).context("set the congestion control")
        })?
    }

    /// Has the kernel delay and lose what each device sends.
    fn slow_down(&self) -> anyhow::Result<()> {
        // First there: what fails has changed nothing here.
        self.within(|| run(&format!("tc qdisc add dev far root netem {LINK}")))??;
        run(&format!("tc qdisc add dev near root netem {LINK}"))
    }

    /// Delays and loses what comes in through each device.
    fn hold_up(&self, core: Option<usize>, seed: u64) -> anyhow::Result<Vec<Link>> {
        let near = Link::lay("near", core, seed)?;
        let far = self.within(|| Link::lay("far", core, seed.wrapping_add(1)))??;
        Ok(vec![near, far])
    }

    /// Runs `work` with the calling thread, and all that it starts, in the other network.
    ///
    /// # Errors
    /// When the thread cannot move.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> anyhow::Result<T> {
        enter(&self.there)?;
        let result = work();
        enter(&self.here)?;
        Ok(result)
    }

    /// An address over there, reached over the link, whose port nobody holds at this moment.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn free_address(&self) -> anyhow::Result<SocketAddr> {
        self.within(|| Ok(TcpListener::bind((FAR, 0))?.local_addr()?))?
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn enter(network: &File) -> anyhow::Result<()> {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
        .context("move to another network namespace")
}

fn end(device: &str, address: Ipv4Addr) -> anyhow::Result<()> {
    run(&format!("ip addr add {address}/24 dev {device}"))?;
    run(&format!("ip link set {device} up"))
}

fn run(line: &str) -> anyhow::Result<()> {
    let mut words = line.split_whitespace();
    let program = words.next().context("an empty command")?;
    let output = Command::new(program)
        .args(words)
        .output()
        .with_context(|| format!("start {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{line}: {}", said.lines().next().unwrap_or("failed"));
    }
    Ok(())
}
