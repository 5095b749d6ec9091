//! The report that people read at the end of a run.

use super::{
    fortio::{failure_name, status_name},
    percentile,
};
use crate::{Outcome, Plan, Protocol, Verdict, serve::Served};
use hdrhistogram::Histogram;
use std::fmt::{self, Write};

const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

/// The run in a few lines: what was asked, what came, how long it took, and the verdict.
pub fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    write(&mut text, outcome).expect("a string takes everything");
    text
}

/// A server's delays in one line.
pub fn delay(served: &Served) -> String {
    let show = |percent| percentile(&served.delays, percent).map_or_else(|| "-".to_owned(), time);
    format!(
        "{} answers over {} connections; own delay P50 {}, P99 {}, max {}",
        served.answers,
        served.connections,
        show(50.0),
        show(99.0),
        time(served.delays.max()),
    )
}

fn write(text: &mut String, outcome: &Outcome) -> fmt::Result {
    let plan = &outcome.plan;
    let what = match plan.protocol {
        Protocol::Http1 | Protocol::Http2 => format!("{} ", plan.method),
        Protocol::Grpc(_) | Protocol::Tcp => String::new(),
    };
    writeln!(text, "{what}{} ({})", plan.url, outcome.address)?;
    writeln!(
        text,
        "  {}, {}, {} s measured after {} s warm-up",
        protocol_name(plan.protocol),
        concurrency(plan),
        (outcome.window.as_secs_f64() * 1e3).round() / 1e3,
        plan.warm_up.as_secs_f64(),
    )?;
    match outcome.asked_rate {
        Some(asked) => writeln!(
            text,
            "  rate       {:.1}/s achieved of {asked:.1}/s asked ({:.1} %)",
            outcome.achieved_rate,
            100.0 * outcome.achieved_rate / asked,
        )?,
        None => writeln!(
            text,
            "  rate       {:.1}/s, as fast as it goes",
            outcome.achieved_rate
        )?,
    }
    answers(text, outcome)?;
    latency(text, outcome)?;
    writeln!(
        text,
        "  generator  {:.3} s of CPU, {:.1} % of one on its busiest thread, \
         {} late sends (worst {})",
        outcome.generator.cpu.as_secs_f64(),
        100.0 * outcome.generator.busiest,
        outcome.late_sends,
        time(crate::clock::duration(outcome.worst_lateness)),
    )?;
    let meaning = match &outcome.verdict {
        Verdict::Valid => "",
        Verdict::Saturated => " (the target took less than 99 % of what was asked)",
        Verdict::Void { .. } => " (these figures say nothing about the target)",
    };
    writeln!(text, "  verdict    {}{meaning}", outcome.verdict)
}

fn protocol_name(protocol: Protocol) -> String {
    match protocol {
        Protocol::Grpc(mode) => format!("grpc {}", mode.name()),
        Protocol::Http1 | Protocol::Http2 | Protocol::Tcp => protocol.name().to_owned(),
    }
}

fn concurrency(plan: &Plan) -> String {
    let connections = plan.connections;
    if plan.protocol.has_streams() {
        format!("{connections} connections × {} streams", plan.streams)
    } else {
        format!("{connections} connections")
    }
}

fn answers(text: &mut String, outcome: &Outcome) -> fmt::Result {
    write!(text, "  requests   {}", outcome.requests)?;
    for (status, count) in &outcome.statuses {
        let status = status_name(outcome.plan.protocol, *status);
        write!(text, ", {count} × {status}")?;
    }
    for (failure, count) in &outcome.failures {
        write!(text, ", {count} × {}", failure_name(*failure))?;
    }
    if outcome.unfinished > 0 {
        write!(text, ", {} never sent", outcome.unfinished)?;
    }
    if outcome.reconnects > 0 {
        write!(text, "; {} reconnects", outcome.reconnects)?;
    }
    writeln!(text)
}

fn latency(text: &mut String, outcome: &Outcome) -> fmt::Result {
    let columns: &[(&str, &Histogram<u64>)] = match outcome.asked_rate {
        Some(_) => &[
            ("from intended", &outcome.latency),
            ("from send", &outcome.latency_from_send),
        ],
        None => &[("from send", &outcome.latency_from_send)],
    };
    write!(text, "  latency   ")?;
    for (title, _) in columns {
        write!(text, " {title:>14}")?;
    }
    writeln!(text)?;
    for percent in PERCENTILES {
        if percentile(&outcome.latency, percent).is_some() {
            let name = format!("P{percent}");
            row(text, &name, columns, |histogram| {
                percentile(histogram, percent)
            })?;
        }
    }
    let some = |histogram: &Histogram<u64>| !histogram.is_empty();
    row(text, "max", columns, |histogram| {
        some(histogram).then(|| histogram.max())
    })?;
    row(text, "mean", columns, |histogram| {
        some(histogram).then(|| histogram.mean() as u64)
    })
}

fn row(
    text: &mut String,
    name: &str,
    columns: &[(&str, &Histogram<u64>)],
    value: impl Fn(&Histogram<u64>) -> Option<u64>,
) -> fmt::Result {
    write!(text, "    {name:<8}")?;
    for (_, histogram) in columns {
        let shown = value(histogram).map_or_else(|| "-".to_owned(), time);
        write!(text, " {shown:>14}")?;
    }
    writeln!(text)
}

/// Nanoseconds with a unit that keeps the figure short.
fn time(nanos: u64) -> String {
    let nanos = nanos as f64;
    match nanos {
        _ if nanos < 1e6 => format!("{:.1} µs", nanos / 1e3),
        _ if nanos < 1e9 => format!("{:.3} ms", nanos / 1e6),
        _ => format!("{:.3} s", nanos / 1e9),
    }
}
