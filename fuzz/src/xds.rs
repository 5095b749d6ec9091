//! What must hold of resources for any bytes. Called by the target `xds_decode` and, over the
//! checked-in seeds, by xds's own tests. Panics where it does not hold. No part of the library,
//! which is built into tests that know no resources.

use xds::kind::Kind;
use xds::resource::{canonical, decode, encode};

/// The first byte chooses the kind of resource, the others are one.
pub fn xds_decode(data: &[u8]) {
    if let Some((first, bytes)) = data.split_first() {
        check(kind(*first), bytes);
    }
}

/// The kind that a first byte stands for.
pub fn kind(first: u8) -> Kind {
    Kind::ALL[usize::from(first) % Kind::COUNT]
}

/// Whatever is taken keeps the model's invariants, so that it can be sent on; and it arrives there
/// as it was taken.
pub fn check(kind: Kind, bytes: &[u8]) {
    let Ok(taken) = decode(kind, bytes) else {
        return;
    };
    assert_eq!(taken.value.kind(), kind);
    assert_eq!(canonical(&taken.value), taken.value);
    let sent = encode(&taken.value).expect("what was taken keeps its invariants");
    let again = decode(kind, &sent).expect("what we send is taken");
    assert_eq!(again.value, taken.value);
    assert_eq!(again.ignored, []);
}
