//! THE table of loads: what asks, how, and through which transport. Called by `soak`, which takes
//! them in turn.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::generator::{self, Answers};
use super::pair::Pair;
use super::visits;

/// What runs at the same time.
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) parts: &'static [Part],
}

/// One source of requests, sent to one of the outbound sidecar's listeners.
pub(super) struct Part {
    pub(super) listener: &'static str,
    what: What,
}

enum What {
    /// `leno load` with these arguments, perhaps behind a path, for the whole round.
    Generator(&'static str),
    /// The same again and again, each time on new connections.
    Churn(&'static str),
    /// What the generator does not speak: chunks both ways at once, and upgrades.
    Visits,
}

/// So long one run of a [`What::Churn`] lasts: some requests per connection.
const CHURN_LENGTH: Duration = Duration::from_millis(200);

/// Each protocol in a mix, at rates that leave a small machine some air.
macro_rules! mixed {
    ($http:literal, $tcp:literal) => {
        &[
            part($http, "--qps 200 -c 8 --size 1024"),
            part($http, "--qps 10 -c 2 --size 1048576"),
            part(
                $http,
                "--protocol http2 --qps 200 -c 4 --streams 20 --size 1024",
            ),
            part(
                $http,
                "--protocol grpc --qps 100 -c 2 --streams 10 --body-size 512",
            ),
            part(
                $http,
                "--protocol grpc --grpc-mode stream --qps 100 -c 2 --streams 5",
            ),
            part($tcp, "--protocol tcp --qps 100 -c 8 --body-size 2048"),
            visits($http),
        ]
    };
}

pub(super) const LOADS: &[Load] = &[
    Load {
        name: "mixed-leno",
        parts: mixed!("leno", "leno-tcp"),
    },
    Load {
        name: "large",
        parts: &[
            part("mtls", "--qps 25 -c 8 --size 1048576"),
            part(
                "leno",
                "--protocol http2 --qps 25 -c 2 --streams 8 --size 1048576",
            ),
            part(
                "leno-tcp",
                "--protocol tcp --qps 25 -c 4 --body-size 262144",
            ),
        ],
    },
    Load {
        name: "mixed-mtls",
        parts: mixed!("mtls", "mtls-tcp"),
    },
    Load {
        name: "uploads",
        parts: &[
            part("mtls", "--qps 100 -c 8 --body-size 65536"),
            part(
                "leno",
                "--protocol http2 --qps 100 -c 2 --streams 8 --body-size 65536",
            ),
            part(
                "leno",
                "--protocol grpc --qps 50 -c 2 --streams 4 --body-size 200000",
            ),
        ],
    },
    Load {
        name: "churn",
        parts: &[
            churn("leno", "--qps 200 -c 20"),
            churn("mtls", "--qps 200 -c 20 --protocol http2 --streams 4"),
            churn("leno", "--qps 200 -c 20 --protocol grpc --streams 4"),
            churn("leno", "--qps 200 -c 20 --protocol grpc --grpc-mode stream"),
            churn("mtls-tcp", "--qps 200 -c 20 --protocol tcp --body-size 100"),
            churn(
                "leno-tcp",
                "--qps max -c 4 --protocol tcp --body-size 100000",
            ),
            churn("mtls", "--qps max -c 4 --body-size 100000"),
        ],
    },
    Load {
        name: "full",
        parts: &[
            part("mtls", "--qps max -c 32 --size 1024"),
            part("leno", "--qps max -c 32 --size 1024"),
        ],
    },
    // Last: when such a storm is over, a sidecar gives memory back, and what it has then can be
    // compared. The delay keeps as many connections busy between the sidecars.
    Load {
        name: "many",
        parts: &[
            part("mtls", "/?delay=300ms --qps 500 -c 250 --size 128"),
            part("leno", "--qps 500 -c 250 --size 128"),
        ],
    },
];

const fn part(listener: &'static str, args: &'static str) -> Part {
    let what = What::Generator(args);
    Part { listener, what }
}

const fn churn(listener: &'static str, args: &'static str) -> Part {
    let what = What::Churn(args);
    Part { listener, what }
}

const fn visits(listener: &'static str) -> Part {
    let what = What::Visits;
    Part { listener, what }
}

impl Part {
    /// Asks for so long.
    pub(super) fn run(&self, pair: &Pair, length: Duration) -> Result<Answers> {
        let until = Instant::now() + length;
        match self.what {
            What::Generator(args) => generator::run(pair, self.listener, args, length),
            What::Churn(args) => {
                let mut answers = Answers::default();
                while Instant::now() < until {
                    answers.add(generator::run(pair, self.listener, args, CHURN_LENGTH)?);
                }
                Ok(answers)
            }
            What::Visits => Ok(visits::run(pair.address(self.listener), until)),
        }
    }
}
