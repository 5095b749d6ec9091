//! Load from one workload, for as long as a disturbance lasts, and what became of it.

use std::fs::{self, File};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::world::{World, is_soak, until};

/// The Service that two answer for.
pub(crate) const URL: &str = "http://echo.default.svc.cluster.local/";
/// A machine that has other things to do is no reason for a failure.
const TIMEOUT: &str = "30s";

/// Requests that are being made.
pub(crate) struct Load<'w> {
    world: &'w World,
    child: Child,
}

impl<'w> Load<'w> {
    /// Begins to ask for `url`; comes back when there are answers.
    #[track_caller]
    pub(crate) fn begin(world: &'w World, url: &str) -> Self {
        let rate = if is_soak() { "1000" } else { "300" };
        let words = ["load", url, "--qps", rate, "-c", "8", "--timeout", TIMEOUT];
        let rest = ["-t", "2h", "--progress", "never", "--json", "-"];
        let child = world
            .leno("client", &[&words[..], &rest].concat())
            .stdout(File::create(world.file("load.json")).unwrap())
            .stderr(File::create(world.file("load.err")).unwrap())
            .spawn()
            .unwrap();
        let load = Self { world, child };
        load.pass(100);
        load
    }

    fn made(&self) -> u64 {
        self.world
            .count("client", "leno_requests_total", "outbound")
    }

    /// Waits until so many more requests were made.
    #[track_caller]
    pub(crate) fn pass(&self, requests: u64) {
        let goal = self.made() + requests;
        let said = || fs::read_to_string(self.world.file("load.err")).unwrap();
        until(|| (self.made() >= goal).then_some(()), said);
    }

    /// Ends; every request that fell due was answered as it should be.
    #[track_caller]
    pub(crate) fn assert_nothing_lost(mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).unwrap();
        self.child.wait().unwrap();
        let said = fs::read_to_string(self.world.file("load.json")).unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        let count = &said["DurationHistogram"]["Count"];
        let details = &said["Leno"];
        assert_eq!(
            said["RetCodes"],
            json!({"200": count}),
            "failures: {}",
            details["Failures"]
        );
        assert_eq!(
            (&details["Failures"], &details["Unfinished"]),
            (&json!({}), &json!(0))
        );
        assert!(count.as_u64() >= Some(100), "{count}");
        println!(
            "{count} requests, none failed; slowest {} s",
            said["DurationHistogram"]["Max"]
        );
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
