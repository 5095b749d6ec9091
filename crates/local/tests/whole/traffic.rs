//! Everything that asks `echo` at the same time, in every way there is.

use std::process::Command;

use serde_json::{Value, json};

use crate::load::{Load, Shape, URL};
use crate::world::{World, is_soak};

/// A request in a new connection, each time.
const NEW: [&str; 4] = ["-c", "4", "-H", "Connection: close"];
const ECHO: &str = "echo.default.svc.cluster.local:90";

/// Loads that are made.
pub(crate) struct Traffic<'w>(Vec<Load<'w>>);

impl<'w> Traffic<'w> {
    /// The load that everything is shown under: requests on connections that are kept.
    #[track_caller]
    pub(crate) fn plain(world: &'w World, name: &str) -> Self {
        let rate = if is_soak() { "1000" } else { "200" };
        let keep = shape(name, URL, rate, &["-c", "8"]);
        Self::begin(world, &[keep])
    }

    /// Likewise, and new connections, and HTTP/2.
    #[track_caller]
    pub(crate) fn requests(world: &'w World) -> Self {
        Self::mixed(world, 3)
    }

    /// Likewise, and an echo of bytes, of which no sidecar knows where an answer ends.
    #[track_caller]
    pub(crate) fn every(world: &'w World) -> Self {
        Self::mixed(world, 4)
    }

    /// From outside of the mesh: on connections that are kept, and on new ones.
    #[track_caller]
    pub(crate) fn outside(world: &'w World, url: &str) -> Self {
        let rates = if is_soak() {
            ["400", "200"]
        } else {
            ["80", "40"]
        };
        let shapes = [
            shape("outside", url, rates[0], &["-c", "8"]),
            shape("outside-new", url, rates[1], &NEW),
        ];
        let leno = |words: &[&str]| {
            let mut command = Command::new(world.file("leno"));
            command.args(words);
            command
        };
        Self(
            shapes
                .map(|shape| Load::start_by(world, shape, leno))
                .into(),
        )
    }

    fn mixed(world: &'w World, kinds: usize) -> Self {
        let rates = if is_soak() {
            ["400", "200"]
        } else {
            ["80", "40"]
        };
        let http2 = ["-c", "2", "--streams", "4", "--protocol", "http2"];
        let tcp = ["-c", "4", "--protocol", "tcp", "--body-size", "256"];
        let shapes = [
            shape("keep", URL, rates[0], &["-c", "8"]),
            shape("new", URL, rates[1], &NEW),
            shape("http2", URL, rates[1], &http2),
            shape("tcp", ECHO, rates[1], &tcp),
        ];
        Self::begin(world, &shapes[..kinds])
    }

    fn begin(world: &'w World, shapes: &[Shape<'_>]) -> Self {
        let loads = shapes.iter().map(|shape| Load::start(world, *shape));
        let traffic = Self(loads.collect());
        traffic.pass(100);
        traffic
    }

    /// Waits until so many more requests were made.
    #[track_caller]
    pub(crate) fn pass(&self, requests: u64) {
        self.0[0].pass(requests);
    }

    /// Ends; every request that was sent was answered as it should be.
    #[track_caller]
    pub(crate) fn assert_nothing_lost(self) {
        self.0.into_iter().for_each(Load::assert_nothing_lost);
    }

    /// Ends; all requests were answered, some with 503. How many.
    #[track_caller]
    pub(crate) fn assert_only_unavailable(self) -> u64 {
        let mut unavailable = 0;
        for load in self.0 {
            let said = load.end();
            assert_eq!(said["Leno"]["Failures"], json!({}));
            let codes = said["RetCodes"].as_object().unwrap();
            let is_either = |code: &String| code == "200" || code == "503";
            assert!(codes.keys().all(is_either), "{codes:?}");
            unavailable += codes.get("503").and_then(Value::as_u64).unwrap_or(0);
        }
        unavailable
    }
}

const fn shape<'a>(name: &'a str, url: &'a str, rate: &'a str, more: &'a [&'a str]) -> Shape<'a> {
    Shape {
        name,
        url,
        rate,
        more,
    }
}
