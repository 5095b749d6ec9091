//! Ranges of IP addresses as a resource has them: with nothing set beyond their bits. Called by the
//! reader of a MeshConfig.

pub use model::Cidr;
use yaml::{Fault, Node, quote};

pub(super) fn read(node: &Node) -> Result<Cidr, Fault> {
    let word = node.text()?;
    exact(word).ok_or_else(|| {
        let hint = "write address/bits with nothing set beyond the bits, as in 10.78.0.0/16";
        node.fault(format!("{} is not a range of addresses", quote(word)), hint)
    })
}

/// The range that `text` names by its lowest address: another is likely a slip of the pen.
fn exact(text: &str) -> Option<Cidr> {
    let (address, _) = text.split_once('/')?;
    let cidr: Cidr = text.parse().ok()?;
    (cidr.nth(0) == address.parse().ok()).then_some(cidr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_nothing_beyond_its_bits() {
        for good in [
            "10.78.0.0/16",
            "0.0.0.0/0",
            "1.2.3.4/32",
            "fd78::/112",
            "::/0",
        ] {
            assert_eq!(exact(good).map(|cidr| cidr.to_string()), Some(good.into()));
        }
        for bad in [
            "10.78.0.1/16",
            "10.0.0.0/33",
            "fd78::1/112",
            "10.0.0.0",
            "10.0.0.0/+8",
            "a/8",
        ] {
            assert_eq!(exact(bad), None, "{bad}");
        }
    }
}
