//! Who held a cell's throughput back: whoever was throttled by its quota in most of its periods.
//! Pure. Where a machine was busy or answers were errors, nobody is named.

use crate::results::{Cell, Link, Repeat, SidecarUsage, Spread, Verdict, pool};

/// Beyond this share of its periods, a part was the limit.
const MOST: f64 = 0.5;

/// Who was the limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limiter {
    /// Sidecars, the application or the gateway: the part that was throttled most, and the share
    /// of its periods in which it was.
    Throttled(Part, f64),
    /// No part's quota: connections and what lies between, or one thread of an application.
    Nobody,
    /// The machine had no idle time left.
    Machine,
    /// Too many answers were errors: whatever was measured, it is not throughput.
    Errors,
    /// There is no quota to look at, or nothing was measured.
    Unknown,
}

/// What has a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    ApiGatewaySidecar,
    RatingsSidecar,
    ApiGateway,
    Ratings,
    Gateway,
}

impl Part {
    /// For tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ApiGatewaySidecar => "api-gateway's sidecar",
            Self::RatingsSidecar => "ratings' sidecar",
            Self::ApiGateway => "api-gateway",
            Self::Ratings => "ratings",
            Self::Gateway => "the gateway",
        }
    }
}

impl Limiter {
    /// Of one repeat.
    pub(crate) fn of(repeat: &Repeat) -> Self {
        match repeat.verdict {
            Verdict::Void => return Self::Unknown,
            Verdict::MachineBound => return Self::Machine,
            Verdict::Valid | Verdict::Saturated => {}
        }
        if pool::is_failing(repeat.errors, repeat.requests) || repeat.requests == 0 {
            return Self::Errors;
        }
        let parts = [
            (Part::ApiGatewaySidecar, &repeat.client),
            (Part::RatingsSidecar, &repeat.server),
            (Part::ApiGateway, &repeat.client_application),
            (Part::Ratings, &repeat.server_application),
            (Part::Gateway, &repeat.gateway),
        ];
        let shares = parts.into_iter();
        let shares = shares.filter_map(|(part, usage)| Some((part, share(usage.as_ref()?)?)));
        let most = shares.max_by(|(_, a), (_, b)| a.total_cmp(b));
        match most {
            None => Self::Unknown,
            Some((part, share)) if share > MOST => Self::Throttled(part, share),
            Some(_) => Self::Nobody,
        }
    }

    /// Of a cell: what was said of most of its repeats; the worst where they disagree.
    pub(crate) fn of_cell(cell: &Cell) -> Self {
        let each: Vec<Self> = cell.counted().map(Self::of).collect();
        let named = |one: &Self| each.iter().filter(|other| other.is_as(one)).count();
        let bad = |one: &&Self| matches!(one, Self::Errors | Self::Machine);
        let worst = each.iter().find(bad).copied();
        let most = each.iter().max_by_key(|one| named(one)).copied();
        match worst.or(most).unwrap_or(Self::Unknown) {
            Self::Throttled(part, share) => {
                let shares = each.iter().filter_map(|one| match one {
                    Self::Throttled(other, share) if *other == part => Some(*share),
                    _ => None,
                });
                let middle = Spread::of(shares).map_or(share, |shares| shares.median);
                Self::Throttled(part, middle)
            }
            other => other,
        }
    }

    fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Throttled(one, _), Self::Throttled(another, _)) => one == another,
            _ => self == other,
        }
    }

    /// Whether sidecars were the limit, the application, or neither of the two.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Throttled(Part::ApiGatewaySidecar | Part::RatingsSidecar, _) => "sidecar",
            Self::Throttled(Part::ApiGateway | Part::Ratings, _) => "application",
            Self::Throttled(Part::Gateway, _) => "gateway",
            Self::Nobody => "neither",
            Self::Machine => "machine",
            Self::Errors => "errors",
            Self::Unknown => "unknown",
        }
    }

    /// The kind, and the part with its share where there is one.
    pub(crate) fn words(self, link: Link) -> String {
        match self {
            Self::Throttled(part, share)
                if link == Link::GatewayRatings || part == Part::Gateway =>
            {
                format!("{}, {:.0} %", part.name(), share * 100.0)
            }
            Self::Throttled(_, share) => format!("{}, {:.0} %", self.kind(), share * 100.0),
            _ => self.kind().to_owned(),
        }
    }
}

/// Of the periods in which it wanted to run, those in which its quota was spent.
fn share(usage: &SidecarUsage) -> Option<f64> {
    let (periods, throttled) = usage.periods.zip(usage.throttled_periods)?;
    let count = crate::units::count;
    Some(count(throttled) / count(periods.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    fn usage(periods: u64, throttled_periods: u64) -> Option<SidecarUsage> {
        let mut usage = sample::repeat("leno", 0).server.unwrap();
        usage.periods = Some(periods);
        usage.throttled_periods = Some(throttled_periods);
        Some(usage)
    }

    fn repeat(sidecar: u64, application: u64) -> Repeat {
        let mut repeat = sample::repeat("leno", 0);
        repeat.client = usage(50, sidecar);
        repeat.server = usage(50, 0);
        repeat.client_application = usage(50, application);
        repeat
    }

    #[test]
    fn who_is_throttled_in_most_periods_is_the_limit() {
        let kind = |sidecar, application| Limiter::of(&repeat(sidecar, application)).kind();
        assert_eq!(kind(48, 0), "sidecar");
        assert_eq!(kind(10, 45), "application");
        assert_eq!(kind(30, 49), "application");
        assert_eq!(kind(20, 20), "neither");
        let words = Limiter::of(&repeat(48, 0)).words(Link::GatewayRatings);
        assert_eq!(words, "api-gateway's sidecar, 96 %");
    }

    #[test]
    fn a_busy_machine_and_errors_name_nobody() {
        let mut busy = repeat(50, 0);
        busy.verdict = Verdict::MachineBound;
        assert_eq!(Limiter::of(&busy).kind(), "machine");
        let mut failed = repeat(50, 0);
        failed.errors = failed.requests / 500;
        assert_eq!(Limiter::of(&failed).kind(), "errors");
        failed.errors = failed.requests / 5_000;
        assert_eq!(Limiter::of(&failed).kind(), "sidecar");
    }

    #[test]
    fn one_repeat_with_errors_spoils_its_cell() {
        let mut cell = Cell {
            key: repeat(0, 0).key,
            repeats: vec![repeat(48, 0), repeat(48, 0), repeat(48, 0)],
        };
        assert_eq!(Limiter::of_cell(&cell).kind(), "sidecar");
        cell.repeats[1].errors = cell.repeats[1].requests / 100;
        assert_eq!(Limiter::of_cell(&cell).kind(), "errors");
    }

    #[test]
    fn without_a_quota_nothing_is_known() {
        let mut repeat = repeat(0, 0);
        for usage in [
            &mut repeat.client,
            &mut repeat.server,
            &mut repeat.client_application,
        ] {
            let usage = usage.as_mut().unwrap();
            (usage.periods, usage.throttled_periods) = (None, None);
        }
        assert_eq!(Limiter::of(&repeat).kind(), "unknown");
    }
}
