//! Redirection: which connections of a network namespace go to its sidecar, as rules for nftables
//! or iptables. The texts are pure; `apply` and `remove` hand them to the system's own tools.
//! Called by whoever makes a workload's namespace. Must never touch a rule that is not ours.

/// What is to be redirected, and what is not.
pub mod policy;

/// Policy → a script for `nft`.
pub mod nft;

/// Policy → input for `iptables-restore` and `ip6tables-restore`.
pub mod iptables;

/// Puts rules into a namespace and takes them out again.
pub mod apply;

/// Doing something inside another network namespace.
pub mod netns;

pub use apply::{Backend, Error, apply, remove};
pub use model::{Cidr, CidrError};
pub use policy::{Interface, Ipv6, Policy};
