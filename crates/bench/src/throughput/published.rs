//! What the reports of osm-edge 1.1.0 against osm 1.1.0 (2022) print for the link gateway-ratings,
//! with their mistakes put right. Measured elsewhere, on other hardware, by other people: to be
//! stood beside our figures, never to be compared with them. Plain data.

/// A row of the reports' table.
pub(crate) struct Row {
    /// As the reports call it, and what carries the requests.
    pub(crate) mesh: &'static str,
    /// CPUs of each sidecar; none without sidecars.
    pub(crate) max_cpu: Option<u32>,
    pub(crate) tps: u32,
    /// Milliseconds.
    pub(crate) p90: u32,
    pub(crate) p95: u32,
    pub(crate) p99: u32,
    /// Of api-gateway's sidecar, in percent of one CPU, and MiB.
    pub(crate) usage: Option<(u32, u32)>,
}

/// In the reports' order.
pub(crate) const ROWS: [Row; 5] = [
    Row {
        mesh: "no mesh",
        max_cpu: None,
        tps: 3283,
        p90: 87,
        p95: 89,
        p99: 97,
        usage: None,
    },
    Row {
        mesh: "osm-edge (Pipy)",
        max_cpu: Some(2),
        tps: 3395,
        p90: 77,
        p95: 79,
        p99: 84,
        usage: Some((130, 52)),
    },
    Row {
        mesh: "osm (Envoy)",
        max_cpu: Some(2),
        tps: 2189,
        p90: 102,
        p95: 104,
        p99: 109,
        usage: Some((200, 108)),
    },
    Row {
        mesh: "osm-edge (Pipy)",
        max_cpu: Some(1),
        tps: 2839,
        p90: 76,
        p95: 77,
        p99: 79,
        usage: Some((100, 34)),
    },
    Row {
        mesh: "osm (Envoy)",
        max_cpu: Some(1),
        tps: 1097,
        p90: 201,
        p95: 203,
        p99: 285,
        usage: Some((100, 105)),
    },
];

/// What a reader must know of them, one sentence each.
pub(crate) const NOTES: [&str; 3] = [
    "Published rows are of the reports of osm-edge 1.1.0 against osm 1.1.0: two nodes with 16 CPUs \
     each, k3s, Spring services, JMeter with 200 threads. Other hardware, other applications: they \
     show what was found there and compare with nothing here.",
    "Two of the three reports call the last row osm-edge's; it is osm's, as their text and the \
     order of their rounds say.",
    "That a mesh is faster there than none is not the mesh's merit: the reports themselves say \
     that the application was the limit of both rounds.",
];
