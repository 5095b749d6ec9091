//! What was encoded is decoded to the same, and bytes that were changed on the way to something
//! that can be encoded, or to an error.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use xds::kind::Kind;
use xds::resource::{Resource, canonical, decode, encode};

use super::corpus::check;
use super::values;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_sent_arrives(sent in values::resource()) {
        let bytes = encode(&sent).unwrap();
        let arrived = decode(sent.kind(), &bytes).unwrap();
        prop_assert_eq!(&arrived.value, &canonical(&sent));
        prop_assert_eq!(&arrived.ignored, &[]);
        prop_assert_eq!(arrived.value.name(), sent.name());
    }

    #[test]
    fn what_arrived_is_sent_on_as_it_came(sent in values::resource()) {
        let arrived = canonical(&sent);
        prop_assert_eq!(&canonical(&arrived), &arrived);
        let travels_whole = match sent {
            Resource::Routes { .. } | Resource::Endpoints { .. } => true,
            Resource::Bundle(_) | Resource::Certificate(_) => true,
            Resource::Listener(_) | Resource::Foreign { .. } | Resource::Cluster(_) => false,
        };
        if travels_whole {
            prop_assert_eq!(encode(&sent).unwrap(), encode(&arrived).unwrap());
        }
    }

    #[test]
    fn bytes_that_were_changed_make_no_panic(
        sent in values::resource(),
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
        end in any::<Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = encode(&sent).unwrap().to_vec();
        prop_assert!(!bytes.is_empty());
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len() + 1));
        }
        check(sent.kind(), &bytes);
    }

    #[test]
    fn any_bytes_make_no_panic(bytes in vec(any::<u8>(), 0..200)) {
        for kind in Kind::ALL {
            check(kind, &bytes);
        }
    }
}
