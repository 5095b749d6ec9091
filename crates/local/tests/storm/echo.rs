//! Connections whose bytes nobody reads, from a workload to the echo of `echo`.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::world::{World, until};

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(30);
const LISTENER: &str = "outbound|90|echo.default.svc.cluster.local";

pub(crate) struct Opaque(Vec<TcpStream>);

impl Opaque {
    /// So many connections, each of which has been answered.
    #[track_caller]
    pub(crate) fn open(world: &World, workload: &str, count: usize) -> Self {
        let target = target(world, workload);
        let connect = || TcpStream::connect(target).unwrap();
        let mut opaque = Self(world.inside(workload, || (0..count).map(|_| connect()).collect()));
        opaque.assert_alive();
        opaque
    }

    /// Each is answered.
    #[track_caller]
    pub(crate) fn assert_alive(&mut self) {
        for stream in &mut self.0 {
            assert!(is_answered(stream));
        }
    }

    /// Waits until all have ended.
    #[track_caller]
    pub(crate) fn await_end(&mut self) {
        for stream in &mut self.0 {
            stream.set_nonblocking(true).unwrap();
            let ended = || match (&*stream).read(&mut [0; 16]) {
                Ok(0) => Some(()),
                Ok(_) => None,
                Err(error) => (error.kind() != ErrorKind::WouldBlock).then_some(()),
            };
            until(ended, || "it goes on".into());
        }
    }
}

/// Whether a new connection is answered.
pub(crate) fn is_served(world: &World, workload: &str) -> bool {
    let target = target(world, workload);
    world.inside(workload, || {
        TcpStream::connect(target).is_ok_and(|mut one| is_answered(&mut one))
    })
}

fn is_answered(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 4];
    let said = stream
        .write_all(b"ping")
        .and_then(|()| stream.read_exact(&mut answer));
    said.is_ok() && answer == *b"ping"
}

/// Where `workload` reaches the echo.
fn target(world: &World, workload: &str) -> SocketAddr {
    let page: Value = serde_json::from_str(&world.page(workload, "/config_dump")).unwrap();
    let listeners = page["config"]["listeners"].as_array().unwrap();
    let named = listeners.iter().find(|one| one["name"] == LISTENER);
    named
        .and_then(|one| one["address"].as_str())
        .unwrap()
        .parse()
        .unwrap()
}
