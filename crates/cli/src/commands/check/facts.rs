//! What was found out about this machine. Made by `gather`, read by `judge`; says nothing of what
//! it means.

use std::path::PathBuf;

use local::machine::{Groups, Tool};

/// Everything that is looked at.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) is_root: bool,
    /// `uname -r`, and its first two numbers.
    pub(super) kernel: (String, Option<(u32, u32)>),
    /// Whether somebody who is not root may make one.
    pub(super) user_namespaces: bool,
    /// Whether one could be made, with what `ip` said; none: not tried, without root.
    pub(super) network_namespace: Option<Result<(), String>>,
    /// What `ip -V` says.
    pub(super) iproute2: Option<String>,
    pub(super) nft: Tool,
    pub(super) iptables: Tool,
    pub(super) ip6tables: Tool,
    /// Whether the kernel says where a redirected connection was made to; none: not tried.
    pub(super) original_destination: Option<bool>,
    pub(super) pidfd: bool,
    pub(super) ipv6: bool,
    pub(super) cgroups: Groups,
    /// Ranges that the mesh wants.
    pub(super) wanted: Vec<String>,
    /// Those of them that lead elsewhere already: which, where to.
    pub(super) taken: Vec<(String, String)>,
    /// Whether the machine's rules see what crosses its bridges; none: without `br_netfilter`.
    pub(super) bridge_filter: Option<bool>,
    /// Of IPv4 and IPv6.
    pub(super) forwarding: (bool, bool),
    /// Where meshes are to be kept, and what is wrong with it.
    pub(super) runtime: (PathBuf, Option<String>),
    /// Descriptors that a process may have; none: as many as it likes.
    pub(super) descriptors: Option<u64>,
    /// Seconds since 1970.
    pub(super) clock: u64,
}
