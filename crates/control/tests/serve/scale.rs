//! ad hoc
use std::fmt::Write;
use crate::sidecar::{Sidecar, connect, enrol, member};
use crate::world::World;
use xds::kind::Kind;
#[tokio::test]
async fn adhoc() {
    let world = World::new();
    let n = 300;
    let mut text = String::new();
    for i in 0..n {
        write!(text, "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s{i}}}\nspec: {{selector: {{app: w{i}}}, ports: [{{port: 80, targetPort: 8080, appProtocol: http}}]}}\n---\napiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {{name: w{i}, labels: {{app: w{i}}}}}\nspec: {{serviceAccount: w{i}, ports: [{{port: 8080, protocol: http}}]}}\n---\napiVersion: leno.dev/v1alpha1\nkind: WorkloadStatus\nmetadata: {{name: w{i}}}\nstatus: {{addresses: [10.77.{}.{}]}}\n", 1+i/250, 1+i%250).unwrap();
    }
    world.write("scale.yaml", &text);
    world.wait("/mesh", |m| m["workloads"].as_object().unwrap().len() > 200).await;
    let rss = || { let s = std::fs::read_to_string(format!("/proc/{}/statm", world.pid())).unwrap(); s.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4 };
    eprintln!("before {} KiB", rss());
    let mut keep = Vec::new();
    let mut creds = Vec::new();
    for i in 0..n { creds.push(enrol(&world, &format!("w{i}")).await); }
    eprintln!("enrolled {} KiB", rss());
    let mut chans = Vec::new();
    for c in &creds { chans.push(connect(&world, member(c)).await); }
    eprintln!("connected only {} KiB", rss());
    for (i, ch) in chans.into_iter().enumerate() {
        let mut s = Sidecar::new(&format!("w{i}"));
        s.connect(&ch).await.unwrap();
        keep.push((ch, s));
    }
    eprintln!("connected {} KiB; names {}", rss(), keep[0].1.names(Kind::Cluster).len());
    let start = std::time::Instant::now();
    world.write("status.yaml", &crate::world::STATUS.replace("10.77.0.2", "10.77.0.3"));
    for (_, s) in &mut keep { s.step().await.unwrap(); }
    eprintln!("pushed {} KiB in {:?}", rss(), start.elapsed());
    let (_, m) = world.page("/metrics").await;
    for l in m.lines().filter(|l| l.contains("push_duration") || l.contains("translation_dur") || l.contains("bytes")) { eprintln!("{l}"); }
}
