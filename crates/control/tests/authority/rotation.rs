//! A root replaces another, and at no moment does a sidecar refuse another: walked once by hand,
//! and at random.

use control::authority::{Error, Phase};

use crate::world::{MINUTE, Sidecar, World, id};

fn roots(world: &World) -> String {
    std::fs::read_to_string(world.dir.path().join("root.pem")).unwrap()
}

fn generation(world: &World) -> u64 {
    *world.authority().watch().borrow()
}

#[test]
fn root_is_replaced_step_by_step() {
    let mut world = World::new();
    let (mut a, mut b, old) = (world.enrol("a"), world.enrol("b"), roots(&world));
    world.authority().begin_rotation(world.now).unwrap();
    let again = world.authority().begin_rotation(world.now).unwrap_err();
    assert!(
        matches!(again, Error::Rotating(Phase::Distributing)),
        "{again}"
    );
    // The new root is known, and issues nothing.
    assert!(roots(&world).starts_with(&old) && roots(&world) != old);
    a.learn(&world);
    assert!(a.credentials(&world).is_from_newest_authority());
    assert_eq!(world.advance(generation(&world) - 1), Phase::Distributing);
    b.learn(&world);
    assert_eq!(world.advance(generation(&world)), Phase::Issuing);
    // Now it issues, and everybody who is told renews.
    assert_eq!(world.advance(generation(&world)), Phase::Issuing);
    for sidecar in [&mut a, &mut b] {
        sidecar.learn(&world);
        assert!(!sidecar.credentials(&world).is_from_newest_authority());
        assert!(sidecar.rests_on_first_root(&sidecar.chain, &world));
        sidecar.renew(&world).unwrap();
        assert!(sidecar.credentials(&world).is_from_newest_authority());
    }
    assert_eq!(world.advance(generation(&world) - 1), Phase::Issuing);
    assert_eq!(world.advance(generation(&world)), Phase::Issuing);
    // A little later all of them show what they have, and connections come to rest on it.
    let before = a.credentials(&world).bundle_fingerprint();
    world.now += MINUTE;
    assert_eq!(world.advance(generation(&world)), Phase::Reconnecting);
    a.learn(&world);
    assert_ne!(a.credentials(&world).bundle_fingerprint(), before);
    assert!(a.rests_on_first_root(&b.chain, &world));
    assert_eq!(world.advance(generation(&world)), Phase::Reconnecting);
    world.now += MINUTE;
    assert_eq!(world.advance(generation(&world) - 1), Phase::Reconnecting);
    assert_eq!(world.advance(generation(&world)), Phase::Retiring);
    assert!(!roots(&world).contains(&old));
    assert_eq!(world.advance(generation(&world) - 1), Phase::Retiring);
    a.learn(&world);
    assert_eq!(a.accepts(&b.chain, &world), Ok(id("b")));
    assert_eq!(world.advance(generation(&world)), Phase::Stable);
    assert_eq!(world.advance(generation(&world)), Phase::Stable);
    assert_eq!(world.authority().status(world.now).roots.len(), 1);
    world.authority().begin_rotation(world.now).unwrap();
}

#[test]
fn sidecar_that_is_away_holds_the_rotation_until_its_certificate_is_over() {
    let mut world = World::new();
    let away = world.enrol("a");
    world.authority().begin_rotation(world.now).unwrap();
    assert_eq!(world.advance(u64::MAX), Phase::Issuing);
    world.now += 23 * 60 * MINUTE;
    assert_eq!(world.advance(u64::MAX), Phase::Issuing);
    assert_eq!(away.accepts(&away.chain, &world), Ok(id("a")));
    world.now += 2 * 60 * MINUTE;
    world.advance(u64::MAX);
    for phase in [Phase::Reconnecting, Phase::Retiring] {
        world.now += MINUTE;
        assert_eq!(world.advance(u64::MAX), phase);
    }
}

/// Numbers that look random and are the same each time (Steele and others, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// A sidecar, and which generation of the bundle it has.
struct Member(Sidecar, u64);

fn everybody_accepts_everybody(world: &World, members: &[Member], seed: u64) {
    for Member(one, _) in members {
        for Member(other, _) in members {
            let found = one.accepts(&other.chain, world);
            assert_eq!(found, Ok(id(&other.name)), "seed {seed}: {}", one.name);
        }
    }
}

fn step(world: &mut World, members: &mut [Member], random: &mut Random) -> Phase {
    let told = members.iter().map(|member| member.1).min().unwrap();
    let now = generation(world);
    let Member(sidecar, has) = &mut members[usize::try_from(random.below(2)).unwrap()];
    match random.below(8) {
        0..3 => {
            sidecar.learn(world);
            *has = now;
        }
        3..5 if !sidecar.credentials(world).is_from_newest_authority() => {
            // Its own limit of requests may be reached; it tries again.
            if sidecar.renew(world).is_ok() {
                *has = now;
            }
        }
        // What sidecars had acknowledged before, they acknowledge again when they come back.
        5 => {
            let bundle = world.authority().bundle();
            world.restart().unwrap();
            assert_eq!(world.authority().bundle(), bundle);
            for member in members.iter_mut() {
                member.1 = u64::from(member.1 == now);
            }
        }
        6 if random.below(16) == 0 => world.authority().rotate_leaves(world.now).unwrap_or(()),
        _ => return world.advance(told),
    }
    world.now += MINUTE / 4;
    Phase::Stable
}

#[test]
fn nobody_is_cut_off_whatever_the_order_of_events() {
    for seed in 0..6 {
        let (mut world, mut random) = (World::new(), Random(seed));
        let mut members = ["a", "b"].map(|name| Member(world.enrol(name), 1));
        let old = roots(&world);
        world.authority().begin_rotation(world.now).unwrap();
        let mut steps = 0;
        while world.authority().status(world.now).phase != Phase::Stable {
            step(&mut world, &mut members, &mut random);
            everybody_accepts_everybody(&world, &members, seed);
            steps += 1;
            assert!(steps < 2000, "seed {seed} does not end");
        }
        assert!(!roots(&world).contains(&old), "seed {seed}");
    }
}
