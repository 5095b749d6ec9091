//! For whom resources are written: our own sidecar, or a stock Envoy. Passed down by `resource` to
//! every encoder; what differs is in `envoy`. What is read is always Leno's.

use model::Transport;

/// For whom resources are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// Leno's own sidecar, which takes what Envoy has no words for from metadata.
    #[default]
    Leno,
    /// A stock Envoy.
    Envoy,
}

impl Flavour {
    /// What an endpoint is spoken to with, by whoever is told: the hop is Leno's alone, and whoever
    /// speaks it speaks mesh TLS as well.
    pub(crate) const fn transport(self, of: Transport) -> Transport {
        match (self, of) {
            (Self::Envoy, Transport::Leno) => Transport::Mtls,
            _ => of,
        }
    }
}
