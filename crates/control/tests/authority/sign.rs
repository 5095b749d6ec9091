//! The certificate service: what a call must bring, and how it ends.

use control::sign::{Caller, Signer};
use http::HeaderMap;
use xds::grpc::{Code, Status};
use xds::proto::identity::{SignRequest, SignResponse};

use crate::world::{World, csr, ders};

fn headers(values: &[&str]) -> HeaderMap {
    let mut metadata = HeaderMap::new();
    for value in values {
        metadata.append("authorization", value.parse().unwrap());
    }
    metadata
}

fn call(
    world: &World,
    authorization: &[&str],
    chain: Option<&str>,
    csr: Vec<u8>,
) -> Result<SignResponse, Status> {
    let signer = Signer::new(world.authority().clone(), world.directory());
    let (metadata, chain) = (headers(authorization), chain.map(ders));
    let caller = Caller {
        metadata: &metadata,
        chain: chain.as_deref(),
    };
    let request = SignRequest { csr: csr.into() };
    signer.sign(&request, caller, world.now)
}

#[test]
fn answer_has_the_chain_and_whom_to_trust() {
    let world = World::new();
    let bearer = format!("Bearer {}", world.token("a").as_str());
    let answer = call(&world, &[&bearer], None, csr("a")).unwrap();
    assert_eq!(answer.not_after, 1_800_000_000 + 24 * 60 * 60);
    assert_eq!(answer.trust_bundle, world.authority().bundle().authorities);
    let answer = call(&world, &[], Some(&answer.chain), csr("a")).unwrap();
    assert_eq!(answer.chain.matches("BEGIN").count(), 2);
}

#[test]
fn end_of_a_call_says_why() {
    let world = World::new();
    let a = world.enrol("a");
    let stranger = World::new().enrol("a");
    let token = world.token("a");
    let [bearer, lower, basic] =
        ["Bearer", "bearer", "Basic"].map(|scheme| format!("{scheme} {}", token.as_str()));
    let check = |headers: &[&str], chain: Option<&str>, csr: Vec<u8>, code: Code| {
        let status = call(&world, headers, chain, csr).unwrap_err();
        assert_eq!(status.code, code, "{headers:?}: {status}");
        assert!(!status.message.contains(token.as_str()));
    };
    check(&[], None, csr("a"), Code::Unauthenticated);
    check(&[], Some(""), csr("a"), Code::Unauthenticated);
    check(&["Bearer x"], None, csr("a"), Code::Unauthenticated);
    check(&["Bearer"], Some(&a.chain), csr("a"), Code::Unauthenticated);
    check(&[&basic], None, csr("a"), Code::Unauthenticated);
    check(&[&bearer, &bearer], None, csr("a"), Code::Unauthenticated);
    check(&[], Some(&stranger.chain), csr("a"), Code::Unauthenticated);
    check(&[], Some(&a.chain), csr("b"), Code::InvalidArgument);
    check(&[], Some(&a.chain), Vec::new(), Code::InvalidArgument);
    check(&[&bearer], None, vec![0x30; 9000], Code::InvalidArgument);
    let mesh = std::mem::take(&mut *world.mesh.lock().unwrap());
    check(&[], Some(&a.chain), csr("a"), Code::PermissionDenied);
    *world.mesh.lock().unwrap() = mesh;
    call(&world, &[&lower], Some(&stranger.chain), csr("a")).unwrap();
    let mut ends = (0..100).map(|_| call(&world, &[], Some(&a.chain), csr("a")));
    let end = ends.find_map(Result::err).unwrap();
    assert_eq!(end.code, Code::ResourceExhausted, "{end}");
}

#[test]
fn hostile_requests_end_and_leave_no_trace() {
    let world = World::new();
    let a = world.enrol("a");
    let good = csr("a");
    for length in 0..good.len() {
        let _ = control_error(&world, good[..length].to_vec(), &a.chain);
    }
    assert_eq!(
        world.authority().status(world.now).issuers[0].certificates,
        1
    );
}

fn control_error(world: &World, csr: Vec<u8>, chain: &str) -> Code {
    call(world, &[], Some(chain), csr).unwrap_err().code
}
