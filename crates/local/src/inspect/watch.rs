//! Reads the counters of all sidecars of a mesh, several at a time. Called by `leno top`.
//! Must never let one sidecar that does not answer keep the others' figures back for long.

use std::collections::HashMap;
use std::thread;

use super::edges::{Own, Reading, Services, envoy, totals};
use super::samples::parse;
use super::{Key, Sidecar, Totals};
use std::collections::BTreeMap;

/// Sidecars that are asked at the same time.
const ASKED_AT_ONCE: usize = 8;

/// What is kept between two readings.
#[derive(Default)]
pub struct Watch {
    known: HashMap<String, About>,
}

/// What a sidecar says of itself, which changes rarely.
#[derive(Clone, Default)]
struct About {
    identity: Option<String>,
    services: Services,
    /// Whom it calls, if it is an Envoy.
    callees: envoy::Callees,
}

/// One look at all sidecars.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Of those that answered.
    pub reading: Reading,
    /// Those that did not, and why.
    pub silent: Vec<(String, String)>,
}

impl Watch {
    /// Reads all of them.
    pub fn look(&mut self, sidecars: &[Sidecar]) -> Look {
        let known = &self.known;
        let share = sidecars.len().div_ceil(ASKED_AT_ONCE).max(1);
        let asked = thread::scope(|scope| {
            let workers: Vec<_> = sidecars
                .chunks(share)
                .map(|some| scope.spawn(move || ask_all(some, known)))
                .collect();
            let answers = workers.into_iter().map(|worker| worker.join());
            answers
                .flat_map(Result::unwrap_or_default)
                .collect::<Vec<_>>()
        });
        let mut look = Look::default();
        for (instance, answer) in asked {
            match answer {
                Ok((about, totals)) => {
                    self.known.insert(instance.clone(), about);
                    look.reading.insert(instance, totals);
                }
                Err(error) => look.silent.push((instance, error)),
            }
        }
        look
    }
}

type Answer = Result<(About, BTreeMap<Key, Totals>), String>;

fn ask_all(sidecars: &[Sidecar], known: &HashMap<String, About>) -> Vec<(String, Answer)> {
    let one = |sidecar: &Sidecar| {
        let instance = sidecar.instance.to_string();
        let answer = ask(sidecar, known.get(&instance));
        (instance, answer.map_err(|error| format!("{error:#}")))
    };
    sidecars.iter().map(one).collect()
}

fn ask(sidecar: &Sidecar, known: Option<&About>) -> anyhow::Result<(About, BTreeMap<Key, Totals>)> {
    if sidecar.envoy {
        return ask_envoy(sidecar, known);
    }
    let samples = parse(&sidecar.pages.text("/metrics")?);
    let of = |about: &About| {
        let own = Own {
            name: sidecar.workload.to_string(),
            identity: about.identity.as_deref(),
            services: &about.services,
        };
        totals(&samples, &own)
    };
    if let Some(about) = known.filter(|about| about.identity.is_some()) {
        let totals = of(about);
        if totals
            .keys()
            .all(|key| about.services.knows(&key.destination))
        {
            return Ok((about.clone(), totals));
        }
    }
    let mut about = About {
        identity: sidecar.pages.json("/certs")?["id"]
            .as_str()
            .map(str::to_owned),
        services: Services::of(&sidecar.pages.json("/clusters")?),
        callees: envoy::Callees::default(),
    };
    let totals = of(&about);
    // What it does not know now, it will not know either when asked again.
    about
        .services
        .accept(totals.keys().map(|key| &key.destination));
    Ok((about, totals))
}

/// Likewise of an Envoy, through its companion.
fn ask_envoy(
    sidecar: &Sidecar,
    known: Option<&About>,
) -> anyhow::Result<(About, BTreeMap<Key, Totals>)> {
    let samples = parse(&sidecar.pages.text("/envoy/stats/prometheus")?);
    let known = known.filter(|about| about.identity.is_some() && about.callees.knows(&samples));
    let about = match known {
        Some(about) => about.clone(),
        None => About {
            identity: sidecar.pages.json("/certs")?["id"]
                .as_str()
                .map(str::to_owned),
            services: Services::default(),
            callees: envoy::Callees::of(&sidecar.pages.json(envoy::CLUSTERS)?),
        },
    };
    let own = Own {
        name: sidecar.workload.to_string(),
        identity: about.identity.as_deref(),
        services: &about.services,
    };
    let totals = envoy::totals(&samples, &own, &about.callees);
    Ok((about, totals))
}
